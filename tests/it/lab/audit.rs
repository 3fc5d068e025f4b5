//! `meshgate audit` against a real API server, by what users may see.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::process::Command;

use super::fidelity::number;
use super::harness::{Lab, Options, Outcome, PATIENCE, User, within};
use super::registration::{CONFIG, INJECT, arming, lab, pod};
use crate::lab::view_memory::fill;
use crate::support::figures;
use crate::support::process::program;

/// How many pods the benchmark has.
const COUNT: &str = "MESHGATE_AUDIT_PODS";

/// State and reason of each pod by its name.
fn words(outcome: &Outcome) -> BTreeMap<String, String> {
    let answer: Value =
        serde_json::from_str(&outcome.out).unwrap_or_else(|e| panic!("{e}: {outcome:?}"));
    let word = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = answer["pods"].as_array().unwrap().iter();
    rows.map(|row| {
        (
            word(row, "name"),
            format!("{} {}", word(row, "state"), word(row, "reason")),
        )
    })
    .collect()
}

async fn create(lab: &Lab, namespace: &str, name: &str, patch: &Value) {
    let mut object = pod(name);
    json_patch::merge(&mut object, patch);
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    lab.create(&path, &object).await.unwrap();
}

/// `meshgate audit` with JSON as this user.
async fn audit(lab: &Lab, user: User, arguments: &[&str]) -> Outcome {
    let all = [&["audit", "-o=json"], arguments].concat();
    lab.tool(user, &all).await
}

/// A pod of each kind, in a namespace that is annotated.
async fn pods_of_all_kinds(lab: &Lab) -> String {
    let orders = lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    let proxy = json!([{"name": "linkerd-proxy", "image": "p.test/p:1.2"}]);
    let init = json!([{"name": "linkerd-init", "image": "i.test/i"}]);
    let no = json!({INJECT: "disabled"});
    for (name, patch) in [
        ("early", json!({})),
        (
            "by-hand",
            json!({"spec": {"containers": proxy, "initContainers": init}}),
        ),
        ("half", json!({"spec": {"containers": proxy}})),
        ("spared", json!({"metadata": {"annotations": no}})),
        ("host", json!({"spec": {"hostNetwork": true}})),
    ] {
        create(lab, &orders, name, &patch).await;
    }
    orders
}

fn expected() -> BTreeMap<String, String> {
    let all = [
        ("early", "bare notArmed"),
        ("by-hand", "injected sidecarPresent"),
        ("half", "bare initMissing"),
        ("spared", "optedOut podOptOut"),
        ("host", "exempt hostNetwork"),
    ];
    all.map(|(name, words)| (name.to_owned(), words.to_owned()))
        .into()
}

/// Waits for the next second: times of Kubernetes are whole ones.
async fn another_second(lab: &Lab) {
    let now = async || {
        let probe = lab.namespace("second", &[], &[]).await;
        let probe = lab.get(&format!("/api/v1/namespaces/{probe}")).await;
        probe.unwrap()["metadata"]["creationTimestamp"].clone()
    };
    let begin = now().await;
    within(PATIENCE, "another second", async || {
        (now().await != begin).then_some(())
    })
    .await;
}

#[tokio::test]
async fn pods_from_before_meshgate() {
    let lab = lab(&[], &[]).await;
    let orders = pods_of_all_kinds(&lab).await;
    let later = lab.namespace("later", &[], &[]).await;
    create(&lab, &later, "older", &json!({})).await;
    // Nothing of meshgate is there, and nothing needs to be.
    let before = audit(&lab, User::Admin, &["-n", &orders]).await;
    assert_eq!(words(&before), expected(), "{}", before.err);
    assert_eq!(before.code, Some(1));

    another_second(&lab).await;
    let mark = json!({"metadata": {"annotations": {INJECT: "enabled"}}});
    lab.merge(&format!("/api/v1/namespaces/{later}"), &mark)
        .await
        .unwrap();
    let certs = lab.folder_of("certs");
    let meshgate = arming::Unreached::start(&lab, CONFIG, &certs, false).await;
    let unarmed = audit(&lab, User::Admin, &["-n", &orders]).await;
    assert_eq!(words(&unarmed), expected());
    let way = meshgate.way().await;
    lab.is_closed().await;
    let armed = audit(&lab, User::Admin, &["-A"]).await;
    let mut all = expected();
    all.insert("older".to_owned(), "bare olderThanRequirement".to_owned());
    assert_eq!(words(&armed), all, "{}", armed.err);
    drop(way);

    // A table names what to do.
    let table = lab.tool(User::Admin, &["audit", "-A"]).await;
    assert!(table.out.contains("Pod early"), "{}", table.out);
    assert!(!table.out.contains("Pod spared"), "{}", table.out);
}

