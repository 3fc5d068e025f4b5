//! What an HTTP/2 client may do at most. Floods are in `hostile/streams.rs`.

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use super::echo;
use crate::support::client::{Protocol, tls};
use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, HELLO, PING, RST_STREAM, SETTINGS, frame, head,
};
use crate::support::in_time;
use crate::support::server::TestServer;

async fn raw(server: &TestServer) -> TlsStream<TcpStream> {
    let versions = rustls::DEFAULT_VERSIONS;
    let stream = tls(server.addr, &server.ca_pem, Protocol::H2, versions).await;
    let mut stream = stream.unwrap();
    stream.write_all(HELLO).await.unwrap();
    stream
}

#[tokio::test]
async fn more_streams_than_allowed_wait_their_turn() {
    let server = TestServer::start(echo()).await;
    let versions = rustls::DEFAULT_VERSIONS;
    let stream = tls(server.addr, &server.ca_pem, Protocol::H2, versions).await;
    let io = TokioIo::new(stream.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let mut driver = JoinSet::new();
    driver.spawn(async move { drop(connection.await) });
    let mut requests = JoinSet::new();
    for _ in 0..500 {
        let mut sender = sender.clone();
        requests.spawn(async move {
            let request = Request::get("https://localhost/hello")
                .body(Empty::<Bytes>::new())
                .unwrap();
            sender.send_request(request).await.unwrap().status()
        });
    }
    let all = in_time("all answers", requests.join_all()).await;
    assert!(all.iter().all(|status| status.is_success()));
}

/// A window of nothing: the answer is made and cannot be sent. Such a client must not keep its
/// place for ever.
#[tokio::test]
async fn a_client_that_takes_no_answer_is_dropped_after_the_idle_time() {
    let server = TestServer::start_with(echo(), |limits| {
        limits.idle_time = Duration::from_millis(100);
        limits.header_time = Duration::from_millis(100);
    })
    .await;
    let mut greedy = raw(&server).await;
    // SETTINGS: INITIAL_WINDOW_SIZE 0.
    let mut request = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    request.extend(frame(
        HEADERS,
        END_STREAM | END_HEADERS,
        1,
        &head(2, "/hello"),
    ));
    greedy.write_all(&request).await.unwrap();
    let mut received = Vec::new();
    let end = in_time("dropped", greedy.read_to_end(&mut received)).await;
    assert!(end.is_err() || !received.is_empty());
}

/// Clients such as curl lose an answer that is followed by a reset of the request's stream: what
/// the router leaves of a body is read on.
#[tokio::test]
async fn an_answer_to_a_body_that_nobody_reads_comes_without_a_reset() {
    const POST: u8 = 3;
    let refusing = Router::new().fallback(async || StatusCode::NOT_FOUND);
    let server = TestServer::start(refusing).await;
    let mut stream = raw(&server).await;
    let mut kinds = Vec::new();
    let request = frame(HEADERS, END_HEADERS, 1, &head(POST, "/nope"));
    stream.write_all(&request).await.unwrap();
    let piece = frame(DATA, 0, 1, &[b'x'; 1_000]);
    stream.write_all(&piece).await.unwrap();
    kinds.extend(until_ping_is_answered(&mut stream).await);
    stream
        .write_all(&frame(DATA, END_STREAM, 1, b"end"))
        .await
        .unwrap();
    while !kinds.contains(&HEADERS) {
        kinds.extend(until_ping_is_answered(&mut stream).await);
    }
    kinds.extend(until_ping_is_answered(&mut stream).await);
    assert!(!kinds.contains(&RST_STREAM), "{kinds:?}");
}

/// Kinds of the frames that come until a ping that is sent now is answered.
async fn until_ping_is_answered(stream: &mut TlsStream<TcpStream>) -> Vec<u8> {
    const ACK: u8 = 1;
    stream.write_all(&frame(PING, 0, 0, &[7; 8])).await.unwrap();
    let mut kinds = Vec::new();
    loop {
        let mut head = [0; 9];
        in_time("a frame", stream.read_exact(&mut head))
            .await
            .unwrap();
        let [a, b, c, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        in_time("its payload", stream.read_exact(&mut payload))
            .await
            .unwrap();
        if (kind, flags) == (PING, ACK) {
            return kinds;
        }
        kinds.push(kind);
    }
}
