//! `break-glass`, with no more rights than it takes, with and without a running meshgate.

use serde_json::{Value, json};

use super::harness::version::without_mutating_policies;
use super::harness::{Lab, Meshgate, User, within};
use crate::support::in_hours;

use super::registration::{CONFIG, INJECT, SECONDS, check, gate, lab, pod};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const GLASS: &str = "meshgate.io/break-glass";
const BOTH: &str = "apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
- preset: vault
";

/// What the chart grants to those who may break the glass, and nothing else.
fn rights() -> Value {
    let group = "admissionregistration.k8s.io";
    json!([
        {
            "apiGroups": [group],
            "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": ["admission.meshgate.io", "namespaces.meshgate.io"],
            "verbs": ["get", "patch"],
        },
        {
            "apiGroups": [group],
            "resources": ["validatingwebhookconfigurations"],
            "resourceNames": ["admission.meshgate.io"],
            "verbs": ["get", "patch"],
        },
        {
            "apiGroups": [group],
            "resources": ["validatingadmissionpolicybindings"],
            "verbs": ["get", "list", "patch"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ])
}

fn mirror() -> String {
    format!("{ADMISSION}/mutatingwebhookconfigurations/namespaces.meshgate.io")
}

fn bindings() -> String {
    format!("{ADMISSION}/validatingadmissionpolicybindings")
}

/// An object without what changes with every write.
async fn content(lab: &Lab, path: &str) -> Value {
    let mut object = lab.get(path).await.unwrap();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in ["resourceVersion", "generation", "managedFields"] {
        metadata.remove(key);
    }
    object
}

async fn contents(lab: &Lab, paths: &[String]) -> Vec<Value> {
    let mut all = Vec::new();
    for path in paths {
        all.push(content(lab, path).await);
    }
    all
}

/// Whether the dry run of a pod is let in; what refuses it, if it is not.
async fn tried(lab: &Lab, namespace: &str, pod: &Value) -> Result<(), String> {
    let pods = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let tried = lab.create(&pods, pod).await;
    tried.map(drop).map_err(|error| error.to_string())
}

async fn is_let_in(lab: &Lab, namespace: &str, pod: &Value) {
    within(SECONDS, "a pod is let in", async || {
        tried(lab, namespace, pod).await.ok()
    })
    .await;
}

/// Until it is refused with these words.
async fn is_refused(lab: &Lab, namespace: &str, pod: &Value, words: &str) {
    let what = format!("a pod is refused with {words}");
    within(SECONDS, &what, async || {
        let refused = tried(lab, namespace, pod).await.err()?;
        refused.contains(words).then_some(())
    })
    .await;
}

fn asking(name: &str, container: Option<&str>) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["annotations"] = json!({"vault.hashicorp.com/agent-inject": "true"});
    let containers = pod["spec"]["containers"].as_array_mut().unwrap();
    containers.extend(container.map(|name| json!({"name": name, "image": "a.test/b"})));
    pod
}

async fn events(lab: &Lab) -> Vec<String> {
    let list = lab.get("/api/v1/namespaces/default/events").await.unwrap();
    let events = list["items"].as_array().unwrap().iter();
    let events = events.filter(|one| one["involvedObject"]["name"] == "admission.meshgate.io");
    let text = |one: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        format!("{} {}", text(&one["reason"]), text(&one["message"]))
    };
    events.map(text).collect()
}

