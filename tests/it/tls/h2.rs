//! What an HTTP/2 client may do at most. Floods are in `hostile/streams.rs`.

use std::time::Duration;

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
use crate::support::frames::{END_HEADERS, END_STREAM, HEADERS, HELLO, SETTINGS, frame, head};
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
