//! Clients that misbehave, and one beside them whose answers must all come.

use std::io;
use std::time::Duration;

use axum::http::StatusCode;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::echo;
use crate::support::client::{Client, tls};
use crate::support::in_time;
use crate::support::server::TestServer;

const SHORT: Duration = Duration::from_millis(100);

async fn raw(server: &TestServer) -> TlsStream<TcpStream> {
    let versions = rustls::DEFAULT_VERSIONS;
    let stream = tls(server.addr, &server.ca_pem, versions).await;
    stream.unwrap()
}

/// Reads until the server closes, however it does that.
async fn closed(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut received = Vec::new();
    let end = in_time("closed by the server", stream.read_to_end(&mut received)).await;
    if let Err(error) = end {
        let kind = error.kind();
        let cut = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
        assert!(cut.contains(&kind), "{error}");
    }
    received
}

#[tokio::test]
async fn a_handshake_that_does_not_come_or_is_none_is_ended() {
    let server = TestServer::start_with(echo(), |limits| limits.handshake_time = SHORT).await;
    let mut client = server.client().await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(server.addr).await.unwrap());
    }
    let mut garbage = TcpStream::connect(server.addr).await.unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(client.get("/hello").await.text(), "hello");
    closed(&mut garbage).await;
    for mut one in silent {
        closed(&mut one).await;
    }
    assert_eq!(client.get("/hello").await.text(), "hello");
}

#[tokio::test]
async fn slow_headers_are_ended_and_an_idle_connection_outlives_them() {
    let server = TestServer::start_with(echo(), |limits| limits.header_time = SHORT).await;
    let mut idle = server.client().await;
    let mut fresh = server.client().await;
    assert_eq!(idle.get("/hello").await.text(), "hello");
    // Each of these takes as long as the header time, the idle ones wait for both.
    for _ in 0..2 {
        let mut slow = raw(&server).await;
        slow.write_all(b"POST /echo HTTP/1.1\r\nHost: x\r\n")
            .await
            .unwrap();
        assert_eq!(closed(&mut slow).await, b"");
    }
    // Also on a connection that was good before.
    let mut second = raw(&server).await;
    second
        .write_all(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut byte = [0];
    second.read_exact(&mut byte).await.unwrap();
    second.write_all(b"GET /he").await.unwrap();
    assert!(closed(&mut second).await.ends_with(b"hello"));

    assert_eq!(idle.get("/hello").await.text(), "hello");
    assert_eq!(fresh.get("/hello").await.text(), "hello");
}

#[tokio::test]
async fn headers_that_are_too_large_are_refused() {
    let server = TestServer::start(echo()).await;
    let mut stream = raw(&server).await;
    let mut request = b"GET /hello HTTP/1.1\r\nHost: x\r\nX: ".to_vec();
    request.resize(40_000, b'x');
    // It may be answered before it is sent in full, and the answer must not be lost by that.
    drop(stream.write_all(&request).await);
    let answer = String::from_utf8(closed(&mut stream).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");

    let mut client = server.client().await;
    assert_eq!(client.get("/hello").await.text(), "hello");
}

#[tokio::test]
async fn what_is_no_http_is_told_so() {
    let server = TestServer::start(echo()).await;
    let mut stream = raw(&server).await;
    stream.write_all(&[b'?'; 10_000]).await.unwrap();
    let answer = String::from_utf8(closed(&mut stream).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn a_client_whose_body_is_not_read_still_gets_the_answer() {
    let server = TestServer::start(echo()).await;
    let mut stream = raw(&server).await;
    let head = b"POST /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let piece = vec![b'x'; 100_000];
    for _ in 0..200 {
        stream.write_all(&piece).await.unwrap();
    }
    let answer = String::from_utf8(closed(&mut stream).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn a_request_without_a_body_to_read_keeps_its_connection() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client().await;
    let answer = client.post("/refuse", "text/plain", "").await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(answer.header("connection"), "");
    assert_eq!(client.get("/hello").await.text(), "hello");
}

#[tokio::test]
async fn beyond_the_connection_limit_callers_wait_and_are_served() {
    let server = TestServer::start_with(echo(), |limits| limits.max_connections = 2).await;
    let mut first = server.client().await;
    let mut second = server.client().await;
    first.get("/hello").await;
    second.get("/hello").await;

    let waiting = Client::try_connect(server.addr, &server.ca_pem);
    tokio::pin!(waiting);
    tokio::select! {
        _ = &mut waiting => panic!("served beyond the limit"),
        // As long as it takes to be served on the connections that have a place.
        () = async { for _ in 0..50 { first.get("/hello").await; second.get("/hello").await; } } => {}
    }
    drop(first);
    let mut third = in_time("a place", waiting).await.unwrap();
    assert_eq!(third.get("/hello").await.text(), "hello");
}

#[tokio::test]
async fn connections_that_do_nothing_make_room_for_those_who_wait() {
    let server = TestServer::start_with(echo(), |limits| limits.max_connections = 4).await;
    let mut used = server.client().await;
    used.get("/hello").await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(raw(&server).await);
    }
    // There are four places: the new client is served because an idle one had to go. How many of
    // them go depends on how long the new client waits.
    let mut new = server.client().await;
    assert_eq!(new.get("/hello").await.text(), "hello");
    assert_eq!(used.get("/hello").await.text(), "hello");
    drop(idle);
}

/// A client that begins a large body and then sends nothing keeps room in `--body-memory`: not for
/// long, so that clients that send get theirs.
#[tokio::test]
async fn large_bodies_that_stall_make_room_for_those_that_come() {
    let server = TestServer::start_with(echo(), |limits| limits.body_memory = 32 << 20).await;
    let mut stalled = Vec::new();
    for _ in 0..6 {
        let mut stream = raw(&server).await;
        let head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&[b'x'; 60_000]).await.unwrap();
        stalled.push(stream);
    }
    for _ in 0..2 {
        let mut client = server.client().await;
        let answer = client
            .post("/echo", "text/plain", vec![b'y'; 1_000_000])
            .await;
        assert_eq!(
            (answer.status, answer.body.len()),
            (StatusCode::OK, 1_000_000)
        );
    }
}

/// The answer is made and cannot be sent: its client must not keep its place for ever.
#[tokio::test]
async fn a_client_that_takes_no_answer_is_dropped_after_the_idle_time() {
    let router = echo().route("/huge", get(async || vec![b'x'; 64 << 20]));
    let server = TestServer::start_with(router, |limits| {
        limits.max_connections = 1;
        (limits.idle_time, limits.header_time) = (SHORT, SHORT);
    })
    .await;
    let mut greedy = raw(&server).await;
    let request = b"GET /huge HTTP/1.1\r\nHost: x\r\n\r\n";
    greedy.write_all(request).await.unwrap();
    // Part of the answer is there, and the rest of it fills all buffers.
    greedy.read_exact(&mut [0; 1024]).await.unwrap();

    let mut next = server.client().await;
    assert_eq!(next.get("/hello").await.text(), "hello");
    drop(greedy);
}
