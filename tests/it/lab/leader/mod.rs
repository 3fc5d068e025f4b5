//! Several `meshgate control` and one API server: one acts, another takes over, nothing is taken away.

pub(super) mod fleet;
mod handover;
mod leaving;

use std::time::Duration;

use serde_json::Value;

use super::harness::{Control, HOME, Lab, Options, within};
use super::registration::{CONFIG, paths};

/// "Soon", on a machine that does much else; less than it takes to find out that a leader is dead.
const SOON: Duration = Duration::from_secs(10);
/// A Lease that is not renewed is taken after 15 s, and a little more.
const LEASE: Duration = Duration::from_secs(40);

/// No server listens there: what is written is not armed.
const UNREACHED: &str = "--service-port=1";

async fn lab() -> Lab {
    let lab = Lab::own(Options {
        only: ["etcd", "kube-apiserver"].into(),
        ..Options::default()
    })
    .await;
    lab.ensure_namespace(HOME).await;
    lab
}

/// Waits until exactly one of them leads: which, and the others.
async fn leads<'c, 'l>(limit: Duration, controls: &[&'c Control<'l>]) -> &'c Control<'l> {
    within(limit, "one leads", async || {
        let leaders: Vec<_> = controls.iter().filter(|one| one.leads()).collect();
        assert!(leaders.len() <= 1, "two lead");
        leaders.first().map(|one| **one)
    })
    .await
}

/// Waits until all of the registration is there, as it is written before it is reached.
async fn written(lab: &Lab) -> Vec<Option<u64>> {
    within(SOON, "all is written", async || {
        let versions = lab.versions(&paths()).await;
        versions.iter().all(Option::is_some).then_some(versions)
    })
    .await
}

fn transitions(lease: &Value) -> u64 {
    lease["spec"]["leaseTransitions"]
        .as_u64()
        .unwrap_or_default()
}
