//! Replacing a server, or its certificate, loses no answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::echo;
use crate::support::client::{Client, tls_over};
use crate::support::eventually;
use crate::support::server::{TestServer, are_met};

/// A router whose `/slow` answers when it is told to.
#[derive(Clone, Default)]
struct Slow {
    begun: Arc<AtomicUsize>,
    go: Arc<Notify>,
}

impl Slow {
    fn router(&self) -> Router {
        let slow = self.clone();
        echo().route(
            "/slow",
            get(async move || {
                slow.begun.fetch_add(1, Ordering::SeqCst);
                slow.go.notified().await;
                "done"
            }),
        )
    }

    async fn has_begun(&self, count: usize) {
        let begun = async || self.begun.load(Ordering::SeqCst) == count;
        eventually("the slow requests have begun", begun).await;
    }
}

#[tokio::test]
async fn during_the_delay_it_serves_on_and_sends_clients_away() {
    let server = TestServer::start_with(echo(), |limits| {
        limits.shutdown_delay = Duration::from_secs(3600);
    })
    .await;
    let mut old = server.client().await;
    let idle = server.client().await;
    assert_eq!(old.get("/hello").await.header("connection"), "");

    server.shutdown.drain("test");
    let not_ready = async || !are_met(&server.checks);
    eventually("not ready", not_ready).await;

    let answer = old.get("/hello").await;
    assert_eq!(
        (answer.header("connection"), answer.text()),
        ("close", "hello")
    );
    old.closed().await;
    // New connections are taken, for a request each.
    for _ in 0..2 {
        let mut new = server.client().await;
        assert_eq!(new.get("/hello").await.text(), "hello");
        new.closed().await;
    }
    assert!(!idle.is_closed(), "an idle connection is left alone");
}

#[tokio::test]
async fn open_requests_are_finished_and_idle_connections_closed() {
    let slow = Slow::default();
    let server = TestServer::start(slow.router()).await;
    let mut idle = server.client().await;
    idle.get("/hello").await;
    let mut requests = JoinSet::new();
    for _ in 0..4 {
        let mut client = server.client().await;
        requests.spawn(async move { client.get("/slow").await });
    }
    slow.has_begun(4).await;

    server.shutdown.drain("test");
    idle.closed().await;
    slow.go.notify_waiters();
    for answer in requests.join_all().await {
        assert_eq!(answer.text(), "done");
        assert_eq!(answer.header("connection"), "close");
    }
    server.ended().await;
}

#[tokio::test]
async fn the_drain_ends_at_its_deadline_and_an_abort_at_once() {
    for abort in [false, true] {
        let slow = Slow::default();
        let server = TestServer::start_with(slow.router(), |limits| {
            let hour = Duration::from_secs(3600);
            limits.shutdown_delay = if abort { hour } else { Duration::ZERO };
            limits.drain_deadline = Duration::from_millis(50);
        })
        .await;
        let mut client = server.client().await;
        let mut request = JoinSet::new();
        request.spawn(async move { drop(client.try_get("/slow").await) });
        slow.has_begun(1).await;

        if abort {
            server.shutdown.abort("test");
        } else {
            server.shutdown.drain("test");
        }
        server.ended().await;
    }
}

#[tokio::test]
async fn an_old_connection_is_retired_with_an_answer() {
    let server = TestServer::start_with(echo(), |limits| {
        limits.connection_age = Duration::from_millis(20);
    })
    .await;
    let mut client = server.client().await;
    let retired = async || client.get("/hello").await.header("connection") == "close";
    eventually("retired", retired).await;
    client.closed().await;
}

/// The kernel has completed these connections, and the server has not accepted them when it is
/// told to stop: their clients may have sent already.
#[tokio::test]
async fn connections_that_wait_to_be_accepted_are_served_before_the_end() {
    let server = TestServer::start(echo()).await;
    // Not once is the runtime left alone, so the server cannot accept any of them yet.
    let waiting: Vec<_> = (0..50)
        .map(|_| std::net::TcpStream::connect(server.addr).unwrap())
        .collect();
    server.shutdown.drain("test");
    for stream in waiting {
        stream.set_nonblocking(true).unwrap();
        let stream = TcpStream::from_std(stream).unwrap();
        let stream = tls_over(stream, &server.ca_pem, rustls::DEFAULT_VERSIONS);
        let mut client = Client::over(stream.await.unwrap()).await.unwrap();
        let answer = client.get("/hello").await;
        assert_eq!(
            (answer.text(), answer.header("connection")),
            ("hello", "close")
        );
    }
    server.ended().await;
}
