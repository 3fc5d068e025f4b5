//! Connections that do nothing, or nothing that makes sense.

use std::sync::Arc;
use std::time::Duration;

use meshgate::server::descriptors;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{MIB, Siege, all, rest};
use crate::support::client::Client;
use crate::support::load::{PATH, review};
use crate::support::{figures, in_time};

/// The first message of a TLS handshake.
fn client_hello() -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

/// Sends `first` on so many connections, and waits until the server has closed each.
async fn closed_after(siege: &Siege, count: usize, first: &[u8]) {
    let mut silent = JoinSet::new();
    for _ in 0..count {
        let (mut stream, first) = (siege.tcp().await, first.to_vec());
        silent.spawn(async move {
            // It may be closed in the middle of this.
            drop(stream.write_all(&first).await);
            rest(&mut stream).await;
        });
    }
    siege.load.goes_on(50).await;
    all("closed", silent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_handshakes_are_closed_in_time() {
    let siege = Siege::begin(&["--handshake-time=1s"]).await;
    let what = "500 connections that open and say nothing";
    siege
        .stands(what, 32 * MIB, 16 * MIB, async |siege: &Siege| {
            closed_after(siege, 500, b"").await;
        })
        .await;

    let siege = Siege::begin(&["--handshake-time=1s"]).await;
    let what = "500 that go silent after the ClientHello";
    siege
        .stands(what, 64 * MIB, 16 * MIB, async |siege: &Siege| {
            closed_after(siege, 500, &client_hello()).await;
        })
        .await;
}

/// They may be clients that will call soon, so they stay until others want their place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_go_silent_after_the_handshake() {
    let siege = Siege::begin(&[]).await;
    let what = "500 that go silent after the TLS handshake";
    siege
        .stands(what, 64 * MIB, 16 * MIB, async |siege: &Siege| {
            let mut silent = Vec::new();
            for _ in 0..500 {
                silent.push(siege.raw().await);
            }
            siege.load.goes_on(100).await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_in_place_of_tls() {
    // A TLS record of the largest length there is, and what other programs say first.
    let mut record = vec![22, 3, 1, 0xff, 0xff];
    record.resize(70_000, 0);
    let mut alert = vec![21, 3, 3, 0, 2, 2, 40];
    alert.resize(10_000, 21);
    let noise: Vec<u8> = (0..50_000_u32).map(|n| ((n * 7919) >> 5) as u8).collect();
    let garbage = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"\x80\x2e\x01\x03\x01\0\x15\0\0\0\x10".to_vec(),
        record,
        alert,
        noise,
    ];
    let siege = Siege::begin(&["--handshake-time=1s"]).await;
    siege
        .stands(
            "300 connections of garbage",
            64 * MIB,
            16 * MIB,
            async |siege: &Siege| {
                for garbage in &garbage {
                    closed_after(siege, 50, garbage).await;
                }
            },
        )
        .await;
}

/// More than there are places. Those who wait are served in turn, and those who hold a place for
/// nothing lose it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_connections_that_do_nothing() {
    let count = descriptors::make_room(5_500).saturating_sub(500);
    let siege = Siege::begin(&[]).await;
    let what = format!("{count} connections that do nothing");
    siege
        .stands(&what, 64 * MIB, 48 * MIB, async |siege: &Siege| {
            let mut idle = Vec::new();
            for _ in 0..count {
                idle.push(siege.tcp().await);
            }
            siege.load.goes_on(50).await;
            let (addr, ca_pem) = (siege.process.gate, &siege.process.ca_pem);
            let mut new = Client::connect(addr, ca_pem).await;
            let answer = in_time("an answer", new.try_post(PATH, &review("new"))).await;
            assert!(answer.unwrap().text().contains("new"));
            siege.load.goes_on(50).await;
        })
        .await;
}

/// All places are held by clients that were answered and then say nothing. An API server that calls
/// twelve times a second, each time on a new connection or on its own, loses no call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_clients_that_go_silent_after_an_answer() {
    const PLACES: usize = 2_048;
    let room = descriptors::make_room(3_000);
    assert!(room >= 3_000, "the limit of open files is too low: {room}");
    for own_cap in ["--connections-per-peer=1024", "--connections-per-peer=4096"] {
        let siege = Siege::begin(&[own_cap]).await;
        let what = format!("{PLACES} clients that go silent after an answer, {own_cap}");
        siege
            .stands(&what, 128 * MIB, 64 * MIB, async |siege: &Siege| {
                let (addr, ca_pem) = (siege.process.gate, &siege.process.ca_pem);
                let call = async || {
                    let mut client = Client::try_connect(addr, ca_pem).await.ok()?;
                    let answer = client.try_post(PATH, &review("call")).await.ok()?;
                    answer.text().contains("call").then_some(client)
                };
                let mut silent = Vec::new();
                for _ in 0..PLACES {
                    silent.push(in_time("an answer", Box::pin(call())).await.unwrap());
                }
                let mut calls = tokio::time::interval(Duration::from_millis(1_000 / 12));
                let mut lost = 0;
                for _ in 0..60 {
                    calls.tick().await;
                    let answered = timeout(Duration::from_secs(5), Box::pin(call())).await;
                    lost += usize::from(!matches!(answered, Ok(Some(_))));
                }
                figures(&format!(
                    "{what}: {lost} of 60 calls on new connections lost"
                ));
                assert_eq!(lost, 0);
                siege.load.goes_on(50).await;
            })
            .await;
    }
}
