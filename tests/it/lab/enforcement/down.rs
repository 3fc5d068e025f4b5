//! meshgate is killed. Pods that require an injector wait; nothing else in the cluster notices.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::asked::{Places, rows, subjects};
use super::changes;
use super::guarded::{Guarded, INJECT, mark_of};
use super::namespaces;
use super::workloads::pods;
use crate::lab::harness::version::has_mutating_policies;
use crate::lab::harness::{Answer, Lab, PATIENCE, Who, pod, within};

/// A connection that is refused costs milliseconds; the bound is for a busy machine, and below the
/// webhook's timeout.
const AT_ONCE: Duration = Duration::from_secs(4);

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.com/web}]}
";

/// As a network plugin's: with it the network comes back that meshgate may be waiting for (case 72).
const ON_HOST_NETWORK: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cni}
spec:
  selector: {matchLabels: {app: cni}}
  template:
    metadata: {labels: {app: cni}}
    spec: {hostNetwork: true, containers: [{name: cni, image: example.com/cni}]}
";

#[tokio::test]
async fn without_meshgate_only_pods_that_require_an_injector_wait() {
    let guarded = Guarded::alone().await;
    let lab = &guarded.lab;
    let places = Places::create(&guarded).await;
    let subjects = subjects(&guarded).await;
    // A webhook that keeps labels refuses this one without meshgate: see [`namespaces`].
    let labelled = match has_mutating_policies() {
        true => None,
        false => Some(lab.namespace("life", &[], &[INJECT]).await),
    };
    guarded.meshgate().order("kill").await;

    let mut wrong = Vec::new();
    every_pod(lab, &places, &mut wrong).await;
    for (namespace, name) in &subjects {
        changes::all(lab, (namespace, name), &mut wrong).await;
    }
    let labelled = match labelled {
        Some(namespace) => namespace,
        None => lab.namespace("life", &[], &[INJECT]).await,
    };
    let lived = [lab.namespace("life", &[], &[]).await, labelled];
    for namespace in &lived {
        namespaces::live(lab, namespace, &mut wrong).await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    workloads(lab, &places).await;
    namespaces::end(lab, &lived).await;

    guarded.meshgate().order("start").await;
    guarded.meshgate().armed().await;
    let path = format!("/apis/apps/v1/namespaces/{}/replicasets", places.meshed);
    let sets = lab.get(&path).await.unwrap()["items"].take();
    let path = format!("{path}/{}", sets[0]["metadata"]["name"].as_str().unwrap());
    let mut tries = 0;
    let web = within(PATIENCE, "the pods come", async || {
        let all = pods_of(lab, &places.meshed, "web").await;
        if all.len() == 2 {
            return Some(all);
        }
        tries += 1;
        let woken = json!({"metadata": {"annotations": {"meshgate.io/woken": tries.to_string()}}});
        lab.call(Who::Admin)
            .patch(&path, "merge-patch", &woken)
            .await;
        None
    })
    .await;
    assert!(web.iter().all(|pod| mark_of(pod) == "linkerd"), "{web:?}");
}

/// The table of what is asked about, with no replica to ask.
async fn every_pod(lab: &Lab, places: &Places, wrong: &mut Vec<String>) {
    for row in rows() {
        let path = format!("/api/v1/namespaces/{}/pods", places.of(row.place));
        let begin = Instant::now();
        let answer = lab.call(row.who).post(&path, &row.pod).await;
        let took = begin.elapsed();
        let is_right = if row.is_sent {
            is_legible(&answer) && took < AT_ONCE
        } else {
            answer.is_ok()
        };
        if !is_right {
            wrong.push(format!(
                "pod {} in {:?} after {took:?}: {answer:?}",
                row.name, row.place
            ));
        }
    }
    let warned = pod(&[], &[("vault.hashicorp.com/agent-inject", "true")]);
    let path = format!("/api/v1/namespaces/{}/pods", places.plain);
    let answer = lab.call(Who::Admin).post(&path, &warned).await;
    if !answer.is_ok() {
        wrong.push(format!("a pod of mode warn: {answer:?}"));
    }
}

/// Says who could not be called, and why.
fn is_legible(answer: &Answer) -> bool {
    let message = answer.message();
    let says = |text| message.contains(text);
    answer.code == 500
        && says("failed calling webhook \"linkerd")
        && says(".gate.meshgate.io\"")
        && says("connection refused")
}

/// A Deployment of a plain namespace comes, and whatever is on the host's network; a Deployment of
/// a meshed namespace waits, and says for what.
async fn workloads(lab: &Lab, places: &Places) {
    lab.apply(&places.plain, DEPLOYMENT).await;
    lab.apply(&places.meshed, ON_HOST_NETWORK).await;
    lab.apply(&places.meshed, DEPLOYMENT).await;
    for (namespace, app) in [(&places.plain, "web"), (&places.meshed, "cni")] {
        let what = format!("2 pods of {app} in {namespace} run");
        within(PATIENCE, &what, async || {
            let mut all = pods_of(lab, namespace, app).await;
            all.retain(|pod| pod["status"]["phase"] == "Running");
            (all.len() >= 2).then_some(())
        })
        .await;
    }
    let describe = ["describe", "replicasets", "-n", &places.meshed];
    within(PATIENCE, "the ReplicaSet says who is away", async || {
        let text = lab.kubectl(&describe).await.ok();
        let says = |words| text.contains(words);
        (says("failed calling webhook \"linkerd.gate.meshgate.io\"") && says("connection refused"))
            .then_some(())
    })
    .await;
    let none = pods_of(lab, &places.meshed, "web").await;
    assert!(none.is_empty(), "{none:?}");
}

async fn pods_of(lab: &Lab, namespace: &str, app: &str) -> Vec<Value> {
    let mut all = pods(lab, namespace).await;
    all.retain(|pod| pod["metadata"]["labels"]["app"] == app);
    all
}
