//! Floods that HTTP/2 makes possible: cheap frames that cost the server more than the client.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use super::{MIB, Siege, all, flood};
use crate::support::client::Protocol;
use crate::support::factor;
use crate::support::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, HELLO, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, field, frame, head,
};

/// What one attacker sends, again and again, on each of its connections.
struct Flood {
    name: &'static str,
    /// Sent first, after the preface.
    first: fn() -> Vec<u8>,
    /// Sent so many times, or until the server has enough.
    times: usize,
    piece: fn(usize) -> Vec<u8>,
    /// Whether the server has to end the connection before all was sent.
    is_ended: bool,
}

const CONNECTIONS: usize = 8;

fn stream_id(number: usize) -> u32 {
    u32::try_from(number * 2 + 1).unwrap()
}

fn get(number: usize) -> Vec<u8> {
    let flags = END_STREAM | END_HEADERS;
    frame(HEADERS, flags, stream_id(number), &head(2, "/hello"))
}

/// A request whose body never comes.
fn open_post(number: usize) -> Vec<u8> {
    let mut block = head(3, "/mutate/pods?timeout=2s");
    block.extend(field("content-type", "application/json"));
    frame(HEADERS, END_HEADERS, stream_id(number), &block)
}

const FLOODS: [Flood; 10] = [
    Flood {
        name: "rapid reset",
        first: Vec::new,
        times: 8_000,
        piece: |number| {
            let reset = frame(RST_STREAM, 0, stream_id(number), &[0, 0, 0, 8]);
            [get(number), reset].concat()
        },
        is_ended: true,
    },
    Flood {
        name: "streams without end",
        first: Vec::new,
        times: 2_000,
        piece: open_post,
        is_ended: false,
    },
    Flood {
        name: "answers that nobody takes",
        // SETTINGS: INITIAL_WINDOW_SIZE 0.
        first: || frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]),
        times: 2_000,
        piece: get,
        is_ended: false,
    },
    Flood {
        name: "answers taken byte by byte",
        first: || frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]),
        times: 2_000,
        piece: |number| {
            let update = frame(WINDOW_UPDATE, 0, stream_id(number / 20), &[0, 0, 0, 1]);
            if number % 20 == 0 {
                get(number / 20)
            } else {
                update
            }
        },
        is_ended: false,
    },
    Flood {
        name: "CONTINUATION without end",
        first: || frame(HEADERS, END_STREAM, 1, &head(2, "/hello")),
        times: 8_000,
        piece: |_| frame(CONTINUATION, 0, 1, &field("x", "y")),
        is_ended: true,
    },
    Flood {
        name: "large headers",
        first: Vec::new,
        times: 80,
        piece: |number| {
            let mut block = head(2, "/hello");
            for _ in 0..60 {
                block.extend(field("x-large", &"x".repeat(120)));
            }
            let mut more = Vec::new();
            for _ in 0..100 {
                more.extend(field("x-large", &"x".repeat(120)));
            }
            let begin = frame(HEADERS, END_STREAM, stream_id(number), &block);
            let end = frame(CONTINUATION, END_HEADERS, stream_id(number), &more);
            [begin, end].concat()
        },
        is_ended: false,
    },
    Flood {
        name: "PING",
        first: Vec::new,
        times: 4_000,
        piece: |_| frame(PING, 0, 0, b"12345678"),
        is_ended: false,
    },
    Flood {
        name: "SETTINGS",
        first: Vec::new,
        times: 4_000,
        piece: |_| frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]),
        is_ended: false,
    },
    Flood {
        name: "empty DATA",
        first: || open_post(0),
        times: 4_000,
        piece: |_| frame(DATA, 0, 1, b""),
        is_ended: false,
    },
    Flood {
        name: "WINDOW_UPDATE of closed streams",
        first: || get(0),
        times: 4_000,
        piece: |_| frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        is_ended: false,
    },
];

async fn attack(siege: &Siege, which: &Flood) {
    let mut attackers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut stream: TlsStream<TcpStream> = siege.raw(Protocol::H2).await;
        stream.write_all(HELLO).await.unwrap();
        stream.write_all(&(which.first)()).await.unwrap();
        attackers.spawn(flood(stream, which.times * factor(), which.piece));
    }
    siege.load.goes_on(20).await;
    for flooded in all(which.name, attackers).await {
        let ended = flooded.is_ended;
        assert!(ended || !which.is_ended, "{} was let through", which.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_frames() {
    for which in &FLOODS {
        let siege = Siege::begin(&[]).await;
        let what = format!("HTTP/2 flood, {}", which.name);
        siege
            .stands(&what, 48 * MIB, 32 * MIB, async |siege: &Siege| {
                attack(siege, which).await;
            })
            .await;
    }
}
