//! What the account of the controllers must not do to owners of pods, tried with its own token.

use hyper::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Error};
use serde_json::{Value, json};

use crate::lab::harness::{Account, HOME, Lab, within};
use crate::lab::registration::{SECONDS, lab};
use crate::lab::wake::owners::{Kind, Owner};

const FENCE: &str = "ValidatingAdmissionPolicy 'meshgate-control-wake'";

/// A client with the account's token. `kubectl patch` would read first, to which the account has no right.
async fn account(lab: &Lab) -> Client {
    let file = lab.kubeconfig_for(HOME, "meshgate-control").await;
    let file = Kubeconfig::read_from(file).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// The refusal; empty if it was let pass.
async fn refusal(client: &Client, (verb, path): (&str, &str), body: &Value) -> String {
    let kind = if verb == "PATCH" {
        "merge-patch+json"
    } else {
        "json"
    };
    let request = Request::builder().method(verb).uri(path);
    let request = request.header("Content-Type", format!("application/{kind}"));
    let request = request.body(body.to_string().into_bytes()).unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => String::new(),
        Err(Error::Api(status)) => status.message.clone(),
        Err(error) => panic!("{error}"),
    }
}

async fn patched(client: &Client, owner: &Owner, patch: &Value) -> String {
    refusal(client, ("PATCH", &owner.path("orders")), patch).await
}

fn metadata(field: &str, value: &Value) -> Value {
    json!({"metadata": {field: value}})
}

/// What the fence refuses to change of an owner.
fn fenced(kind: Kind) -> Vec<(&'static str, Value)> {
    let image = json!({"containers": [{"name": "web", "image": "example.com/evil"}]});
    let mut all = vec![
        ("the image", json!({"spec": {"template": {"spec": image}}})),
        (
            "the template",
            json!({"spec": {"template": {"metadata": {"labels": {"other": "x"}}}}}),
        ),
        ("a label", metadata("labels", &json!({"team": "b"}))),
        (
            "a label taken off",
            metadata("labels", &json!({"team": null})),
        ),
        (
            "another annotation",
            metadata("annotations", &json!({"note": "b"})),
        ),
        (
            "another annotation of ours",
            metadata("annotations", &json!({"meshgate.io/admitted": ""})),
        ),
        (
            "an annotation taken off",
            metadata("annotations", &json!({"note": null})),
        ),
        ("all annotations", metadata("annotations", &Value::Null)),
        (
            "a finalizer",
            metadata("finalizers", &json!(["example.test/a"])),
        ),
        (
            "an owner",
            metadata(
                "ownerReferences",
                &json!([
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]),
            ),
        ),
        (
            "both",
            json!({"metadata": {"annotations": {"meshgate.io/woken": "x"}, "labels": {"team": "b"}}}),
        ),
    ];
    let number = match kind {
        Kind::Job => Some(json!({"parallelism": 9})),
        Kind::DaemonSet => Some(json!({"minReadySeconds": 9})),
        Kind::ReplicaSet | Kind::StatefulSet | Kind::ReplicationController => {
            Some(json!({"replicas": 9}))
        }
    };
    all.extend(number.map(|number| ("how many", json!({"spec": number}))));
    all
}

#[tokio::test]
async fn the_account_of_the_controllers_changes_one_annotation_of_owners_and_no_more() {
    let lab = lab(&[], &[]).await;
    lab.kubeconfig_of(Account::Control).await;
    lab.ensure_namespace("orders").await;
    let owners = Kind::ALL.map(|kind| Owner::new(kind, "web"));
    for owner in &owners {
        let mut manifest = owner.manifest();
        manifest["metadata"]["labels"] = json!({"team": "a"});
        manifest["metadata"]["annotations"] = json!({"note": "a"});
        let list = owner.kind.list("orders");
        lab.create(&list, &manifest).await.unwrap();
    }
    let client = account(&lab).await;
    let label = |team: &str| metadata("labels", &json!({"team": team}));
    // Another one each time: a patch that changes nothing is let pass.
    let mut tries = 0;
    within(SECONDS, "the fence is in force", async || {
        tries += 1;
        let label = label(&format!("try-{tries}"));
        let refusal = patched(&client, &owners[0], &label).await;
        refusal.contains(FENCE).then_some(())
    })
    .await;
    lab.merge(&owners[0].path("orders"), &label("a"))
        .await
        .unwrap();
    for owner in &owners {
        for (what, patch) in fenced(owner.kind) {
            let refusal = patched(&client, owner, &patch).await;
            // Some fields the API server lets no user change.
            let by = [
                FENCE,
                "field is immutable",
                "updates to statefulset spec",
                "is invalid",
            ];
            assert!(
                by.iter().any(|by| refusal.contains(by)),
                "{what} of {owner:?}: {refusal:?}"
            );
        }
        is_forbidden(&client, owner).await;
        let before = lab.get(&owner.path("orders")).await.unwrap();
        let notes = &before["metadata"]["annotations"];
        assert_eq!(
            (&notes["note"], &notes["meshgate.io/woken"]),
            (&json!("a"), &Value::Null)
        );
        // What it is for, and what no other account is kept from.
        let woken = metadata(
            "annotations",
            &json!({"meshgate.io/woken": "2026-01-01T00:00:00Z"}),
        );
        assert_eq!(patched(&client, owner, &woken).await, "", "{owner:?}");
        lab.merge(&owner.path("orders"), &label("b")).await.unwrap();
    }
}

/// What RBAC refuses.
async fn is_forbidden(client: &Client, owner: &Owner) {
    let (path, list) = (owner.path("orders"), owner.kind.list("orders"));
    let (status, scale) = (format!("{path}/status"), format!("{path}/scale"));
    let mut another = owner.manifest();
    another["metadata"]["name"] = json!("another");
    let tries = [
        (("PATCH", status.as_str()), json!({"status": {}})),
        (("PATCH", scale.as_str()), json!({"spec": {"replicas": 9}})),
        (("POST", list.as_str()), another),
        (("PUT", path.as_str()), owner.manifest()),
        (("DELETE", path.as_str()), json!({})),
        (("GET", path.as_str()), json!({})),
    ];
    for (call, body) in tries {
        let refusal = refusal(client, call, &body).await;
        assert!(
            refusal.contains(" cannot "),
            "{call:?} of {owner:?}: {refusal:?}"
        );
    }
}
