//! Probes of injectors that have no slices and never will: behind a URL or an ExternalName
//! Service (case 48).
//!
//! A probe is a TCP connection. It shows that the port is open, no more; the check decides.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Cluster;

/// Time between rounds.
pub const INTERVAL: Duration = Duration::from_secs(2);
/// Time that one connection may take.
const DEADLINE: Duration = Duration::from_secs(1);

/// Probes what the profiles want probed, round after round, until `stop`.
pub async fn run(cluster: Arc<Cluster>, stop: CancellationToken) {
    let mut rounds = tokio::time::interval(INTERVAL);
    while stop.run_until_cancelled(rounds.tick()).await.is_some() {
        let targets: BTreeSet<String> = cluster.read().probe_targets().map(str::to_owned).collect();
        if targets.is_empty() {
            continue;
        }
        let probes = targets.iter().map(|target| connect(target));
        let Some(outcomes) = stop.run_until_cancelled(join_all(probes)).await else {
            return;
        };
        cluster.update(|store| {
            for (target, outcome) in targets.iter().zip(outcomes) {
                store.probed(target, outcome);
            }
        });
    }
}

async fn connect(target: &str) -> Result<(), String> {
    match timeout(DEADLINE, TcpStream::connect(target)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(problem)) => Err(problem.to_string()),
        Err(_) => Err(format!("no connection within {DEADLINE:?}")),
    }
}
