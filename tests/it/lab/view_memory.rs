//! What a large cluster's view costs in memory: `make bench-view`.

use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};

use super::harness::{Lab, Options, PATIENCE, User, within};
use crate::support::figures;
use crate::support::process::{Process, Start, authority};

const NAMESPACES: u64 = 5_000;
const SLICES: u64 = 500;
const ENDPOINTS: u64 = 10;

/// As a platform team makes them: labels and annotations that meshgate does not read.
fn namespace(number: u64) -> Value {
    let labels = json!({
        "team": format!("team-{}", number % 50), "env": "prod", "cost-centre": "4711",
        "pod-security.kubernetes.io/enforce": "baseline", "istio.io/rev": "stable",
    });
    let annotations = json!({
        "linkerd.io/inject": "enabled",
        "owner": "team@example.com",
        "description": "x".repeat(200),
    });
    let metadata = json!({
        "name": format!("n-{number}"), "labels": labels, "annotations": annotations,
    });
    json!({"metadata": metadata})
}

fn slice(number: u64) -> Value {
    let endpoint = |endpoint: u64| {
        let target = json!({
            "kind": "Pod", "namespace": "default",
            "name": format!("backend-{number}-6d5c9b8f7c-{endpoint:05}"),
        });
        json!({
            "addresses": [format!("10.{}.{}.{}", number / 250 + 1, number % 250, endpoint + 1)],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("node-{}", endpoint % 2 + 1), "targetRef": target, "zone": "a",
        })
    };
    let metadata = json!({
        "name": format!("backend-{number}-x"),
        "labels": {"kubernetes.io/service-name": format!("backend-{number}")},
    });
    json!({
        "metadata": metadata, "addressType": "IPv4",
        "endpoints": (0..ENDPOINTS).map(endpoint).collect::<Vec<_>>(),
        "ports": [{"name": "http", "port": 8080}],
    })
}

async fn fill(lab: &Lab, path: &str, objects: impl Iterator<Item = Value>) {
    let created = stream::iter(objects).map(async |object| lab.create(path, &object).await);
    let all: Vec<_> = created.buffer_unordered(16).collect().await;
    all.into_iter().for_each(|created| drop(created.unwrap()));
}

fn mebibytes(kibibytes: u64) -> f64 {
    f64::from(u32::try_from(kibibytes).unwrap()) / 1024.0
}

#[tokio::test]
#[ignore = "a benchmark: make bench-view"]
async fn five_thousand_namespaces_and_five_hundred_slices() {
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver"],
        ..Options::default()
    })
    .await;
    let start = async || {
        let start = Start {
            kubeconfig: Some(lab.kubeconfig(User::Admin)),
            ..Start::default()
        };
        start.run(&authority()).await
    };
    let say = |what: &str, process: &Process| {
        let (now, peak) = (process.memory(), process.peak_memory());
        let (now, peak) = (mebibytes(now), mebibytes(peak));
        figures(&format!(
            "{what}: {now:.1} MiB resident, {peak:.1} MiB at most"
        ));
    };
    let process = start().await;
    say("an empty cluster", &process);
    fill(&lab, "/api/v1/namespaces", (0..NAMESPACES).map(namespace)).await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    fill(&lab, slices, (0..SLICES).map(slice)).await;
    say("after all of them came as events", &process);
    drop(process);

    let process = start().await;
    say("after all of them were listed", &process);
    let (listed, lists) = (
        process.memory(),
        process.metric("meshgate_view_lists_total"),
    );
    assert!(listed < 48 * 1024, "{listed} KiB");
    process.signal("-STOP");
    lab.namespace("later", &[], &[]).await;
    let object = slice(SLICES);
    lab.create(slices, &object).await.unwrap();
    lab.order("compact").await;
    lab.order("restart kube-apiserver").await;
    process.signal("-CONT");
    let relisted =
        async || (process.metric("meshgate_view_lists_total") >= lists + 2).then_some(());
    within(PATIENCE, "two kinds are listed anew", relisted).await;
    let current = async || (process.metric("meshgate_view_current") == 5).then_some(());
    within(PATIENCE, "the view is current", current).await;
    say("after they were listed anew", &process);
    assert!(
        process.peak_memory() <= 2 * listed,
        "{} KiB",
        process.peak_memory()
    );
}
