//! Labels of namespaces follow their annotations, by a policy and by a webhook; and an uninstall
//! that no controller helps.

use serde_json::{Value, json};
use tokio::process::Command;

use super::{CONFIG, INJECT, LABEL, SECONDS, lab, pod};
use crate::lab::harness::version::{
    is_left_out_without_mutating_policies, without_mutating_policies,
};
use crate::lab::harness::{Lab, Meshgate, PATIENCE, User, within};
use crate::support::process::get;

#[tokio::test]
async fn labels_follow_annotations_by_a_policy() {
    if is_left_out_without_mutating_policies("labels follow annotations by a policy") {
        return;
    }
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    follow(&lab).await;
    let asked = meshgate.metrics();
    assert!(
        !asked.contains("hook=\"namespaces\""),
        "no call at all: {asked}"
    );
    meshgate.order("kill").await;
    // A policy needs no replica.
    follow(&lab).await;
    uninstall(&lab).await;
}

#[tokio::test]
async fn labels_follow_annotations_by_a_webhook() {
    let lab = lab(&[], without_mutating_policies()).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    follow(&lab).await;
    not_called_on_what_agrees(&lab, &meshgate).await;
    meshgate.order("kill").await;
    while_no_replica_answers(&lab).await;
    uninstall(&lab).await;
}

/// The API has the policies, and its admission plugin is off: nothing is called armed, and it is said
/// what to do; labels come a moment later.
#[tokio::test]
async fn a_mirror_that_is_not_taken_up_is_told() {
    if is_left_out_without_mutating_policies("a mirror that is not taken up is told") {
        return;
    }
    let lab = lab(&[], &without_mutating_policies()[1..]).await;
    let meshgate = Meshgate::begin(&lab, CONFIG, &[]).await;
    within(SECONDS, "it says what to do", async || {
        let log = meshgate.log();
        let mut lines = log.lines().filter(|line| line.contains("ERROR"));
        lines
            .any(|line| line.contains("--mirror=webhook"))
            .then_some(())
    })
    .await;
    let ready = get(meshgate.probes, "/readyz?verbose");
    assert!(
        ready.contains("labels of new namespaces come late; 4 of 4 entries are armed"),
        "{ready}"
    );
    let late = lab.namespace("late", &[], &[(INJECT, "enabled")]).await;
    within(SECONDS, "it is labelled all the same", async || {
        lab.is_labelled(&late).await.then_some(())
    })
    .await;
    meshgate.uninstall().await;
}

/// A cluster that is too old for what a flag asks for is guarded all the same.
#[tokio::test]
async fn a_mirror_that_is_not_served_is_a_webhook() {
    let lab = lab(&[], without_mutating_policies()).await;
    let meshgate = Meshgate::with(&lab, CONFIG, &["--mirror=policy"]).await;
    let log = meshgate.log();
    let mut lines = log.lines().filter(|line| line.contains("WARN"));
    assert!(
        lines.any(|line| line.contains("in spite of --mirror=policy")),
        "{log}"
    );
    let late = lab.namespace("late", &[], &[(INJECT, "enabled")]).await;
    assert!(lab.is_labelled(&late).await);
    meshgate.uninstall().await;
}

/// As a person does it, each step seen at once.
async fn follow(lab: &Lab) {
    let ns = lab.namespace("follow", &[], &[(INJECT, "enabled")]).await;
    let annotate = async |value: &str| {
        let value = format!("{INJECT}={value}");
        lab.kubectl(&["annotate", "--overwrite", "namespace", &ns, &value])
            .await
            .ok();
    };
    assert!(lab.is_labelled(&ns).await, "created with it");
    annotate("ingress").await;
    assert!(lab.is_labelled(&ns).await, "ingress is the same");
    annotate("disabled").await;
    assert!(!lab.is_labelled(&ns).await, "switched off");
    annotate("enabled").await;
    assert!(lab.is_labelled(&ns).await, "annotated");
    lab.kubectl(&["label", "namespace", &ns, &format!("{LABEL}-")])
        .await
        .ok();
    assert!(lab.is_labelled(&ns).await, "removed by hand");
    let bare = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": ns, "annotations": {INJECT: "enabled"}}});
    lab.kubectl_as(User::Admin, &["replace", "-f", "-"], &bare.to_string())
        .await
        .ok();
    assert!(lab.is_labelled(&ns).await, "a replace that drops labels");
    for how in [
        &["apply", "-f", "-"][..],
        &["apply", "--server-side", "--force-conflicts", "-f", "-"],
    ] {
        for _ in 0..2 {
            lab.kubectl_as(User::Admin, how, &bare.to_string())
                .await
                .ok();
            assert!(lab.is_labelled(&ns).await, "{how:?}");
        }
    }
    lab.kubectl(&["annotate", "namespace", &ns, &format!("{INJECT}-")])
        .await
        .ok();
    assert!(!lab.is_labelled(&ns).await, "the annotation removed");
    of_generated_names(lab).await;
    // Through the subresources as well.
    let raw = format!("/api/v1/namespaces/{ns}/status");
    let mut object = lab.get(&format!("/api/v1/namespaces/{ns}")).await.unwrap();
    object["metadata"]["annotations"] = json!({INJECT: "enabled"});
    let replace = ["replace", "--raw", &raw, "-f", "-"];
    lab.kubectl_as(User::Admin, &replace, &object.to_string())
        .await
        .ok();
    assert!(lab.is_labelled(&ns).await, "by /status");
}

