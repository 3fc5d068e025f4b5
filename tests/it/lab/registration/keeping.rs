//! What we own is put back; what others add stays; the guard keeps accidents off.

use serde_json::{Value, json};

use meshgate_core::break_glass::note::suspends;

use super::{CONFIG, SECONDS, check, gate, lab, paths, version};
use crate::lab::harness::{Lab, Meshgate, User, within};
use crate::support::process::get;

/// Waits until an object satisfies `is_so`, and returns it.
async fn becomes(lab: &Lab, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    within(SECONDS, &format!("{path}: {what}"), async || {
        lab.get(path).await.filter(&is_so)
    })
    .await
}

fn uid(object: &Value) -> &Value {
    &object["metadata"]["uid"]
}

fn is_closed(object: &Value) -> bool {
    object["webhooks"][0]["failurePolicy"] == "Fail"
}

/// In one control plane, as it takes longer to start than all of this.
#[tokio::test]
async fn what_is_changed_or_deleted_is_put_back_and_what_is_added_stays() {
    let lab = lab(&["kube-controller-manager"], &[]).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    lab.is_closed().await;
    deletions(&lab).await;
    additions(&lab).await;
    narrowing(&lab, &meshgate).await;
    bindings(&lab).await;
    guard(&lab).await;
    owner(&lab).await;
    our_namespace(&lab, &meshgate).await;
}

/// Each object comes back, as a new one, closed at once.
async fn deletions(lab: &Lab) {
    for path in paths().iter().skip(1) {
        let before = lab.get(path).await.unwrap();
        lab.delete_as(User::Writer, path).await.ok();
        let back = becomes(lab, path, "is back", |object| uid(object) != uid(&before)).await;
        if path.contains("webhookconfigurations") {
            assert!(is_closed(&back), "{back}");
        }
    }
    lab.is_closed().await;
}

async fn additions(lab: &Lab) {
    let term = json!({"key": "control-plane", "operator": "DoesNotExist"});
    let condition = json!({"name": "theirs", "expression": "true"});
    let mut entry = lab.get(&gate()).await.unwrap()["webhooks"][0].clone();
    entry["name"] = json!("theirs.example.test");
    entry["failurePolicy"] = json!("Ignore");
    let first = "/webhooks/0";
    let patch = json!([
        {"op": "add", "path": "/metadata/labels/theirs", "value": "yes"},
        {"op": "add", "path": format!("{first}/namespaceSelector/matchExpressions/-"), "value": term},
        {"op": "add", "path": format!("{first}/matchConditions/-"), "value": condition},
        {"op": "add", "path": "/webhooks/-", "value": entry},
    ]);
    lab.patch_as(User::Writer, &gate(), &patch).await.ok();
    let added = lab.get(&gate()).await.unwrap();
    // Now something of ours is changed, so that it has to be written.
    let open =
        json!([{"op": "replace", "path": format!("{first}/failurePolicy"), "value": "Ignore"}]);
    lab.patch_as(User::Writer, &gate(), &open).await.ok();
    let written = becomes(lab, &gate(), "is closed again", |object| {
        is_closed(object) && version(object) > version(&added)
    })
    .await;
    assert_eq!(written["metadata"]["labels"]["theirs"], "yes");
    let ours = &written["webhooks"][0];
    let has = |list: &Value, one: &Value| list.as_array().unwrap().contains(one);
    assert!(
        has(&ours["namespaceSelector"]["matchExpressions"], &term),
        "{ours}"
    );
    assert!(has(&ours["matchConditions"], &condition), "{ours}");
    let entries = written["webhooks"].as_array().unwrap();
    assert!(
        entries
            .iter()
            .any(|one| one["name"] == "theirs.example.test")
    );
    // An addition alone is no reason to write; a change elsewhere makes it look.
    let label = json!([{"op": "replace", "path": "/metadata/labels/theirs", "value": "still"}]);
    lab.patch_as(User::Writer, &gate(), &label).await.ok();
    let seen = lab.get(&gate()).await.unwrap();
    let open =
        json!([{"op": "replace", "path": format!("{first}/failurePolicy"), "value": "Ignore"}]);
    lab.patch_as(User::Writer, &check(), &open).await.ok();
    becomes(lab, &check(), "is closed again", is_closed).await;
    assert_eq!(version(&lab.get(&gate()).await.unwrap()), version(&seen));
}

/// What was added stays, but may narrow whom meshgate is asked about, and that is said.
async fn narrowing(lab: &Lab, meshgate: &Meshgate<'_>) {
    let seen = lab.get(&gate()).await.unwrap();
    let name = seen["webhooks"][0]["name"].as_str().unwrap();
    let added = "the matchCondition theirs, control-plane DoesNotExist to its namespaceSelector";
    let said = format!("{name} (another client added {added})");
    within(SECONDS, "it is said", async || {
        let is_counted = meshgate
            .metrics()
            .contains("meshgate_registration_narrowed 1");
        let ready = get(meshgate.probes, "/readyz?verbose");
        (is_counted && ready.contains(&said)).then_some(())
    })
    .await;
    let log = meshgate.log();
    let warned = log
        .lines()
        .filter(|line| line.contains("WARN") && line.contains(&said));
    assert_eq!(warned.count(), 1);
}

