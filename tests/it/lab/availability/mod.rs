//! No client notices: what is done to meshgate's replicas, their nodes and their certificates in a lab with
//! a real service network, under a load of creates that goes on all the while.
//!
//! Each file is one scenario, for both ways to enforce; `make bench-ha` runs them with large counts, and
//! beside a webhook that fails closed and does nothing else about it.

mod api_server;
mod blind;
mod cold_start;
mod frozen;
mod full_disk;
mod load;
mod lost_node;
mod rollout;
mod rotation;
mod scene;
mod table;

use std::time::Duration;

use self::scene::{Scene, Subject};
use self::table::{HEAD, Row};
use crate::support::figures;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
struct Size {
    restarts: usize,
    cold_starts: usize,
    /// As in production if nothing is said.
    node_grace: Option<u64>,
}

const SMALL: Size = Size {
    restarts: 3,
    cold_starts: 2,
    node_grace: Some(8),
};

const LARGE: Size = Size {
    restarts: 10,
    // Everything at once, and each of the 24 orders.
    cold_starts: 25,
    node_grace: None,
};

#[tokio::test]
async fn with_webhooks() {
    shows(&all(Subject::Webhook, SMALL).await);
}

#[tokio::test]
async fn with_a_policy() {
    shows(&all(Subject::Policy, SMALL).await);
}

#[tokio::test]
async fn cold_start_with_webhooks() {
    starts_cold(Subject::Webhook, SMALL).await;
}

#[tokio::test]
async fn cold_start_with_a_policy() {
    starts_cold(Subject::Policy, SMALL).await;
}

#[tokio::test]
#[ignore = "make bench-ha"]
async fn bench_webhooks() {
    shows(&all(Subject::Webhook, LARGE).await);
}

#[tokio::test]
#[ignore = "make bench-ha"]
async fn bench_policy() {
    shows(&all(Subject::Policy, LARGE).await);
}

#[tokio::test]
#[ignore = "make bench-ha"]
async fn bench_plain() {
    shows(&all(Subject::Plain, LARGE).await);
}

#[tokio::test]
#[ignore = "make bench-ha"]
async fn bench_cold_start_webhooks() {
    starts_cold(Subject::Webhook, LARGE).await;
}

#[tokio::test]
#[ignore = "make bench-ha"]
async fn bench_cold_start_policy() {
    starts_cold(Subject::Policy, LARGE).await;
}

async fn all(subject: Subject, size: Size) -> Vec<Row> {
    let scene = Scene::start(subject, size.node_grace).await;
    // Detection, and what the controllers and kube-proxy take.
    let known = Duration::from_secs(size.node_grace.unwrap_or(50) + 40);
    let mut rows = Vec::new();
    let mut seen = |row: Row| {
        // At once, so that those before a failure are known as well.
        figures(row.lines().trim_end());
        rows.push(row);
    };
    seen(rollout::run(&scene, size.restarts).await);
    seen(full_disk::run(&scene).await);
    if subject.is_ours() {
        seen(blind::run(&scene).await);
        seen(rotation::of_leaf(&scene).await);
        seen(rotation::of_ca(&scene).await);
    }
    seen(frozen::run(&scene).await);
    seen(api_server::run(&scene).await);
    seen(lost_node::run(&scene, known).await);
    rows
}

async fn starts_cold(subject: Subject, size: Size) {
    let scene = Scene::start(subject, size.node_grace).await;
    figures(&cold_start::run(&scene, size.cold_starts).await);
}

fn shows(rows: &[Row]) {
    let lines: String = rows.iter().map(Row::lines).collect();
    figures(&format!("{HEAD}{lines}"));
}
