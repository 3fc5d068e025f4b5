//! Bare pods that get past the gate: the check refuses them, or the policy in its place.

use serde_json::{Value, json};
use tokio::process::Command;

use super::guarded::{CONFIG, Guarded, meshed};
use super::injector::{HOW, Linkerd, PASSED_BY, STRIPPED};
use crate::lab::harness::{Lab, Options, PATIENCE, User, Who, pod, within};

/// A pod that comes out of the mutating phase in some way, and what the check says to it.
struct Forced {
    name: &'static str,
    pod: Value,
    /// How the sentence of check and policy begins after `requires linkerd (…) but `; `None` if the pod
    /// is as it must be.
    refusal: Option<&'static str>,
}

const MISSING: &str = "the pod has no container linkerd-proxy (looked for in containers, and in \
                       initContainers with restartPolicy Always): linkerd's webhook did not add it; \
                       see kubectl -n linkerd get pods and the logs there";

fn table() -> Vec<Forced> {
    let how = |how: &str| pod(&[], &[(HOW, how)]);
    let missing = Some(MISSING);
    let init = "init container linkerd-init or linkerd-network-validator is missing from the pod";
    let ends = "linkerd-proxy is an init container without restartPolicy Always, which ends before \
                the pod starts: another webhook may have removed that field";
    let row = |name, pod, refusal| Forced { name, pod, refusal };
    let mut by_hand = pod(&[], &[("linkerd.io/inject", "enabled"), (HOW, "nothing")]);
    by_hand["metadata"]["annotations"]["meshgate.io/admitted"] = json!("linkerd");
    by_hand["metadata"]["annotations"]["linkerd.io/proxy-version"] = json!("edge-26.8.2");
    vec![
        row("injected", pod(&[], &[]), None),
        row(
            "injected as a native sidecar",
            how("a native sidecar"),
            None,
        ),
        row("injected with a validator", how("a validator"), None),
        row(
            "the injector allows and does nothing",
            how("nothing"),
            missing,
        ),
        row(
            "its webhook passes the pod by",
            pod(&[(PASSED_BY, "")], &[]),
            missing,
        ),
        row(
            "another webhook takes the sidecar away",
            pod(&[(STRIPPED, "")], &[]),
            missing,
        ),
        row("marks without containers", by_hand, missing),
        row("no init container", how("no init container"), Some(init)),
        row(
            "an init container that ends",
            how("a proxy that ends"),
            Some(ends),
        ),
    ]
}

/// Who judges.
#[derive(Clone, Copy)]
enum Judge {
    Check,
    Policy,
}

/// Creates every pod of the table; returns what was not as it should be.
async fn judge(lab: &Lab, namespace: &str, judge: Judge) -> Vec<String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let mut wrong = Vec::new();
    for row in table() {
        let answer = lab.call(Who::Admin).post(&path, &row.pod).await;
        let why = "requires linkerd (annotation linkerd.io/inject=enabled) but ";
        let by = match judge {
            Judge::Check => "linkerd.check.meshgate.io\" denied the request: ",
            Judge::Policy => "ValidatingAdmissionPolicy 'linkerd.check.meshgate.io'",
        };
        let is_right = row.refusal.map_or(answer.code == 201, |sentence| {
            let message = answer.message();
            let (_, said) = message.split_once(why).unwrap_or_default();
            answer.code == 403 && message.contains(by) && said.starts_with(sentence)
        });
        if !is_right {
            wrong.push(format!("{}: {answer:?}", row.name));
        }
    }
    wrong
}

#[tokio::test]
async fn a_pod_without_its_sidecar_is_refused_by_the_check() {
    let guarded = Guarded::alone().await;
    let lab = &guarded.lab;
    let namespace = guarded.meshed().await;
    let wrong = judge(lab, &namespace, Judge::Check).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    // Ready by its endpoints, and it does not answer; its webhook fails open.
    guarded.linkerd.stop().await;
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let before = guarded.decisions();
    let answer = lab.call(Who::Admin).post(&path, &pod(&[], &[])).await;
    assert!(
        answer.code == 403 && answer.message().ends_with(MISSING),
        "{answer:?}"
    );
    let decided = guarded.decisions().since(&before);
    assert_eq!(
        decided,
        ["check deny sidecar_missing", "gate mark injector_ready"]
    );

    // Its webhook is gone as well: waiting for it is what helps.
    guarded.linkerd.uninstall(lab).await;
    let what = "meshgate says that Linkerd is not installed";
    within(PATIENCE, what, async || {
        let answer = lab.call(Who::Admin).post(&path, &pod(&[], &[])).await;
        assert!(!answer.is_ok(), "{answer:?}");
        (answer.code == 503 && answer.message().contains("linkerd is not installed")).then_some(())
    })
    .await;
}

/// No meshgate has ever run here: the API server judges by itself.
#[tokio::test]
async fn a_pod_without_its_sidecar_is_refused_by_the_policy_alone() {
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver"],
        ..Options::default()
    })
    .await;
    let file = lab.folder_of("policy").join("config.yaml");
    std::fs::write(&file, CONFIG).unwrap();
    let rendered = Command::new(env!("CARGO_BIN_EXE_meshgate"))
        .args(["render", "policy", "--config"])
        .arg(&file)
        .output()
        .await
        .unwrap();
    assert!(rendered.status.success(), "{rendered:?}");
    let policy = String::from_utf8(rendered.stdout).unwrap();
    let arguments = ["apply", "--server-side", "-f", "-"];
    let applied = lab.kubectl_as(User::Admin, &arguments, &policy).await.ok();
    assert!(!applied.contains("Warning"), "{applied}");
    let linkerd = Linkerd::install(&lab).await;
    let namespace = meshed(&lab).await;
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let bare = pod(&[], &[(HOW, "nothing")]);
    within(PATIENCE, "the policy is in force", async || {
        let answer = lab.call(Who::Admin).post(&path, &bare).await;
        (answer.code == 403).then_some(())
    })
    .await;
    let wrong = judge(&lab, &namespace, Judge::Policy).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    // What requires nothing is not touched, and what opts out neither.
    linkerd.stop().await;
    let plain = lab.namespace("plain", &[], &[]).await;
    let opts_out = pod(&[], &[("linkerd.io/inject", "disabled")]);
    let mut on_host = pod(&[], &[]);
    on_host["spec"]["hostNetwork"] = json!(true);
    for (namespace, pod) in [
        (&plain, pod(&[], &[])),
        (&namespace, opts_out),
        (&namespace, on_host),
    ] {
        lab.create_pod(namespace, &pod).await.unwrap();
    }
}
