//! The server over real TLS on loopback: protocols, limits, certificates, probes.

mod admin;
mod drain;
mod h2;
mod hostile;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::{get, post};
use rustls::version::{TLS12, TLS13};

use crate::support::client::{Client, Protocol, tls};
use crate::support::server::TestServer;

/// Answers what it is sent.
pub(crate) fn echo() -> Router {
    Router::new()
        .route("/echo", post(async |body: Bytes| body))
        .route("/hello", get(async || "hello"))
        .route("/refuse", post(async || StatusCode::METHOD_NOT_ALLOWED))
}

#[tokio::test]
async fn both_protocols_over_both_tls_versions() {
    let server = TestServer::start(echo()).await;
    for protocol in [Protocol::H1, Protocol::H2] {
        for version in [&TLS12, &TLS13] {
            let stream = tls(server.addr, &server.ca_pem, protocol, &[version]).await;
            let mut client = Client::over(stream.unwrap(), protocol).await.unwrap();
            for turn in ["one", "two"] {
                let answer = client.post("/echo", "text/plain", turn).await;
                assert_eq!(answer.status, StatusCode::OK);
                assert_eq!(answer.text(), turn, "{protocol:?} {version:?}");
            }
            assert!(!client.is_closed(), "{protocol:?} is kept alive");
        }
    }
}

#[tokio::test]
async fn a_swapped_pair_is_seen_by_the_next_handshake_and_drops_nobody() {
    let server = TestServer::start(echo()).await;
    for protocol in [Protocol::H1, Protocol::H2] {
        let mut before = server.client(protocol).await;
        let renewed = server.renew();
        let after = server.client(protocol).await;
        assert_ne!(before.server_certificate, renewed);
        assert_eq!(after.server_certificate, renewed);
        assert_eq!(before.get("/hello").await.text(), "hello");
    }
}

#[tokio::test]
async fn ready_only_when_the_listener_answers_with_the_live_pair() {
    let server = TestServer::start(echo()).await;
    assert!(server.latches.all_open());
    // Another pair than the one that is served: whoever answers there is not us.
    let other = TestServer::start(echo()).await;
    let probe = meshgate::server::probe::probe_own_listener;
    assert!(probe(server.addr, &server.pair).await.is_ok());
    let error = probe(server.addr, &other.pair).await.unwrap_err();
    assert!(error.to_string().starts_with("no TLS handshake"), "{error}");

    server.shutdown.drain("test");
    server.ended().await;
    assert!(!server.latches.all_open());
    let error = probe(server.addr, &server.pair).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot connect"), "{error}");
}