/// Namespaces whose names the API server makes up.
async fn of_generated_names(lab: &Lab) {
    let dry = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "generateName": "dry-", "annotations": {INJECT: "enabled"}}});
    let create = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
    let seen = lab
        .kubectl_as(User::Admin, &create, &dry.to_string())
        .await
        .ok();
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["metadata"]["labels"][LABEL], "", "{seen}");
    // With `generateName`, the API server looks at the label of the request, and corrects it later.
    let forged = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "generateName": "forged-", "annotations": {INJECT: "enabled"},
        "labels": {"kubernetes.io/metadata.name": "kube-system"}}});
    let create = ["create", "-o", "json", "-f", "-"];
    let made = lab
        .kubectl_as(User::Admin, &create, &forged.to_string())
        .await
        .ok();
    let made: Value = serde_json::from_str(&made).unwrap();
    let (name, labels) = (&made["metadata"]["name"], &made["metadata"]["labels"]);
    assert_eq!(labels["kubernetes.io/metadata.name"], *name, "{made}");
    assert_eq!(labels[LABEL], "", "{made}");
}

async fn not_called_on_what_agrees(lab: &Lab, meshgate: &Meshgate<'_>) {
    let calls = || {
        let metrics = meshgate.metrics();
        let own = metrics
            .lines()
            .filter(|line| line.contains("_total{hook=\"namespaces\""));
        let counts = own.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        counts.sum::<u64>()
    };
    let before = calls();
    assert!(before > 0);
    let plain = lab.namespace("plain", &[("a", "b")], &[("c", "d")]).await;
    lab.kubectl(&["label", "namespace", &plain, "e=f"])
        .await
        .ok();
    lab.kubectl(&["annotate", "namespace", &plain, "g=h"])
        .await
        .ok();
    lab.kubectl(&["delete", "namespace", &plain, "--wait=false"])
        .await
        .ok();
    assert_eq!(calls(), before);
    let meshed = lab.namespace("meshed", &[], &[(INJECT, "enabled")]).await;
    let created = calls();
    let ingress = format!("{INJECT}=ingress");
    lab.kubectl(&["annotate", "--overwrite", "namespace", &meshed, &ingress])
        .await
        .ok();
    assert_eq!((created, calls()), (before + 1, before + 1));
}

async fn while_no_replica_answers(lab: &Lab) {
    let plain = lab.namespace("plain", &[], &[]).await;
    lab.create(&format!("/api/v1/namespaces/{plain}/pods"), &pod("a"))
        .await
        .unwrap();
    lab.kubectl(&["label", "namespace", &plain, "a=b"])
        .await
        .ok();
    lab.kubectl(&["annotate", "namespace", &plain, "a=b"])
        .await
        .ok();
    let generated = json!({"metadata": {"generateName": "plain-"}});
    lab.create("/api/v1/namespaces", &generated).await.unwrap();
    let wanting = format!("{INJECT}=enabled");
    let refused = lab
        .kubectl(&["annotate", "namespace", &plain, &wanting])
        .await;
    assert!(
        refused.err.contains("namespaces.meshgate.io"),
        "{}",
        refused.err
    );
    lab.kubectl(&["delete", "namespace", &plain, "--wait=false"])
        .await
        .ok();
}

/// With meshgate dead, its webhooks closed and the guard in force, by a user who is not the one
/// that meshgate writes as.
async fn uninstall(lab: &Lab) {
    // As another configuration has left it.
    let label = ("meshgate.io/requires.gone", "");
    let labelled = lab.namespace("left", &[label], &[]).await;
    let bind = [
        "create",
        "clusterrolebinding",
        "alice",
        "--clusterrole=cluster-admin",
        "--user=alice",
    ];
    lab.kubectl(&bind).await.ok();
    assert!(!lab.remains().await.is_empty());
    let run = async |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_meshgate"))
            .arg("uninstall")
            .arg("--kubeconfig")
            .arg(lab.kubeconfig(User::Alice))
            .args(arguments)
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, output)
            .await
            .unwrap()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = run(&["--dry-run"]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("admission.meshgate.io"), "{text}");
    let before = lab.remains().await;
    let (code, text) = run(&["--yes"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(lab.remains().await, [""; 0], "of {before:?}");
    let (code, text) = run(&["--yes"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("meshgate has written nothing into"), "{text}");
    // And no pod is held up any more.
    lab.kubectl(&[
        "annotate",
        "namespace",
        &labelled,
        &format!("{INJECT}=enabled"),
    ])
    .await
    .ok();
    lab.create(&format!("/api/v1/namespaces/{labelled}/pods"), &pod("a"))
        .await
        .unwrap();
}
