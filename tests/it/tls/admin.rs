//! Probes and metrics over plain HTTP, also while every worker is busy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use axum::routing::get;
use meshgate::lifecycle::{HealthChecks, Shutdown};
use meshgate::server::admin::{self, Admin, Exposition, Health, Scrape};
use meshgate::server::bind::bind;
use tokio::runtime;

use super::echo;
use crate::support::PATIENCE;
use crate::support::client::Client;
use crate::support::server::TestServer;

fn start(checks: &HealthChecks, shutdown: &Shutdown) -> Admin {
    let listener = bind("127.0.0.1:0".parse().unwrap(), "--admin-listen").unwrap();
    let scrape: Scrape = Arc::new(|| Exposition {
        content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
        body: "# EOF\n".to_owned(),
    });
    let health = Health::new(checks.clone(), shutdown.clone());
    admin::start(listener, health, scrape).unwrap()
}

/// Blocks on purpose: it must not depend on the runtime that is kept busy.
fn request(addr: SocketAddr, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status_and_body(answer: &str) -> (&str, &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap(), body)
}

#[tokio::test]
async fn probes_and_metrics_are_answered_as_the_api_server_does() {
    let (checks, shutdown) = (HealthChecks::default(), Shutdown::default());
    let view = checks.add("view");
    let admin = start(&checks, &shutdown);
    let answers = |path: &str, status: &str, body: &str| {
        let answer = request(admin.address, "GET", path);
        assert_eq!(status_and_body(&answer), (status, body), "{path}");
    };
    const OK: &str = "HTTP/1.1 200 OK";
    const FAILED: &str = "HTTP/1.1 500 Internal Server Error";
    answers("/livez", OK, "ok");
    answers(
        "/readyz",
        FAILED,
        "[+]ping ok\n[-]view failed: not yet\n[+]shutdown ok\nreadyz check failed\n",
    );
    view.pass();
    answers("/readyz", OK, "ok");
    answers(
        "/readyz?verbose",
        OK,
        "[+]ping ok\n[+]view ok\n[+]shutdown ok\nreadyz check passed\n",
    );
    answers("/readyz/view", OK, "ok");
    answers(
        "/readyz/none",
        "HTTP/1.1 404 Not Found",
        "404 page not found\n",
    );
    answers("/", "HTTP/1.1 404 Not Found", "404 page not found\n");
    answers("/metrics", OK, "# EOF\n");
    shutdown.drain("SIGTERM");
    answers("/livez", OK, "ok");
    answers(
        "/readyz",
        FAILED,
        "[+]ping ok\n[+]view ok\n[-]shutdown failed: process is shutting down (SIGTERM)\nreadyz check failed\n",
    );
}

#[tokio::test]
async fn heads_and_methods() {
    let admin = start(&HealthChecks::default(), &Shutdown::default());
    let head = request(admin.address, "HEAD", "/livez");
    assert_eq!(status_and_body(&head), ("HTTP/1.1 200 OK", ""));
    assert!(
        head.contains("content-type: text/plain; charset=utf-8"),
        "{head}"
    );
    let metrics = request(admin.address, "GET", "/metrics");
    assert!(metrics.contains("content-type: application/openmetrics-text"));
    let post = request(admin.address, "POST", "/livez");
    assert!(post.starts_with("HTTP/1.1 405"), "{post}");
}

#[test]
fn probes_are_answered_while_all_workers_are_busy() {
    let (begun, has_begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let block = move || {
        begun.send(()).unwrap();
        // Goes on when the sender is dropped, so that a failed test ends too.
        assert!(released.lock().unwrap().recv().is_err());
        "done"
    };
    let block = Arc::new(block);
    let router = echo().route("/block", get(async move || block()));

    // One worker, and the client on a runtime of its own: one request keeps all workers busy.
    let workers = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (server, admin) = workers.block_on(async {
        let server = TestServer::start(router).await;
        let admin = start(&server.checks, &server.shutdown);
        (server, admin)
    });
    let asking = thread::spawn({
        let (addr, ca_pem) = (server.addr, server.ca_pem.clone());
        move || {
            let own = runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            own.block_on(async {
                let mut client = Client::connect(addr, &ca_pem).await;
                client.get("/block").await
            })
        }
    });
    has_begun.recv_timeout(PATIENCE).unwrap();
    for path in ["/livez", "/readyz", "/metrics"] {
        let answer = request(admin.address, "GET", path);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    drop(release);
    assert_eq!(asking.join().unwrap().text(), "done");
}