/// Where a binding holds is ours: a client that narrows it switches off what it binds.
async fn bindings(lab: &Lab) {
    for path in paths().iter().filter(|path| path.contains("bindings/")) {
        let selector = json!({"matchLabels": {"no": "such"}});
        let place = "/spec/matchResources/namespaceSelector";
        let patch = json!([{"op": "add", "path": place, "value": selector}]);
        lab.patch_as(User::Writer, path, &patch).await.ok();
        becomes(lab, path, "holds everywhere again", |object| {
            object
                .pointer(place)
                .is_some_and(|selector| *selector == json!({}))
        })
        .await;
    }
}

/// Alice may do everything, and is not the one that meshgate writes as.
async fn guard(lab: &Lab) {
    let bind = [
        "create",
        "clusterrolebinding",
        "alice",
        "--clusterrole=cluster-admin",
        "--user=alice",
    ];
    lab.kubectl(&bind).await.ok();
    let open = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    for path in [gate(), check()] {
        for refused in [
            lab.delete_as(User::Alice, &path).await,
            lab.patch_as(User::Alice, &path, &open).await,
        ] {
            assert_eq!(refused.code, Some(1), "{refused:?}");
            assert!(
                refused.err.contains("meshgate.io/break-glass"),
                "{}",
                refused.err
            );
        }
        let label = json!([{"op": "add", "path": "/metadata/labels/alice", "value": "was-here"}]);
        lab.patch_as(User::Alice, &path, &label).await.ok();
    }
    two_words_suspend_enforcement(lab).await;
    // With who and why it goes, and stays until the glass is mended.
    let glass = "/metadata/annotations/meshgate.io~1break-glass";
    let broken = json!([
        {"op": "add", "path": glass, "value": "alice: the mesh is being replaced"},
        {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"},
    ]);
    lab.patch_as(User::Alice, &gate(), &broken).await.ok();
    // It looks at both: the other one is closed again, this one left alone.
    lab.patch_as(User::Writer, &check(), &open).await.ok();
    becomes(lab, &check(), "is closed again", is_closed).await;
    assert!(!is_closed(&lab.get(&gate()).await.unwrap()));
    let mended = json!([{"op": "remove", "path": glass}]);
    lab.patch_as(User::Alice, &gate(), &mended).await.ok();
    becomes(lab, &gate(), "is closed again", is_closed).await;
}

/// The guard and meshgate have one rule: where the guard lets something pass, meshgate leaves it.
async fn two_words_suspend_enforcement(lab: &Lab) {
    for note in [
        "",
        " ",
        "x",
        " x ",
        "x\u{a0}y",
        "x y",
        "x\ty",
        "x\ny",
        "jane: why",
    ] {
        let opened = json!({
            "metadata": {"annotations": {"meshgate.io/break-glass": note}},
            // Everything but a webhook is free for all.
            "webhooks": [],
        });
        let (kind, name) = ("mutatingwebhookconfiguration", "admission.meshgate.io");
        let patch = opened.to_string();
        let open = [
            "patch",
            kind,
            name,
            "--dry-run=server",
            "--type=merge",
            "-p",
            &patch,
        ];
        let tried = lab.kubectl_as(User::Alice, &open, "").await;
        let passes = tried.code == Some(0);
        assert_eq!(passes, suspends(note), "{note:?}: {tried:?}");
    }
}

/// The garbage collector gets through the guard, and everything is made anew, owned by the new one.
async fn owner(lab: &Lab) {
    let role = &paths()[0];
    let old = lab.get(role).await.unwrap();
    lab.delete_as(User::Writer, role).await.ok();
    let new = becomes(lab, role, "is back", |object| uid(object) != uid(&old)).await;
    for path in &paths()[1..] {
        becomes(lab, path, "has the new owner", |object| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| owners.len() == 1 && owners[0]["uid"] == *uid(&new))
        })
        .await;
    }
    lab.is_closed().await;
}

/// Without a meshgate the collector alone takes everything; with one, the end of our namespace does.
async fn our_namespace(lab: &Lab, meshgate: &Meshgate<'_>) {
    lab.kubectl(&["delete", "namespace", "meshgate-system", "--wait=false"])
        .await
        .ok();
    let gone = async || {
        let versions = lab.versions(&paths()).await;
        versions.iter().all(Option::is_none).then_some(())
    };
    within(SECONDS, "the registration is gone", gone).await;
    let missing = async || {
        let namespace = lab.get("/api/v1/namespaces/meshgate-system").await;
        namespace.is_none().then_some(())
    };
    within(SECONDS, "our namespace is gone", missing).await;
    // A stray object of ours is deleted by the look that it brings about, which was had after the
    // namespace was gone: it does not come back by our doing, and nothing with it.
    let labels = json!({"app.kubernetes.io/managed-by": "meshgate"});
    let stray = json!({"metadata": {"name": "namespaces.meshgate.io", "labels": labels}});
    let gate = gate();
    let (all, _) = gate.rsplit_once('/').unwrap();
    lab.create(all, &stray).await.unwrap();
    within(SECONDS, "it has looked", async || {
        let stray = lab.get(&format!("{all}/namespaces.meshgate.io")).await;
        stray.is_none().then_some(())
    })
    .await;
    assert_eq!(lab.get("/api/v1/namespaces/meshgate-system").await, None);
    // Another controller may bring it back.
    assert!(lab.versions(&paths()).await.iter().all(Option::is_none));
    lab.grant().await;
    lab.is_closed().await;
    meshgate.order("stop").await;
    lab.delete_as(User::Writer, &paths()[0]).await.ok();
    within(SECONDS, "the collector has taken all", gone).await;
}