/// A user without rights to namespaces and webhooks is told which are missing.
#[tokio::test]
async fn rights_that_are_missing_are_named() {
    let lab = lab(&[], &[]).await;
    let orders = pods_of_all_kinds(&lab).await;
    let none = audit(&lab, User::Alice, &["-n", &orders]).await;
    assert_eq!(none.code, Some(2));
    assert!(
        none.err.contains("grant the verb list on pods"),
        "{}",
        none.err
    );
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    lab.allow_alice("auditor-of-pods", &rules).await;
    // The API server hears of a role a moment later.
    let little = within(PATIENCE, "the right to list pods", async || {
        let little = audit(&lab, User::Alice, &["-n", &orders]).await;
        (!little.err.contains("on pods of")).then_some(little)
    })
    .await;
    assert_eq!(little.code, Some(2), "{}", little.err);
    for missing in [
        "grant the verb get on namespaces of API group \"\"",
        "grant the verb list on mutatingwebhookconfigurations of API group admissionregistration.k8s.io",
        "grant the verb list on replicasets of API group apps",
    ] {
        assert!(little.err.contains(missing), "{missing}: {}", little.err);
    }
    let found = words(&little);
    assert_eq!(found["early"], "unknown namespaceUnknown");
    // Whatever its namespace says, it is exempt.
    assert!(!found.contains_key("host"), "{found:?}");
}

/// A Deployment's pods belong to it, and the dump of the same cluster says the same.
#[tokio::test]
async fn owners_are_the_topmost_ones() {
    let lab = Lab::shared().await;
    let orders = lab.namespace("audited", &[], &[(INJECT, "enabled")]).await;
    let create = [
        "-n",
        &orders,
        "create",
        "deployment",
        "shop",
        "--image=a.test/a",
        "--replicas=2",
    ];
    lab.kubectl(&create).await.ok();
    let list = format!("/api/v1/namespaces/{orders}/pods");
    within(PATIENCE, "two pods", async || {
        let pods = lab.get(&list).await?;
        (pods["items"].as_array()?.len() == 2).then_some(())
    })
    .await;
    let live = lab
        .tool(
            User::Admin,
            &["audit", "-o=json", "-n", &orders, "--injector=linkerd"],
        )
        .await;
    let answer: Value = serde_json::from_str(&live.out).unwrap();
    let owner = json!({"kind": "Deployment", "name": "shop"});
    let rows = answer["pods"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{}", live.out);
    assert!(rows.iter().all(|row| row["owner"] == owner), "{}", live.out);

    let namespaced = "pods,replicasets.apps,deployments.apps";
    let dump = lab
        .kubectl(&["get", namespaced, "-n", &orders, "-o=json"])
        .await
        .ok();
    let namespaces = lab
        .kubectl(&["get", "namespaces", "-o=json", "--show-managed-fields"])
        .await
        .ok();
    let arguments = ["audit", "-f", "-", "-o", "json", "--injector", "linkerd"];
    let (_, from_dump, _) = crate::cli::run_with_input(&arguments, &(dump + &namespaces));
    let of_dump: Value = serde_json::from_str(&from_dump).unwrap();
    let places = |answer: &Value| -> Vec<(Value, Value, Value)> {
        let rows = answer["pods"].as_array().unwrap().iter();
        rows.map(|row| {
            (
                row["name"].clone(),
                row["owner"].clone(),
                row["state"].clone(),
            )
        })
        .collect()
    };
    assert_eq!(places(&of_dump), places(&answer));
}

/// How many of a thousand pods are bare, by namespace.
const BARE: [u64; 3] = [12, 5, 2];
/// Pods of a ReplicaSet.
const SET: u64 = 25;

fn owned(name: &str, kind: &str, owner: &str) -> Value {
    let reference = json!({
        "apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "a", "controller": true,
    });
    json!({"name": name, "ownerReferences": [reference]})
}

/// A pod as a controller makes it.
fn running(number: u64, bare: u64) -> Value {
    let set = format!("shop-{}-6d5c9b8f7c", number / SET);
    let is_bare = number % 1_000 < bare;
    let proxy = if is_bare { "other" } else { "linkerd-proxy" };
    let variable = |n: u64| json!({"name": format!("NAME_{n}"), "value": "x".repeat(40)});
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.test/{name}:edge-24.5.1"),
            "env": (0..10).map(variable).collect::<Vec<_>>(),
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        })
    };
    let mut metadata = owned(&format!("{set}-{number:06}"), "ReplicaSet", &set);
    metadata["labels"] = json!({"app": "shop", "pod-template-hash": "6d5c9b8f7c"});
    metadata["annotations"] = json!({"note": "x".repeat(200)});
    let spec = json!({
        "containers": [container("app"), container(proxy)],
        "initContainers": [container("linkerd-init")],
        "nodeName": format!("node-{}", number % 100),
    });
    json!({ "metadata": metadata, "spec": spec })
}