#[tokio::test]
async fn with_meshgate_dead_the_glass_is_broken_and_closed_to_the_byte() {
    let lab = lab(&[], without_mutating_policies()).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    let orders = lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    let plain = lab.namespace("plain", &[], &[]).await;
    is_refused(&lab, &orders, &pod("bare"), "requires linkerd").await;
    meshgate.order("kill").await;
    is_refused(&lab, &orders, &pod("bare"), "failed calling webhook").await;
    let all = [gate(), check(), mirror()];
    let before = contents(&lab, &all).await;

    let open = [
        "break-glass",
        "--for=15m",
        "--reason=the nodes\nare gone",
        "--yes",
    ];
    let refused = lab.tool(User::Alice, &open).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(contents(&lab, &all).await, before);
    lab.allow_alice("meshgate-break-glass", &rights()).await;
    let done = lab.tool(User::Alice, &open).await;
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
    assert!(
        done.out
            .contains("ENFORCEMENT IS SUSPENDED: alice: the nodes are gone; until="),
        "{done:?}"
    );
    // Who may break it, and no more, sees that it is.
    let status = lab.tool(User::Alice, &["status"]).await;
    let is_said = status
        .out
        .contains("ENFORCEMENT IS SUSPENDED for everything");
    assert_eq!((status.code, is_said), (Some(1), true), "{status:?}");
    is_let_in(&lab, &orders, &pod("bare")).await;
    // Annotating a namespace works too.
    let annotate = json!({"metadata": {"annotations": {INJECT: "enabled"}}});
    within(SECONDS, "a namespace is annotated", async || {
        let path = format!("/api/v1/namespaces/{plain}");
        lab.merge(&path, &annotate).await.ok()
    })
    .await;
    for object in contents(&lab, &all).await {
        let note = object["metadata"]["annotations"][GLASS].as_str().unwrap();
        assert!(
            note.starts_with("alice: the nodes are gone; until="),
            "{note}"
        );
    }
    assert!(events(&lab).await[0].starts_with("EnforcementSuspended "));

    let close = ["break-glass", "--close", "-o=json"];
    let done = lab.tool(User::Alice, &close).await.ok();
    let answer: Value = serde_json::from_str(&done).unwrap();
    assert_eq!(answer["state"], "closed");
    assert_eq!(answer["changed"].as_array().unwrap().len(), 3);
    assert_eq!(contents(&lab, &all).await, before);
    is_refused(&lab, &orders, &pod("bare"), "failed calling webhook").await;
    assert_eq!(lab.tool(User::Alice, &close).await.code, Some(1));

    // A meshgate that comes back finds all as it left it, and labels who was annotated meanwhile.
    meshgate.order("start").await;
    meshgate.armed().await;
    within(SECONDS, "it is labelled", async || {
        lab.is_labelled(&plain).await.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_living_meshgate_closes_it_when_the_time_has_come() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    let orders = lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    let bare = pod("bare");
    is_refused(&lab, &orders, &bare, "requires linkerd").await;
    let before = contents(&lab, &[gate(), check()]).await;
    let open = |time: &str| format!("--for={time}");
    let ten = open("10s");
    let open = ["break-glass", ten.as_str(), "--reason=a try", "--yes"];
    lab.tool(User::Admin, &open).await.ok();
    is_let_in(&lab, &orders, &bare).await;
    let metric = "meshgate_break_glass{injector=\"all\"} 1";
    within(SECONDS, "the metric says so", async || {
        meshgate.metrics().contains(metric).then_some(())
    })
    .await;
    is_refused(&lab, &orders, &bare, "requires linkerd").await;
    within(SECONDS, "all is as it was", async || {
        (contents(&lab, &[gate(), check()]).await == before).then_some(())
    })
    .await;
    within(SECONDS, "it is told", async || {
        let events = events(&lab).await;
        let is_told = events
            .iter()
            .any(|one| one.starts_with("EnforcementResumed the suspension has expired"));
        (is_told && !meshgate.metrics().contains(metric)).then_some(())
    })
    .await;
    meshgate.armed().await;
}

#[tokio::test]
async fn one_injector_is_given_up_and_the_others_are_not() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::start(&lab, BOTH).await;
    let orders = lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    let plain = lab.namespace("plain", &[], &[]).await;
    let (bare, vault) = (pod("bare"), asking("vault", None));
    let half = asking("half", Some("vault-agent"));
    is_refused(&lab, &orders, &bare, "requires linkerd").await;
    is_refused(&lab, &orders, &half, "requires linkerd").await;

    let with = |name: &'static str| {
        [
            "break-glass",
            "--for=15m",
            "--reason=x",
            "--yes",
            "--injector",
            name,
        ]
    };
    let unknown = lab.tool(User::Admin, &with("linkred")).await;
    assert_eq!(unknown.code, Some(2));
    assert!(
        unknown.err.contains("`linkred`, only linkerd, vault"),
        "{unknown:?}"
    );
    lab.tool(User::Admin, &with("linkerd")).await.ok();
    is_let_in(&lab, &orders, &bare).await;
    is_refused(&lab, &plain, &vault, "requires vault").await;
    is_refused(&lab, &orders, &vault, "requires vault").await;
    // Asked about for vault, and not refused for linkerd.
    is_let_in(&lab, &orders, &half).await;
    let narrower = lab.tool(User::Admin, &with("vault")).await;
    assert!(
        narrower
            .err
            .contains("suspended already for more than that"),
        "{narrower:?}"
    );

    meshgate.order("kill").await;
    is_let_in(&lab, &orders, &bare).await;
    is_refused(&lab, &plain, &vault, "failed calling webhook").await;
    meshgate.order("start").await;
    lab.tool(User::Admin, &["break-glass", "--close"])
        .await
        .ok();
    is_refused(&lab, &orders, &half, "requires linkerd").await;
}

