//! What we own is put back; what others add stays; the guard keeps accidents off.

use serde_json::{Value, json};

use meshgate_core::break_glass::Note;

use super::{CONFIG, SECONDS, check, gate, lab, paths, version};
use crate::lab::harness::{Lab, Meshgate, User, within};
use crate::support::in_hours;
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
    // The term is one of AKS'.
    let added = "the matchCondition theirs";
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
    notes(lab).await;
    with_a_note(lab, &open).await;
    what_is_called(lab).await;
}

const GLASS: &str = "/metadata/annotations/meshgate.io~1break-glass";

/// A note whose end is so far away.
fn note(hours: i64) -> String {
    format!(
        "alice: the mesh is being replaced; until={}",
        in_hours(hours)
    )
}

/// With who, why and an end, one condition may be added and nothing else; it stays until the glass is mended.
async fn with_a_note(lab: &Lab, open: &Value) {
    let broken = json!([
        {"op": "add", "path": GLASS, "value": note(1)},
        {"op": "add", "path": "/webhooks/0/matchConditions/-",
            "value": {"name": "break-glass", "expression": "false"}},
    ]);
    let mut wider = broken.clone();
    wider
        .as_array_mut()
        .unwrap()
        .extend(open.as_array().unwrap().iter().cloned());
    let refused = lab.patch_as(User::Alice, &gate(), &wider).await;
    assert!(
        refused.err.contains("a matchCondition break-glass"),
        "{refused:?}"
    );
    lab.patch_as(User::Alice, &gate(), &broken).await.ok();
    // It looks at both: the other one is closed again, this one left alone.
    lab.patch_as(User::Writer, &check(), open).await.ok();
    becomes(lab, &check(), "is closed again", is_closed).await;
    let is_open = |object: &Value| object["webhooks"][0].to_string().contains("break-glass");
    assert!(is_open(&lab.get(&gate()).await.unwrap()));
    let mended = json!([{"op": "remove", "path": GLASS}]);
    lab.patch_as(User::Alice, &gate(), &mended).await.ok();
    becomes(lab, &gate(), "asks again", |object| !is_open(object)).await;
}

/// The guard and meshgate have one rule for notes.
async fn notes(lab: &Lab) {
    let until = note(1);
    let (_, until) = until.rsplit_once(' ').unwrap();
    let late = note(25);
    for note in [
        " ",
        "x",
        " x ",
        "x y",
        "jane: why",
        &late,
        "x y; until=9999-01-01T00:00:00Z",
        "x y; until=tomorrow",
        &format!("x; {until}"),
        &format!("x ; {until}"),
        &format!("x; injector=a; {until}"),
        &format!("x\u{a0}y; {until}"),
        &format!("x y; {until}; b"),
        &format!("x y; {until}"),
        &format!("x\ty;{until}"),
        &format!("x\ny; {until}; injector=a,b"),
        &format!("x y; until=9999-01-01T00:00:00Z; {until}"),
    ] {
        let noted = json!([{"op": "add", "path": GLASS, "value": note}]);
        let mut opened = noted.clone();
        opened.as_array_mut().unwrap().push(json!(
            {"op": "add", "path": "/webhooks/0/matchConditions/-",
                "value": {"name": "break-glass", "expression": "false"}}
        ));
        let expected = Note::parse(note).is_some_and(|note| note.is_open(in_hours(0)));
        for patch in [noted, opened] {
            let (kind, patch) = ("mutatingwebhookconfiguration", patch.to_string());
            let open = [
                "patch",
                kind,
                "admission.meshgate.io",
                "--dry-run=server",
                "--type=json",
                "-p",
                &patch,
            ];
            let tried = lab.kubectl_as(User::Alice, &open, "").await;
            assert_eq!(tried.code == Some(0), expected, "{note:?}: {tried:?}");
        }
    }
    forged(lab).await;
    ancient(lab).await;
}

