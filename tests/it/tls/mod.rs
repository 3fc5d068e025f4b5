//! The server over real TLS on loopback: limits, certificates, probes.

mod admin;
pub(crate) mod clients;
mod drain;
mod hostile;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::{get, post};
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::client::{Client, tls, tls_offering};
use crate::support::in_time;
use crate::support::server::{TestServer, are_met};

/// Answers what it is sent.
pub(crate) fn echo() -> Router {
    Router::new()
        .route("/echo", post(async |body: Bytes| body))
        .route("/hello", get(async || "hello"))
        .route("/refuse", post(async || StatusCode::METHOD_NOT_ALLOWED))
}

#[tokio::test]
async fn both_tls_versions() {
    let server = TestServer::start(echo()).await;
    for version in [&TLS12, &TLS13] {
        let stream = tls(server.addr, &server.ca_pem, &[version]).await;
        let mut client = Client::over(stream.unwrap()).await.unwrap();
        for turn in ["one", "two"] {
            let answer = client.post("/echo", "text/plain", turn).await;
            assert_eq!(answer.status, StatusCode::OK);
            assert_eq!(answer.text(), turn, "{version:?}");
        }
        assert!(!client.is_closed(), "kept alive");
    }
}

/// The preface of RFC 9113 section 3.4, and an empty SETTINGS frame.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// API servers speak HTTP/1.1 to webhooks, and so that is all there is.
#[tokio::test]
async fn http2_is_neither_agreed_on_nor_spoken() {
    let server = TestServer::start(echo()).await;
    let offering =
        |protocols: &'static [&[u8]]| tls_offering(server.addr, &server.ca_pem, protocols);
    let refused = offering(&[b"h2"]).await.unwrap_err().to_string();
    assert!(refused.contains("NoApplicationProtocol"), "{refused}");
    let both = offering(&[b"h2", b"http/1.1"]).await.unwrap();
    assert_eq!(both.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));

    let none: &[&[u8]] = &[];
    for offered in [none, &[b"http/1.1"]] {
        let mut stream = offering(offered).await.unwrap();
        stream.write_all(HTTP2).await.unwrap();
        let mut answer = String::new();
        let end = in_time("closed", stream.read_to_string(&mut answer)).await;
        assert!(answer.starts_with("HTTP/1.1 505 "), "{end:?} {answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
    let mut client = server.client().await;
    assert_eq!(client.get("/hello").await.text(), "hello");
}

#[tokio::test]
async fn a_swapped_pair_is_seen_by_the_next_handshake_and_drops_no_connection() {
    let server = TestServer::start(echo()).await;
    let mut before = server.client().await;
    let renewed = server.renew();
    let after = server.client().await;
    assert_ne!(before.server_certificate, renewed);
    assert_eq!(after.server_certificate, renewed);
    assert_eq!(before.get("/hello").await.text(), "hello");
}

#[tokio::test]
async fn ready_only_when_the_listener_answers_with_the_live_pair() {
    let server = TestServer::start(echo()).await;
    assert!(are_met(&server.checks));
    // Another pair than the one that is served: that server is another one.
    let other = TestServer::start(echo()).await;
    let probe = meshgate::server::probe::probe_own_listener;
    assert!(probe(server.addr, &server.pair).await.is_ok());
    let error = probe(server.addr, &other.pair).await.unwrap_err();
    assert!(error.to_string().starts_with("no TLS handshake"), "{error}");

    server.shutdown.drain("test");
    server.ended().await;
    assert!(!are_met(&server.checks));
    let error = probe(server.addr, &server.pair).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot connect"), "{error}");
}
