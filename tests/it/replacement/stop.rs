//! A server that stops, a program that is replaced, connections that are retired by age.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::support::load::{Load, PAUSES};
use crate::support::process::{Process, get};
use crate::support::server::{TestServer, are_met};
use crate::support::{eventually, factor};

/// A router that counts how often it was asked each thing, and answers what it was sent.
fn counting() -> (Router, Arc<Mutex<HashMap<Bytes, usize>>>) {
    let asked = Arc::new(Mutex::new(HashMap::new()));
    let counted = Arc::clone(&asked);
    let answer = async move |body: Bytes| {
        *counted.lock().entry(body.clone()).or_default() += 1;
        body
    };
    (Router::new().route("/mutate/pods", post(answer)), asked)
}

/// Without a delay the clients hear of it only by what happens to their connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_reaches_one_server_once_through_stops_with_a_delay_and_without() {
    // With a delay, the endpoint must be withdrawn within it, also on a busy machine.
    for (delay, rounds) in [(Duration::ZERO, 3), (Duration::from_secs(2), 1)] {
        for round in 0..rounds * factor() {
            let (router, asked) = counting();
            let begin = |router: Router| {
                TestServer::start_with(router, |limits| limits.shutdown_delay = delay)
            };
            let (old, new) = (begin(router.clone()).await, begin(router).await);
            let load = Load::start(old.addr, &old.ca_pem, &PAUSES);
            load.goes_on(50).await;
            let asked_to_stop = Instant::now();
            if delay.is_zero() {
                load.send_to(new.addr, &new.ca_pem);
                old.shutdown.drain("test");
            } else {
                old.shutdown.drain("test");
                eventually("not ready", async || !are_met(&old.checks)).await;
                load.goes_on(20).await;
                load.send_to(new.addr, &new.ca_pem);
            }
            old.ended().await;
            let took = asked_to_stop.elapsed();
            assert!(took < delay + Duration::from_secs(10), "{took:?}");
            load.goes_on(50).await;
            let totals = load.end().await;
            totals.nothing_lost(&format!("stop {round} with delay {delay:?}"));
            let asked = asked.lock();
            assert_eq!(asked.len(), totals.sent);
            assert!(asked.values().all(|times| *times == 1), "answered twice");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_retired_by_age_lose_nothing() {
    let process = Process::start(&["--connection-age=50ms"]).await;
    let load = Load::start(process.gate, &process.ca_pem, &PAUSES);
    for _ in 0..factor() {
        load.goes_on(1000).await;
    }
    let totals = load.end().await;
    totals.nothing_lost("retirement by age");
    assert!(totals.connections >= 40, "{totals:?}");
    let decided = process.metric("meshgate_decisions_total");
    assert_eq!(decided, totals.sent as u64);
}

/// As a rolling update does it: the new one is ready, the old one is told to stop, and a moment
/// later its endpoint is withdrawn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_replace_each_other_lose_nothing_and_end_in_time() {
    let flags = ["--shutdown-delay=2s", "--drain-deadline=10s"];
    let mut old = Process::start(&flags).await;
    let load = Load::start(old.gate, &old.ca_pem, &PAUSES);
    for _ in 0..2 * factor() {
        let new = Process::start(&flags).await;
        load.goes_on(100).await;
        let asked = Instant::now();
        old.terminate();
        let not_ready = async || get(old.probes, "/readyz").starts_with("HTTP/1.1 500");
        eventually("not ready", not_ready).await;
        load.send_to(new.gate, &new.ca_pem);
        assert!(old.exited().await.success(), "{}", old.log());
        assert!(asked.elapsed() < Duration::from_secs(10));
        old = new;
    }
    load.goes_on(100).await;
    load.end().await.nothing_lost("stop of the program");
}
