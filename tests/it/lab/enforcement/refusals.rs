//! Refusals and warnings as a person gets them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::guarded::{Guarded, INJECT, let_alice_edit};
use super::injector::HOW;
use crate::lab::harness::{Lab, Outcome, User, Who, pod};

/// `kubectl` waits and tries again for 20 s if an answer says when to (10 times 2 s); a refusal is
/// there in a fraction of a second, on a busy machine too.
const AT_ONCE: Duration = Duration::from_secs(10);

/// `kubectl run` by alice, with these annotations, and how long it took.
async fn run(lab: &Lab, namespace: &str, annotations: &[&str]) -> (Outcome, Duration) {
    let mut arguments = vec!["run", "shop", "-n", namespace, "--image=example.com/shop"];
    arguments.extend(annotations);
    let begin = Instant::now();
    let outcome = lab.kubectl_as(User::Alice, &arguments, "").await;
    (outcome, begin.elapsed())
}

#[tokio::test]
async fn a_person_is_told_at_once_what_is_wrong_and_what_to_do() {
    let guarded = Guarded::alone().await;
    let lab = &guarded.lab;
    let (meshed, plain) = (
        guarded.meshed().await,
        lab.namespace("plain", &[], &[]).await,
    );
    for namespace in [&meshed, &plain] {
        let_alice_edit(lab, namespace).await;
    }
    guarded.injector_is_ready(false).await;
    let state = "0 of 1 endpoints of Service linkerd/linkerd-proxy-injector are usable (1 not \
                 ready); try again once one is, see kubectl -n linkerd get pods";
    let opts_in = ["--annotations=linkerd.io/inject=enabled"];
    let unknown = ["--annotations=linkerd.io/inject=yes"];
    let table = [
        (
            &meshed,
            &[][..],
            "ServiceUnavailable",
            "linkerd.gate",
            format!(
                "Namespace {meshed} requires linkerd (annotation linkerd.io/inject=enabled) but {state}"
            ),
        ),
        (
            &plain,
            &opts_in[..],
            "ServiceUnavailable",
            "linkerd-2.gate",
            format!(
                "Pod shop in namespace {plain} requires linkerd (annotation linkerd.io/inject=enabled) \
                 but {state}"
            ),
        ),
        (
            &meshed,
            &unknown[..],
            "Forbidden",
            "linkerd.gate",
            format!(
                "Pod shop in namespace {meshed} has annotation linkerd.io/inject=yes, which linkerd \
                 does not know, so that it would never inject this pod; accepted values are enabled, \
                 ingress, disabled"
            ),
        ),
    ];
    for (namespace, annotations, kind, hook, sentence) in table {
        let (outcome, took) = run(lab, namespace, annotations).await;
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        // The API server's own words, then ours; a firm refusal names the pod before them.
        let begin = format!("Error from server ({kind}): ");
        let end =
            format!("admission webhook \"{hook}.meshgate.io\" denied the request: {sentence}\n");
        assert!(
            outcome.err.starts_with(&begin) && outcome.err.ends_with(&end),
            "{}\nexpected {begin}…{end}",
            outcome.err
        );
        assert!(took < AT_ONCE, "{took:?}");
    }
}

/// client-go would sleep in the middle of a controller's work.
#[tokio::test]
async fn no_refusal_says_when_to_come_back() {
    let guarded = Guarded::alone().await;
    let lab = &guarded.lab;
    let meshed = guarded.meshed().await;
    let_alice_edit(lab, &meshed).await;
    let bare = pod(&[], &[(HOW, "nothing")]);
    let unknown = pod(&[], &[("linkerd.io/inject", "yes")]);
    let table: [(bool, &str, &Value, u16); 3] = [
        (false, "gate", &pod(&[], &[]), 503),
        (true, "gate", &unknown, 403),
        (true, "check", &bare, 403),
    ];
    for (is_ready, hook, pod, code) in table {
        guarded.injector_is_ready(is_ready).await;
        for who in [Who::Admin, Who::Alice, Who::ReplicaSets, Who::Kubelet] {
            for how in ["", "?dryRun=All"] {
                let path = format!("/api/v1/namespaces/{meshed}/pods{how}");
                let mut pod = pod.clone();
                if who == Who::Kubelet {
                    // Kubelets create only what is bound to their own Node.
                    pod["spec"]["nodeName"] = json!("node-1");
                }
                let answer = lab.call(who).post(&path, &pod).await;
                assert_eq!(answer.code, code, "{who:?}: {answer:?}");
                let is_ours = answer
                    .message()
                    .contains(&format!(".{hook}.meshgate.io\" denied"));
                assert!(is_ours, "{who:?}: {answer:?}");
                assert_eq!(answer.retry_after, None, "{who:?}: {answer:?}");
                let details = &answer.body["details"];
                assert!(
                    details["retryAfterSeconds"].is_null(),
                    "{who:?}: {answer:?}"
                );
            }
        }
    }
}

/// In mode `warn` no pod waits: the user is told, and it is counted.
#[tokio::test]
async fn in_mode_warn_a_pod_is_admitted_with_a_warning() {
    let guarded = Guarded::alone().await;
    let lab = &guarded.lab;
    let plain = lab.namespace("plain", &[], &[]).await;
    let_alice_edit(lab, &plain).await;
    let asks = "--annotations=vault.hashicorp.com/agent-inject=true";
    let before = guarded.decisions();
    let (outcome, _) = run(lab, &plain, &[asks]).await;
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.out, "pod/shop created\n");
    let warning = format!(
        "Warning: meshgate admits this pod only because vault is in mode warn: Pod shop in namespace {plain} requires vault (annotation \
         vault.hashicorp.com/agent-inject=true) but vault is not installed"
    );
    assert!(outcome.err.contains(&warning), "{}", outcome.err);
    let decided = guarded.decisions().since(&before);
    let each = [
        "check warn injector_not_installed",
        "gate warn injector_not_installed",
    ];
    assert_eq!(decided, each);
    // It holds no pod up, and does not soften what another injector requires.
    let both = pod(&[], &[INJECT, ("vault.hashicorp.com/agent-inject", "true")]);
    guarded.injector_is_ready(false).await;
    let path = format!("/api/v1/namespaces/{plain}/pods");
    let answer = lab.call(Who::Alice).post(&path, &both).await;
    assert_eq!(answer.code, 503, "{answer:?}");
}
