//! How long owners wait that were refused for minutes: `make bench-wake`.

use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tokio::time::{Instant, sleep};

use super::lab;
use super::owners::{Kind, Owner, bare, pods};
use crate::lab::harness::{Lab, Meshgate};
use crate::lab::registration::CONFIG;
use crate::support::figures;

const OWNERS: usize = 300;
const REFUSED: Duration = Duration::from_secs(180);
/// Back-off alone takes minutes.
const LONGEST: Duration = Duration::from_secs(900);

/// One pod of a DaemonSet is on each; two Nodes would not have room for all.
const NODES: usize = 4;
/// Of 300 owners, 15 are DaemonSets.
const PODS: usize = 2 * (OWNERS - 15) + 15 * NODES;

/// Seven of ten are those of Deployments.
fn owners() -> Vec<Owner> {
    let kind = |number: usize| match number % 10 {
        0..7 => Kind::ReplicaSet,
        7 => Kind::StatefulSet,
        8 if number % 20 == 8 => Kind::DaemonSet,
        _ => Kind::Job,
    };
    let owner = |number| Owner::new(kind(number), &format!("o-{number}"));
    (0..OWNERS).map(owner).collect()
}

/// A lab with room for all.
async fn roomy() -> (Lab, String) {
    let (lab, namespace) = lab().await;
    for number in 3..=NODES {
        lab.node(&format!("node-{number}")).await;
    }
    (lab, namespace)
}

async fn create(lab: &Lab, namespace: &str) {
    let all = owners();
    let created = stream::iter(&all).map(async |owner| {
        let (list, manifest) = (owner.kind.list(namespace), owner.manifest());
        lab.create(&list, &manifest).await.map(drop)
    });
    let all: Vec<_> = created.buffer_unordered(16).collect().await;
    all.into_iter().for_each(Result::unwrap);
}

/// Waits for all pods, and says when half, most and all of them were there.
async fn measure(lab: &Lab, namespace: &str, what: &str, begin: Instant) -> Duration {
    let all = PODS;
    let parts = [50, 90, 100];
    let mut times = Vec::new();
    while times.len() < parts.len() {
        let count = pods(lab, namespace).await.len();
        while times.len() < parts.len() && count * 100 >= all * parts[times.len()] {
            times.push(begin.elapsed());
        }
        assert!(begin.elapsed() < LONGEST, "{count} of {all} pods");
        sleep(Duration::from_millis(250)).await;
    }
    let bare = bare(lab, namespace).await.len();
    figures(&format!(
        "{what}: 50 % of {all} pods after {:.1?}, 90 % after {:.1?}, all after {:.1?}; {bare} bare",
        times[0], times[1], times[2]
    ));
    assert!(what == UNGATED || bare == 0, "{bare}");
    times[2]
}

const UNGATED: &str = "nothing in the way";

async fn refused_for_minutes(config: &str, what: &str) -> (Duration, usize) {
    let (lab, namespace) = roomy().await;
    let meshgate = Meshgate::start(&lab, config).await;
    create(&lab, &namespace).await;
    sleep(REFUSED).await;
    lab.scale_linkerd(1).await.unwrap();
    let took = measure(&lab, &namespace, what, Instant::now()).await;
    (took, super::accepted(meshgate.probes))
}

#[tokio::test]
#[ignore = "a benchmark: make bench-wake"]
async fn three_hundred_owners_refused_for_three_minutes() {
    let (lab, _) = roomy().await;
    let plain = lab.namespace("plain", &[], &[]).await;
    let begin = Instant::now();
    create(&lab, &plain).await;
    let ungated = measure(&lab, &plain, UNGATED, begin).await;
    drop(lab);
    let (with, writes) = refused_for_minutes(CONFIG, "with wake").await;
    figures(&format!("{writes} writes to {OWNERS} owners"));
    let off = format!("{CONFIG}wake: {{enabled: false}}\n");
    let (without, none) = refused_for_minutes(&off, "without wake").await;
    assert_eq!(none, 0);
    let most = ungated.mul_f64(1.2) + Duration::from_secs(3);
    figures(&format!(
        "ungated {ungated:.1?}, with wake {with:.1?} (to be at most {most:.1?}), without {without:.1?}"
    ));
    assert!(writes <= OWNERS, "{writes} writes");
    assert!(with <= most, "{with:?}");
}
