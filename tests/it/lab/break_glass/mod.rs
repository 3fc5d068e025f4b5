//! `break-glass`, with no more rights than it takes, with and without a running meshgate.

mod limits;

use serde_json::{Value, json};

use super::harness::version::without_mutating_policies;
use super::harness::{Lab, Meshgate, User, within};
use crate::support::in_hours;

use super::registration::{CONFIG, INJECT, SECONDS, check, entries, gate, lab, pod};

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
