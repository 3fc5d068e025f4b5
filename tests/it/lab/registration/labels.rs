//! Labels that do not stay, and labels that cannot be written.

use serde_json::{Value, json};

use super::{ADMISSION, CONFIG, INJECT, SECONDS, lab};
use crate::lab::harness::version::is_left_out_without_mutating_policies;
use crate::lab::harness::{Lab, Meshgate, User, within};
use crate::support::process::get;

/// Of an injector that is not configured: nothing but the labeller takes it away.
const STALE: &str = "meshgate.io/requires.gone";

/// Another owner's policy for updates of one namespace, in force once a dry run shows it.
async fn policy(lab: &Lab, kind: &str, namespace: &str, more: Value, actions: Option<&str>) {
    let mut spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
            "resources": ["namespaces"], "resourceNames": [namespace],
        }]},
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let metadata = json!({"name": "theirs.example.test"});
    let mut binding = json!({"policyName": "theirs.example.test"});
    if let Some(actions) = actions {
        binding["validationActions"] = json!([actions]);
    }
    let objects = [("policies", spec), ("policybindings", binding)];
    for (plural, spec) in objects {
        let path = format!("{ADMISSION}/{kind}admission{plural}");
        let object = json!({"metadata": metadata, "spec": spec});
        lab.create(&path, &object).await.unwrap();
    }
}

async fn gone(lab: &Lab, kind: &str) {
    for plural in ["policybindings", "policies"] {
        let path = format!("{ADMISSION}/{kind}admission{plural}/theirs.example.test");
        lab.delete(&path).await;
    }
}

async fn has(lab: &Lab, namespace: &str, label: &str) -> bool {
    let object = lab.get(&format!("/api/v1/namespaces/{namespace}")).await;
    object.unwrap()["metadata"]["labels"].get(label).is_some()
}

/// What undoes a change in the same request leaves no event: only the answer shows it.
#[tokio::test]
async fn a_label_that_was_written_back_in_the_same_request_is_written_again() {
    if is_left_out_without_mutating_policies("another owner's policy writes a label back") {
        return;
    }
    let lab = lab(&[], &[]).await;
    let ns = lab.namespace("undone", &[(STALE, "")], &[]).await;
    let add = format!(
        "[JSONPatch{{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('{STALE}'), value: ''}}]"
    );
    let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": add}});
    let more = json!({"reinvocationPolicy": "IfNeeded", "mutations": [mutation]});
    policy(&lab, "mutating", &ns, more, None).await;
    let path = format!("/api/v1/namespaces/{ns}?dryRun=All");
    let unlabel = json!({"metadata": {"labels": {STALE: null}}});
    within(SECONDS, "the policy is in force", async || {
        let seen = lab.merge(&path, &unlabel).await.unwrap();
        seen["metadata"]["labels"].get(STALE).map(drop)
    })
    .await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    within(SECONDS, "it has seen that it is undone", async || {
        let undone = format!("what is written to namespace {ns} is undone");
        meshgate.log().contains(&undone).then_some(())
    })
    .await;
    assert!(has(&lab, &ns, STALE).await);
    gone(&lab, "mutating").await;
    within(SECONDS, "the label goes", async || {
        (!has(&lab, &ns, STALE).await).then_some(())
    })
    .await;
}

#[tokio::test]
async fn namespaces_without_their_label_are_counted_and_hold_no_pod_up() {
    let lab = lab(&[], &[]).await;
    let ns = lab.namespace("stuck", &[], &[(INJECT, "enabled")]).await;
    let more = json!({"validations": [{"expression": "false", "message": "theirs"}]});
    policy(&lab, "validating", &ns, more, Some("Deny")).await;
    let touch = ["label", "namespace", &ns, "a=b", "--dry-run=server"];
    within(SECONDS, "the policy is in force", async || {
        let tried = lab.kubectl_as(User::Admin, &touch, "").await;
        tried.err.contains("theirs").then_some(())
    })
    .await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    let says = async |what: &str, count: u8, is_said: bool| {
        within(SECONDS, what, async || {
            let metric = format!("meshgate_registration_namespaces_unlabelled {count}\n");
            let ready = get(meshgate.probes, "/readyz?verbose");
            let said = ready.contains("; 1 namespaces without their label");
            (said == is_said && meshgate.metrics().contains(&metric)).then_some(())
        })
        .await;
    };
    says("it is counted", 1, true).await;
    assert!(meshgate.metrics().contains("meshgate_registration_armed 1"));
    gone(&lab, "validating").await;
    says("it is labelled after all", 0, false).await;
    assert!(lab.is_labelled(&ns).await);
}