/// A client may write times of its own beside the note.
async fn forged(lab: &Lab) {
    let mut forged = lab.get(&gate()).await.unwrap();
    forged["metadata"]["annotations"]["meshgate.io/break-glass"] = json!(note(48));
    let fields = json!({"f:metadata": {"f:annotations": {"f:meshgate.io/break-glass": {}}}});
    forged["metadata"]["managedFields"] = json!([{
        "manager": "forger", "operation": "Update", "apiVersion": "admissionregistration.k8s.io/v1",
        "time": "9998-12-31T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
    }]);
    for fields in [forged["metadata"]["managedFields"].clone(), json!([{}])] {
        forged["metadata"]["managedFields"] = fields;
        let replace = ["replace", "--dry-run=server", "-f", "-"];
        let tried = lab
            .kubectl_as(User::Alice, &replace, &forged.to_string())
            .await;
        assert!(tried.err.contains("an end within 24 hours"), "{tried:?}");
    }
}

/// An API server keeps the changes of ten clients apart and merges the oldest of more, with the latest of their
/// times: the note's own time would be lost among eleven from the future. So an honest note is refused there as
/// well, which shows that they are merged.
async fn ancient(lab: &Lab) {
    let names: Vec<String> = (0..11).map(|number| format!("client-{number}")).collect();
    let labels: Value = names.iter().map(|name| (name.clone(), json!(""))).collect();
    let label = json!({"metadata": {"labels": labels}});
    lab.merge(&gate(), &label).await.unwrap();
    let mut forged = lab.get(&gate()).await.unwrap();
    forged["metadata"]["managedFields"] = names.iter().map(|name| json!({
        "manager": name, "operation": "Update", "apiVersion": "admissionregistration.k8s.io/v1",
        "time": "9998-12-31T00:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {format!("f:{name}"): {}}}},
    })).collect();
    let replace = ["replace", "--dry-run=server", "-f", "-"];
    for (hours, managers) in [(1, 9), (1, 11), (48, 11)] {
        let mut forged = forged.clone();
        forged["metadata"]["annotations"]["meshgate.io/break-glass"] = json!(note(hours));
        let fields = forged["metadata"]["managedFields"].as_array_mut().unwrap();
        fields.truncate(managers);
        let forged = forged.to_string();
        let tried = lab.kubectl_as(User::Alice, &replace, &forged).await;
        let is_refused = tried.err.contains("an end within 24 hours");
        assert_eq!(is_refused, managers > 10, "{hours} {managers}: {tried:?}");
        assert!(is_refused || tried.code == Some(0), "{tried:?}");
    }
    let unlabel: Value = names
        .iter()
        .map(|name| (name.clone(), Value::Null))
        .collect();
    let unlabel = json!({"metadata": {"labels": unlabel}});
    lab.merge(&gate(), &unlabel).await.unwrap();
}

/// For all users, those who write the registration included.
async fn what_is_called(lab: &Lab) {
    let entry = lab.get(&gate()).await.unwrap()["webhooks"][0].clone();
    let mut theirs = entry.clone();
    theirs["name"] = json!("evil.example.test");
    let anything = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    let mut wide = theirs.clone();
    wide["rules"] = anything.clone();
    theirs["clientConfig"]["url"] = json!("https://127.0.0.1:1/mutate/pods");
    for (what, patch) in [
        (
            "another address",
            json!({"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": "https://evil.test/mutate/pods"}),
        ),
        (
            "a Service",
            json!({"op": "replace", "path": "/webhooks/0/clientConfig", "value": {"service": {"namespace": "a", "name": "b"}}}),
        ),
        (
            "all rules",
            json!({"op": "replace", "path": "/webhooks/0/rules", "value": anything}),
        ),
        (
            "an entry that calls elsewhere",
            json!({"op": "add", "path": "/webhooks/-", "value": theirs}),
        ),
        (
            "an entry with other rules",
            json!({"op": "add", "path": "/webhooks/-", "value": wide}),
        ),
    ] {
        let glass = json!({"op": "add", "path": GLASS, "value": note(1)});
        for user in [User::Alice, User::Writer] {
            for patch in [json!([patch]), json!([glass, patch])] {
                let refused = lab.patch_as(user, &gate(), &patch).await;
                let is_said = refused.err.contains("something other than meshgate");
                assert!(refused.code == Some(1) && is_said, "{what}: {refused:?}");
            }
        }
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