#[tokio::test]
async fn where_policies_enforce_their_bindings_warn() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::with(&lab, BOTH, &["--enforcement=policy"]).await;
    let orders = lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    let (bare, vault) = (pod("bare"), asking("vault", None));
    lab.allow_alice("meshgate-break-glass", &rights()).await;
    let binding = |name: &str| format!("{}/{name}.check.meshgate.io", bindings());
    let all = [gate(), binding("linkerd"), binding("vault")];
    meshgate.order("kill").await;
    let before = contents(&lab, &all).await;
    is_refused(&lab, &orders, &bare, "linkerd.check.meshgate.io").await;
    let open = [
        "break-glass",
        "--for=15m",
        "--reason=x",
        "--yes",
        "--injector=linkerd",
    ];
    lab.tool(User::Alice, &open).await.ok();
    // These rights suffice to see which bindings are suspended.
    let status = lab.tool(User::Alice, &["status", "-o=json"]).await;
    let is_said = status
        .out
        .contains("ValidatingAdmissionPolicyBinding linkerd.check.meshgate.io");
    assert!(is_said, "{status:?}");
    is_let_in(&lab, &orders, &bare).await;
    is_refused(&lab, &orders, &vault, "vault.check.meshgate.io").await;
    // Wider, from where it is.
    lab.tool(User::Alice, &open[..4]).await.ok();
    is_let_in(&lab, &orders, &vault).await;
    lab.tool(User::Alice, &["break-glass", "--close"])
        .await
        .ok();
    assert_eq!(contents(&lab, &all).await, before);
    is_refused(&lab, &orders, &bare, "linkerd.check.meshgate.io").await;
}

#[tokio::test]
async fn policies_that_are_suspended_are_not_reported_to_enforce() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::with(&lab, BOTH, &["--enforcement=policy"]).await;
    lab.allow_alice("meshgate-break-glass", &rights()).await;
    let armed = async |figure: u8| {
        let series = format!("meshgate_registration_armed {figure}");
        within(SECONDS, &series, async || {
            meshgate.metrics().contains(&series).then_some(())
        })
        .await;
    };
    armed(1).await;
    let open = ["break-glass", "--for=15m", "--reason=x", "--yes"];
    lab.tool(User::Alice, &open).await.ok();
    armed(0).await;
    lab.tool(User::Alice, &["break-glass", "--close"])
        .await
        .ok();
    armed(1).await;
}

