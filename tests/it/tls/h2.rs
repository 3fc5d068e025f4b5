//! HTTP/2 clients that flood, and a normal one beside them.

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
use crate::support::in_time;
use crate::support::server::TestServer;

/// Preface and an empty SETTINGS frame: all that a client has to say before it misbehaves.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn raw(server: &TestServer) -> TlsStream<TcpStream> {
    let versions = rustls::DEFAULT_VERSIONS;
    let stream = tls(server.addr, &server.ca_pem, Protocol::H2, versions).await;
    let mut stream = stream.unwrap();
    stream.write_all(HELLO).await.unwrap();
    stream
}

/// A frame head: length, type, flags, stream.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// `GET /hello` for localhost over https, as indexed and literal fields without a table.
fn get_hello() -> Vec<u8> {
    let mut block = vec![0x82, 0x87, 0x04, 6];
    block.extend(b"/hello");
    block.extend([0x01, 9]);
    block.extend(b"localhost");
    block
}

#[tokio::test]
async fn rapid_resets_end_the_connection_and_disturb_nobody() {
    let server = TestServer::start(echo()).await;
    let mut client = server.client(Protocol::H2).await;
    let mut flood = raw(&server).await;
    let mut ended = false;
    for stream in (1..200_000_u32).step_by(2) {
        let mut both = frame(1, 0x05, stream, &get_hello());
        both.extend(frame(3, 0, stream, &[0, 0, 0, 8]));
        if flood.write_all(&both).await.is_err() {
            ended = true;
            break;
        }
    }
    assert_eq!(client.get("/hello").await.text(), "hello");
    let mut rest = Vec::new();
    ended |= in_time("the end of the flood", flood.read_to_end(&mut rest))
        .await
        .is_ok();
    assert!(ended);
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
    let mut request = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    request.extend(frame(1, 0x05, 1, &get_hello()));
    greedy.write_all(&request).await.unwrap();
    let mut received = Vec::new();
    let end = in_time("dropped", greedy.read_to_end(&mut received)).await;
    assert!(end.is_err() || !received.is_empty());
}
