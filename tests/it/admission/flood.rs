//! A client that names namespaces as it likes, beside an API server that asks about new ones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use meshgate::cluster::namespace_lookup::Fetch;
use meshgate::cluster::slim;
use meshgate::metrics::Hook;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::hooks::{self, Hooks};
use crate::support::client::{Client, tls_over};
use crate::support::{factor, figures, in_time};

/// Connections of the flood: twice as many as there are places.
const CONNECTIONS: u64 = 64;
/// An API server under pressure: two look-ups in a row take longer than one may.
const LATENCY: Duration = Duration::from_millis(600);

/// `new-…` exists and requires Linkerd, nothing else does.
fn slow() -> Fetch {
    Arc::new(|name: String| {
        async move {
            sleep(LATENCY).await;
            let mut namespace = slim::Namespace::default();
            let marks = &mut namespace.metadata.annotations;
            marks.insert("linkerd.io/inject".to_owned(), "enabled".to_owned());
            let exists = name.starts_with("new-");
            namespace.metadata.name = name;
            Ok(exists.then_some(namespace))
        }
        .boxed()
    })
}

/// A connection from another address than that of the test's other clients.
async fn stranger(hooks: &Hooks) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
    let connected = async {
        let stream = socket.connect(hooks.server.addr).await.unwrap();
        let stream = tls_over(stream, &hooks.server.ca_pem, rustls::DEFAULT_VERSIONS).await;
        Client::over(stream.unwrap()).await.unwrap()
    };
    in_time("a connection", Box::pin(connected)).await
}

#[tokio::test]
async fn invented_namespaces_cost_the_api_server_nothing() {
    let hooks = Hooks::start(slow()).await;
    let (begin, length) = (
        Instant::now(),
        Duration::from_secs(2) * u32::try_from(factor()).unwrap(),
    );
    let invented = Arc::new(AtomicU64::new(0));
    let mut flood = JoinSet::new();
    for connection in 0..CONNECTIONS {
        let mut client = stranger(&hooks).await;
        let invented = Arc::clone(&invented);
        flood.spawn(async move {
            loop {
                let number = invented.fetch_add(1, Ordering::Relaxed);
                let namespace = format!("x-{connection}-{number}");
                let review = hooks::review("u", &namespace, hooks::plain_pod("x-")).to_string();
                let answer = hooks::send(&mut client, Hook::Gate, review).await;
                assert!(
                    answer.text().contains("namespace_unknown"),
                    "{}",
                    answer.text()
                );
            }
        });
    }
    let mut client = hooks.client().await;
    let mut asked = 0;
    while asked < 4 || begin.elapsed() < length {
        let namespace = format!("new-{asked}");
        let review = hooks::review("u", &namespace, hooks::plain_pod("shop-")).to_string();
        let answer = hooks::send(&mut client, Hook::Gate, review).await;
        let right = format!("Namespace {namespace} requires linkerd");
        assert!(answer.text().contains(&right), "{}", answer.text());
        asked += 1;
    }
    flood.abort_all();
    let (took, invented) = (begin.elapsed(), invented.load(Ordering::Relaxed));
    let look_ups = hooks.live.count() - asked;
    figures(&format!(
        "{invented} reviews for invented namespaces in {took:.1?} caused {look_ups} look-ups; {asked} of \
         {asked} for new namespaces were answered"
    ));
    // 20 at once, as many as there are places for a client, and two in each second that began.
    let most = 20 + 16 + 1 + 2 * (took.as_secs() + 1);
    assert!(
        look_ups <= most,
        "{look_ups} look-ups, at most {most} in {took:?}"
    );
}
