//! Owners whose pods were refused get them within seconds of the moment at which they can: real controllers, a real
//! API server.

mod bench;
mod memory;
pub(super) mod owners;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::owners::{Kind, Owner, bare, pods, woken};
use super::harness::{Control, HOME, Lab, Meshgate, Options, PATIENCE, within};
use super::leader::fleet;
use super::registration::CONFIG;
use crate::support::process::get;

/// Long enough that controllers have backed off for longer than [`SOON`].
const REFUSED: Duration = Duration::from_secs(20);
/// From the moment at which the injector is usable, on a machine that does much else.
const SOON: Duration = Duration::from_secs(12);

const INJECT: (&str, &str) = ("linkerd.io/inject", "enabled");

async fn lab() -> (Lab, String) {
    let lab = Lab::own(Options::default()).await;
    lab.install_linkerd().await;
    let namespace = lab.namespace("orders", &[], &[INJECT]).await;
    (lab, namespace)
}

/// Twelve owners, and how many pods these make.
fn twelve() -> (Vec<Owner>, usize) {
    let kinds = [
        (Kind::ReplicaSet, 4),
        (Kind::StatefulSet, 3),
        (Kind::DaemonSet, 2),
        (Kind::Job, 2),
        (Kind::ReplicationController, 1),
    ];
    let all = kinds.iter().flat_map(|(kind, count)| {
        (0..*count).map(|number| Owner::new(*kind, &format!("{}-{number}", kind.plural())))
    });
    // A DaemonSet has one on each of the two Nodes.
    (all.collect(), 24)
}

/// Applies as a tool does that keeps a cluster as its repository says.
async fn apply(lab: &Lab, namespace: &str, owner: &Owner) -> Value {
    let arguments = [
        "apply",
        "--server-side",
        "--field-manager=gitops",
        "-n",
        namespace,
        "-o",
        "json",
        "-f",
        "-",
    ];
    let manifest = owner.manifest().to_string();
    let applied = lab
        .kubectl_as(super::harness::User::Admin, &arguments, &manifest)
        .await;
    serde_json::from_str(&applied.ok()).unwrap()
}

/// Applies all, and waits until they have been refused for a while.
async fn refused(lab: &Lab, namespace: &str, owners: &[Owner]) {
    for owner in owners {
        apply(lab, namespace, owner).await;
    }
    sleep(REFUSED).await;
    assert_eq!(pods(lab, namespace).await, [] as [Value; 0]);
    assert_eq!(woken(lab, namespace, owners).await, 0);
}

/// Waits until so many pods are there, with their sidecars all.
async fn come(lab: &Lab, namespace: &str, count: usize, limit: Duration) {
    let what = format!("{count} pods have come");
    within(limit, &what, async || {
        (pods(lab, namespace).await.len() == count).then_some(())
    })
    .await;
    assert_eq!(bare(lab, namespace).await, [""; 0]);
}

fn accepted(probes: std::net::SocketAddr) -> usize {
    let metrics = get(probes, "/metrics");
    let line = "meshgate_wakes_total{result=\"accepted\"} ";
    let mut lines = metrics.lines().filter_map(|one| one.strip_prefix(line));
    lines.next().map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn refused_owners_of_all_kinds_get_their_pods_once_the_injector_is_there() {
    let (lab, namespace) = lab().await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    let (owners, count) = twelve();
    refused(&lab, &namespace, &owners).await;
    let metrics = meshgate.metrics();
    let blocked = "meshgate_blocked_owners{injector=\"linkerd\"} 12";
    assert!(metrics.lines().any(|line| line == blocked), "{metrics}");
    lab.scale_linkerd(1).await.unwrap();
    let begin = Instant::now();
    come(&lab, &namespace, count, SOON).await;
    crate::support::figures(&format!("{count} pods came within {:.1?}", begin.elapsed()));
    let all = woken(&lab, &namespace, &owners).await;
    assert!(
        all >= owners.len() - 2,
        "{all} were woken: the others tried by themselves"
    );
    assert!(
        accepted(meshgate.probes) <= owners.len(),
        "{}",
        meshgate.metrics()
    );
    within(PATIENCE, "none is blocked any more", async || {
        let none = "meshgate_blocked_owners{injector=\"linkerd\"} 0";
        let metrics = meshgate.metrics();
        metrics.lines().any(|line| line == none).then_some(())
    })
    .await;
    no_drift(&lab, &namespace, &owners).await;
}

/// The tools that apply these objects find them as they left them.
async fn no_drift(lab: &Lab, namespace: &str, owners: &[Owner]) {
    for kind in [Kind::ReplicaSet, Kind::StatefulSet] {
        let own = owners.iter().filter(|owner| owner.kind == kind);
        let mut is_seen = false;
        for owner in own {
            let before = lab.get(&owner.path(namespace)).await.unwrap();
            let after = apply(lab, namespace, owner).await;
            assert_eq!(
                after["metadata"]["generation"],
                before["metadata"]["generation"]
            );
            assert_eq!(after["spec"], before["spec"]);
            let annotation = &after["metadata"]["annotations"]["meshgate.io/woken"];
            assert_eq!(
                annotation,
                &before["metadata"]["annotations"]["meshgate.io/woken"]
            );
            if annotation.is_null() {
                continue;
            }
            is_seen = true;
            let path = format!("{}?", owner.path(namespace));
            let whole = lab.get(&path).await.unwrap();
            let managers = whole["metadata"]["managedFields"].as_array().unwrap();
            let own = managers
                .iter()
                .find(|one| one["manager"] == "meshgate-wake")
                .unwrap();
            let fields = json!({"f:metadata": {"f:annotations": {"f:meshgate.io/woken": {}}}});
            assert_eq!(own["fieldsV1"], fields);
            assert_eq!(own["operation"], "Apply");
        }
        assert!(is_seen, "no {kind:?} was woken");
    }
}

#[tokio::test]
async fn another_leader_goes_on_in_the_middle() {
    let (lab, namespace) = lab().await;
    lab.ensure_namespace(HOME).await;
    let url = fleet::serve(&lab).await;
    let first = Control::start(&lab, "first", CONFIG, &[&url]).await;
    lab.is_closed().await;
    let second = Control::start(&lab, "second", CONFIG, &[&url]).await;
    let (owners, count) = twelve();
    refused(&lab, &namespace, &owners).await;
    lab.scale_linkerd(1).await.unwrap();
    within(PATIENCE, "one is woken", async || {
        (woken(&lab, &namespace, &owners).await > 0).then_some(())
    })
    .await;
    let before = accepted(first.probes);
    first.order("stop").await;
    come(&lab, &namespace, count, SOON).await;
    let after = accepted(second.probes);
    assert!(
        before + after <= owners.len() + 1,
        "{before} and {after} writes"
    );
    assert!(second.leads());
}