/// A member of the group that may break the glass, with `kubectl`.
#[tokio::test]
async fn the_right_to_suspend_is_no_right_to_more() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::start(&lab, BOTH).await;
    let orders = lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    let bare = pod("bare");
    is_refused(&lab, &orders, &bare, "requires linkerd").await;
    lab.allow_alice("meshgate-break-glass", &rights()).await;
    let note = |until: &str| format!("alice: the nodes are gone; until={until}");
    let tried = async |user: User, patch: &Value| lab.patch_as(user, &gate(), patch).await;
    let noted = |text: &str| json!({"op": "add", "path": "/metadata/annotations/meshgate.io~1break-glass", "value": text});
    let soon = note(&in_hours(1).to_string());
    let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    for (path, value) in [
        (
            "clientConfig",
            json!({"url": "https://evil.example.test/mutate/pods"}),
        ),
        ("rules", rules),
        ("failurePolicy", json!("Ignore")),
        ("timeoutSeconds", json!(1)),
        ("objectSelector", json!({"matchLabels": {"a": "b"}})),
    ] {
        let change = json!({"op": "add", "path": format!("/webhooks/0/{path}"), "value": value});
        for patch in [json!([change]), json!([noted(&soon), change])] {
            let refused = tried(User::Alice, &patch).await;
            assert!(
                refused.err.contains("guard.meshgate.io"),
                "{path}: {refused:?}"
            );
        }
    }
    let forever = json!([noted(&note("9999-01-01T00:00:00Z"))]);
    let refused = tried(User::Alice, &forever).await;
    assert!(
        refused.err.contains("an end within 24 hours"),
        "{refused:?}"
    );
    is_refused(&lab, &orders, &bare, "requires linkerd").await;

    // Where nothing guards it, meshgate does not believe the note either, and takes it off.
    let unguard = [
        "delete",
        "validatingadmissionpolicybinding",
        "guard.meshgate.io",
    ];
    meshgate.order("pause").await;
    lab.kubectl(&unguard).await.ok();
    within(SECONDS, "the note is written", async || {
        (tried(User::Alice, &forever).await.code == Some(0)).then_some(())
    })
    .await;
    meshgate.order("resume").await;
    within(SECONDS, "it is told", async || {
        let events = events(&lab).await;
        let mut events = events.iter();
        events
            .any(|one| one.contains("no end within 24 hours"))
            .then_some(())
    })
    .await;
    is_refused(&lab, &orders, &bare, "requires linkerd").await;
    assert_eq!(
        content(&lab, &gate()).await["metadata"]["annotations"][GLASS],
        Value::Null
    );
}

/// A condition of another client is no suspension, and disarms what it narrows.
#[tokio::test]
async fn a_foreign_condition_disarms_at_once_and_is_told() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    let narrow = json!([{"op": "add", "path": "/webhooks/0/matchConditions/-",
        "value": {"name": "theirs", "expression": "false"}}]);
    lab.patch_as(User::Writer, &gate(), &narrow).await.ok();
    within(SECONDS, "it is not armed", async || {
        let metrics = meshgate.metrics();
        let is_off = metrics.contains("meshgate_registration_armed 0");
        (is_off && metrics.contains("meshgate_registration_narrowed 1")).then_some(())
    })
    .await;
    let said = "armed: 3 of 4 entries; asked about fewer pods than wanted: linkerd-2.gate.meshgate.io (another client \
                added the matchCondition theirs)";
    assert!(meshgate.log().contains(said), "{}", meshgate.log());
    let status = lab.tool(User::Admin, &["status"]).await;
    let expected = "NOT ARMED: 3 of 4 entries armed (another client added the matchCondition theirs to \
                    linkerd-2.gate.meshgate.io)";
    assert!(status.out.contains(expected), "{status:?}");
    let widen = json!([{"op": "remove", "path": "/webhooks/0/matchConditions/4"}]);
    lab.patch_as(User::Writer, &gate(), &widen).await.ok();
    meshgate.armed().await;
    // Terms that AKS gives to every webhook.
    let term = json!({"key": "control-plane", "operator": "NotIn", "values": ["true"]});
    let aks = json!([{"op": "add", "path": "/webhooks/0/namespaceSelector/matchExpressions/-", "value": term}]);
    lab.patch_as(User::Writer, &gate(), &aks).await.ok();
    let open = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    lab.patch_as(User::Writer, &gate(), &open).await.ok();
    within(SECONDS, "it is armed, with that term", async || {
        let gate = lab.get(&gate()).await?;
        let entry = &gate["webhooks"][0];
        let is_kept = entry["namespaceSelector"]
            .to_string()
            .contains("control-plane");
        (entry["failurePolicy"] == "Fail" && is_kept).then_some(())
    })
    .await;
    meshgate.armed().await;
}
