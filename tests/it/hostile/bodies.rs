//! Requests that take their time or have no end.

use std::time::Duration;

use meshgate::server::descriptors;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{MIB, Siege, all, flood, rest};
use crate::support::client::Client;
use crate::support::in_time;
use crate::support::load::{PATH, review};

/// Writes one byte at a time until the server has closed; what it said.
async fn trickle(siege: &Siege, head: String) -> impl Future<Output = String> + use<> {
    let mut stream = siege.raw().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    async move {
        let (mut from, mut to) = tokio::io::split(stream);
        let drip = async {
            while to.write_all(b"x").await.is_ok() && to.flush().await.is_ok() {
                sleep(Duration::from_millis(20)).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = drip => unreachable!(),
            said = rest(&mut from) => String::from_utf8(said).unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_byte_by_byte() {
    let siege = Siege::begin(&["--header-time=1s"]).await;
    siege
        .stands(
            "200 with headers byte by byte",
            64 * MIB,
            16 * MIB,
            async |siege: &Siege| {
                let mut slow = JoinSet::new();
                for _ in 0..200 {
                    let head = format!("POST {PATH} HTTP/1.1\r\nHost: x\r\nX-Slow: ");
                    slow.spawn(trickle(siege, head).await);
                }
                siege.load.goes_on(50).await;
                let said = all("slow headers closed", slow).await;
                assert!(said.iter().all(String::is_empty), "{said:?}");
            },
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_byte_by_byte() {
    let siege = Siege::begin(&[]).await;
    siege
        .stands(
            "200 with bodies byte by byte",
            64 * MIB,
            16 * MIB,
            async |siege: &Siege| {
                let mut slow = JoinSet::new();
                for _ in 0..200 {
                    let head = "POST /mutate/pods?timeout=3s HTTP/1.1\r\nHost: x\r\n\
                                Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n";
                    slow.spawn(trickle(siege, head.to_owned()).await);
                }
                siege.load.goes_on(50).await;
                for said in all("slow bodies answered", slow).await {
                    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
                    assert!(said.contains("connection: close"), "{said}");
                }
            },
        )
        .await;
}

const PIECE: usize = 64 * 1024;
const HUNDRED_MB: usize = 100 * 1000 * 1000;

fn head(more: &str) -> Vec<u8> {
    format!("POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{more}\r\n\r\n")
        .into_bytes()
}

/// Sends 100 MB, in chunks or announced; what the server said.
async fn hundred_mb(siege: &Siege, is_chunked: bool) -> impl Future<Output = String> + use<> {
    let mut stream = siege.raw().await;
    let (head, piece) = if is_chunked {
        let mut chunk = format!("{PIECE:x}\r\n").into_bytes();
        chunk.resize(chunk.len() + PIECE, b' ');
        chunk.extend(b"\r\n");
        (head("Transfer-Encoding: chunked"), chunk)
    } else {
        let length = format!("Content-Length: {HUNDRED_MB}");
        (head(&length), vec![b' '; PIECE])
    };
    stream.write_all(&head).await.unwrap();
    async move {
        let said = flood(stream, HUNDRED_MB / PIECE, &piece).await;
        String::from_utf8(said).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_a_hundred_megabytes() {
    let siege = Siege::begin(&[]).await;
    siege
        .stands(
            "48 bodies of 100 MB at once",
            128 * MIB,
            48 * MIB,
            async |siege: &Siege| {
                let mut announced = JoinSet::new();
                for number in 0..48 {
                    announced.spawn(hundred_mb(siege, number % 2 == 0).await);
                }
                siege.load.goes_on(50).await;
                for said in all("large bodies refused", announced).await {
                    // By its size, or by its time because it waited for a place.
                    let ended = ["HTTP/1.1 413", "HTTP/1.1 408"];
                    assert!(ended.iter().any(|end| said.starts_with(end)), "{said:?}");
                }
            },
        )
        .await;
}

/// Large but allowed, and more at once than may be in memory: they wait for each other, and each
/// is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_wait_for_each_other_and_none_is_refused() {
    let siege = Siege::begin(&[]).await;
    siege
        .stands(
            "24 reviews of 4 MB at once",
            192 * MIB,
            48 * MIB,
            async |siege: &Siege| {
                let mut calls = JoinSet::new();
                for number in 0..24 {
                    let (addr, ca_pem) = (siege.process.gate, siege.process.ca_pem.clone());
                    let uid = format!("large-{number}");
                    let name = r#""generateName":"x-""#;
                    let blob = "a".repeat(4_000_000);
                    let large = format!(r#"{name},"annotations":{{"a":"{blob}"}}"#);
                    let body = review(&uid).replace(name, &large);
                    assert!(body.len() > 4_000_000);
                    let mut client = Client::connect(addr, &ca_pem).await;
                    calls.spawn(async move {
                        let call = client.try_post("/mutate/pods?timeout=30s", &body);
                        let answer = timeout(Duration::from_secs(30), call).await;
                        let answer = answer.unwrap().unwrap();
                        assert!(answer.text().contains(&uid), "{answer:?}");
                    });
                }
                in_time("all answers", calls.join_all()).await;
            },
        )
        .await;
}

/// Every connection holds as much of a body as it may, and those bodies that are larger are such as
/// take most to read. The chart's limit is 256 MiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_limits_at_their_worst_leave_a_quarter_of_the_memory() {
    const LIMIT: u64 = 192 * MIB;
    let room = descriptors::make_room(3_000);
    assert!(room >= 3_000, "the limit of open files is too low: {room}");
    let siege = Siege::begin(&["--connections-per-peer=4096"]).await;
    let more = LIMIT - siege.before;
    let what = "2,030 connections with bodies and 16 large ones, again and again";
    siege
        .stands(what, more, LIMIT, async |siege: &Siege| {
            let mut held = Vec::new();
            for _ in 0..2_030 {
                let mut stream = siege.raw().await;
                let head = format!(
                    "POST {PATH} HTTP/1.1\r\nHost: x\r\nX: {}\r\nContent-Type: application/json\r\n\
                     Content-Length: 7000000\r\n\r\n",
                    "x".repeat(7_000)
                );
                stream.write_all(head.as_bytes()).await.unwrap();
                // What the server does not read stays in the kernel.
                let piece = vec![b' '; 40_000];
                drop(timeout(Duration::from_millis(20), stream.write_all(&piece)).await);
                held.push(stream);
            }
            let text = format!("\"generateName\":\"{}\\n\"", "a\\n".repeat(2_600_000));
            let body = review("worst").replace(r#""generateName":"x-""#, &text);
            let mut calls = JoinSet::new();
            for _ in 0..16 {
                let (addr, ca_pem) = (siege.process.gate, siege.process.ca_pem.clone());
                let body = body.clone();
                calls.spawn(async move {
                    let call = async {
                        let mut client = Client::try_connect(addr, &ca_pem).await.ok()?;
                        client
                            .try_post("/mutate/pods?timeout=30s", &body)
                            .await
                            .ok()
                    };
                    timeout(Duration::from_secs(60), Box::pin(call)).await.ok()
                });
            }
            in_time("the end of the large ones", calls.join_all()).await;
            drop(held);
        })
        .await;
}
