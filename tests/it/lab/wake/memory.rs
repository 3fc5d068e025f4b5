//! What the workloads of a large cluster cost the leader in memory: `make bench-view`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::lab::harness::{Control, PATIENCE, within};
use crate::lab::registration::CONFIG;
use crate::lab::view_memory::{fill, lab, mebibytes, namespace};
use crate::support::figures;
use crate::support::process::get;

const NAMESPACES: u64 = 5_000;
const PODS: u64 = 100_000;
const SETS: u64 = 30_000;
/// Of the leader, in KiB: resident, and at most while it lists anew.
const LEADER: u64 = 128 * 1024;
const LEADER_PEAK: u64 = 224 * 1024;

/// As a controller makes them: one in three ReplicaSets wants pods, ten each; the others are old.
fn workload(number: u64, is_pod: bool) -> Value {
    let set = if is_pod { number % (SETS / 3) } else { number };
    let name = format!(
        "service-{}-{:08x}",
        set / 3,
        set * 2_654_435_761 % (1 << 32)
    );
    let labels = json!({"app": format!("service-{}", set / 3), "pod-template-hash": name});
    let containers = json!([{"name": "app", "image": format!("registry.example.com/team/service:{set}"),
        "env": [{"name": "A", "value": "x".repeat(300)}]}]);
    let annotations = json!({"linkerd.io/inject": "enabled", "note": "x".repeat(200)});
    let template = json!({"labels": labels, "annotations": annotations});
    let spec = json!({"containers": containers});
    if is_pod {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": true,
            "uid": format!("00000000-0000-4000-8000-{set:012x}")});
        let mut metadata = template;
        metadata["name"] = json!(format!("{name}-{number:06}"));
        metadata["ownerReferences"] = json!([owner]);
        return json!({"metadata": metadata, "spec": spec});
    }
    let replicas = if set < SETS / 3 { 10 } else { 0 };
    let metadata = json!({"name": name, "labels": labels});
    json!({"metadata": metadata, "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
        "template": {"metadata": template, "spec": spec}}})
}

/// Of the process with this in its arguments, in KiB: resident, and at most so far.
fn memory_of(argument: &str) -> [u64; 2] {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let is_it = |folder: &Path| {
        let arguments = fs::read(folder.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(&format!("--admin-listen={argument}"))
    };
    let mut own = processes.map(|one| one.path()).filter(|one| is_it(one));
    let status = fs::read_to_string(own.next().unwrap().join("status")).unwrap();
    ["VmRSS:", "VmHWM:"].map(|field| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    })
}

/// The workloads that the leader holds to wake refused controllers.
#[tokio::test]
#[ignore = "a benchmark: make bench-view"]
async fn a_hundred_thousand_pods_and_thirty_thousand_replica_sets_of_the_leader() {
    let lab = lab().await;
    fill(&lab, "/api/v1/namespaces", (0..NAMESPACES).map(namespace)).await;
    for number in 0..100 {
        lab.ensure_namespace(&format!("n-{number}")).await;
    }
    for number in 0..100 {
        let of = |all: u64, is_pod| {
            let own = (0..all).filter(move |one| one % 100 == number);
            own.map(move |one| workload(one, is_pod))
        };
        let sets = format!("/apis/apps/v1/namespaces/n-{number}/replicasets");
        fill(&lab, &sets, of(SETS, false)).await;
        fill(
            &lab,
            &format!("/api/v1/namespaces/n-{number}/pods"),
            of(PODS, true),
        )
        .await;
    }
    let leader = Control::start(
        &lab,
        "leader",
        CONFIG,
        &["--webhook-url=https://127.0.0.1:1"],
    )
    .await;
    let blocked = "meshgate_blocked_owners{injector=\"linkerd\"} 10000";
    within(3 * PATIENCE, blocked, async || {
        get(leader.probes, "/metrics")
            .contains(blocked)
            .then_some(())
    })
    .await;
    let [now, peak] = memory_of(&leader.probes.to_string());
    let (resident, most) = (mebibytes(now), mebibytes(peak));
    figures(&format!(
        "{PODS} pods and {SETS} ReplicaSets of the leader: {resident:.1} MiB resident, {most:.1} MiB at most"
    ));
    assert!(now < LEADER && peak < LEADER_PEAK);
}