fn set(number: u64) -> Value {
    let name = format!("shop-{number}");
    let labels = json!({"a": "a"});
    let containers = json!([{"name": "a", "image": "a.test/a"}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let spec = json!({"replicas": SET, "selector": {"matchLabels": labels}, "template": template});
    json!({"metadata": owned(&format!("{name}-6d5c9b8f7c"), "Deployment", &name), "spec": spec})
}

#[tokio::test]
#[ignore = "a benchmark: make bench-audit"]
async fn how_long_an_audit_takes() {
    let count: u64 = number(COUNT).unwrap_or(10_000);
    let only = vec!["etcd", "kube-apiserver"];
    let lab = Lab::own(Options {
        only,
        ..Options::default()
    })
    .await;
    let service = json!({"namespace": "linkerd", "name": "linkerd-proxy-injector"});
    let entry = json!({
        "name": "linkerd-proxy-injector.linkerd.io", "clientConfig": {"service": service},
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [],
    });
    let injector = json!({"metadata": {"name": "linkerd"}, "webhooks": [entry]});
    let all = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    lab.create(all, &injector).await.unwrap();
    let begin = Instant::now();
    for (number, name) in ["orders", "payments", "search", "users", "mail"]
        .iter()
        .enumerate()
    {
        let annotations = json!({INJECT: "enabled"});
        let namespace = json!({"metadata": {"name": name, "annotations": annotations}});
        lab.create("/api/v1/namespaces", &namespace).await.unwrap();
        let place = format!("/api/v1/namespaces/{name}");
        let account = json!({"metadata": {"name": "default"}});
        lab.create(&format!("{place}/serviceaccounts"), &account)
            .await
            .unwrap();
        let pods = 0..count / 5;
        let sets = format!("/apis/apps/v1/namespaces/{name}/replicasets");
        fill(&lab, &sets, (0..pods.end / SET).map(set)).await;
        let bare = BARE.get(number).copied().unwrap_or_default();
        fill(
            &lab,
            &format!("{place}/pods"),
            pods.map(|pod| running(pod, bare)),
        )
        .await;
    }
    figures(&format!("{count} pods created in {:.0?}", begin.elapsed()));
    let shown = lab.tool(User::Admin, &["audit", "-A"]).await;
    figures(&shown.out);
    for form in ["table", "json"] {
        let begin = Instant::now();
        let child = Command::new(program())
            .args(["audit", "-A", "-o", form, "--kubeconfig"])
            .arg(lab.kubeconfig(User::Admin))
            .stdout(Stdio::null())
            .spawn();
        let child = child.unwrap();
        let id = child.id().unwrap();
        let (code, peak) = ended(child, id).await;
        let took = begin.elapsed();
        figures(&format!(
            "audit -A -o {form} of {count} pods: {took:.1?}, {peak} KiB at most"
        ));
        assert_eq!(code, Some(1));
        assert!(peak < 150 * 1024, "{peak} KiB");
    }
}

/// The exit code, and the highest peak that was seen while it ran.
async fn ended(mut child: tokio::process::Child, id: u32) -> (Option<i32>, u64) {
    let mut peak = 0;
    loop {
        let status =
            std::fs::read_to_string(Path::new("/proc").join(id.to_string()).join("status"));
        let line = status.unwrap_or_default();
        let line = line
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .map(str::to_owned);
        if let Some(line) = line {
            peak = line.trim().trim_end_matches(" kB").parse().unwrap();
        }
        let wait = std::time::Duration::from_millis(20);
        if let Ok(status) = tokio::time::timeout(wait, child.wait()).await {
            return (status.unwrap().code(), peak);
        }
    }
}
