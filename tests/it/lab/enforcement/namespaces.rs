//! The life of namespaces without meshgate.

use serde_json::{Value, json};

use super::guarded::{CONFIG, INJECT};
use crate::lab::harness::{Lab, Meshgate, Options, PATIENCE, Who, within};

const MERGE: &str = "merge-patch";

fn path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}")
}

fn marks(key: &str, value: &Value) -> Value {
    json!({"metadata": {key: value}})
}

/// All that happens to a namespace but a change of the annotation, up to its deletion. What is
/// refused is added to `wrong`.
pub(super) async fn live(lab: &Lab, namespace: &str, wrong: &mut Vec<String>) {
    let admin = lab.call(Who::Admin);
    let path = path(namespace);
    let patches = [
        ("annotate", marks("annotations", &json!({"team": "a"}))),
        ("label", marks("labels", &json!({"team": "a"}))),
        ("hold", marks("finalizers", &json!(["example.com/held"]))),
        ("let go of", marks("finalizers", &Value::Null)),
    ];
    let mut answers = Vec::new();
    for (what, patch) in patches {
        answers.push((what, admin.patch(&path, MERGE, &patch).await));
    }
    let config_map = json!({"metadata": {"name": "settings"}, "data": {"a": "b"}});
    let config_maps = format!("{path}/configmaps");
    answers.push((
        "a ConfigMap in",
        admin.post(&config_maps, &config_map).await,
    ));
    answers.push(("delete", admin.delete(&path).await));
    for (what, answer) in answers {
        if !answer.is_ok() {
            wrong.push(format!("{what} {namespace}: {answer:?}"));
        }
    }
}

/// Waits until namespaces that were deleted are finalized, which begins after 5 s.
pub(super) async fn end(lab: &Lab, namespaces: &[String]) {
    for namespace in namespaces {
        let what = format!("{namespace} is finalized");
        within(PATIENCE, &what, async || {
            lab.get(&path(namespace)).await.is_none().then_some(())
        })
        .await;
    }
}

/// Where there are no MutatingAdmissionPolicies, meshgate mirrors by a webhook; while it is away only
/// what would have to be mirrored waits.
#[tokio::test]
async fn without_meshgate_only_namespaces_that_change_sides_wait_for_its_webhook() {
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver", "kube-controller-manager"],
        ..Options::default()
    })
    .await;
    let meshgate = Meshgate::with(&lab, CONFIG, &["--mirror=webhook"]).await;
    let mut wrong = Vec::new();
    let before = [&[][..], &[INJECT]];
    let before = before.map(async |annotations| lab.namespace("older", &[], annotations).await);
    let [plain, meshed] = futures::future::join_all(before).await.try_into().unwrap();
    meshgate.order("kill").await;

    let admin = lab.call(Who::Admin);
    let new = json!({"metadata": {"name": "newer", "annotations": {INJECT.0: INJECT.1}}});
    // A call that meets a connection of before ends in another error.
    within(
        PATIENCE,
        "the API server's connections are gone",
        async || {
            let dry = admin.post("/api/v1/namespaces?dryRun=All", &new).await;
            dry.message().contains("connection refused").then_some(())
        },
    )
    .await;
    let on = marks("annotations", &json!({INJECT.0: INJECT.1}));
    let off = marks("annotations", &json!({INJECT.0: null}));
    let refused = [
        (
            "create with the annotation",
            admin.post("/api/v1/namespaces", &new).await,
        ),
        ("annotate", admin.patch(&path(&plain), MERGE, &on).await),
        (
            "take the annotation away",
            admin.patch(&path(&meshed), MERGE, &off).await,
        ),
    ];
    for (what, answer) in refused {
        let says = |text| answer.message().contains(text);
        if !(says("failed calling webhook")
            && says("namespaces.meshgate.io")
            && says("connection refused"))
        {
            wrong.push(format!("{what}: {answer:?}"));
        }
    }
    let newer = lab.namespace("newer", &[], &[]).await;
    let all = [newer, plain, meshed];
    for namespace in &all {
        live(&lab, namespace, &mut wrong).await;
    }
    end(&lab, &all).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
