//! Many requests at once and in a row: shared look-ups, flat memory, a fixed number of series.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use futures::FutureExt;
use hyper::StatusCode;
use meshgate::admission::{self, Admission};
use meshgate::cluster::Cluster;
use meshgate::cluster::namespace_lookup::{Fetch, NamespaceLookup};
use meshgate::cluster::slim;
use meshgate::cluster::store::Store;
use meshgate::metrics::{Hook, Metrics};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::hooks::{self, HOOKS, LOOKUP_DEADLINE, path};
use crate::support::eventually;
use crate::support::server::TestServer;

/// As many as a ReplicaSet's burst and more.
const PARALLEL: usize = 100;
/// Namespaces and pods of a large cluster.
const MANY: usize = 10_000;

/// A namespace that requires Linkerd.
fn meshed(name: String) -> slim::Namespace {
    let annotations = [("linkerd.io/inject".to_owned(), "enabled".to_owned())];
    slim::Namespace {
        metadata: slim::Metadata {
            name,
            annotations: annotations.into(),
            ..slim::Metadata::default()
        },
    }
}

async fn count(State(seen): State<Arc<AtomicUsize>>, request: Request, next: Next) -> Response {
    seen.fetch_add(1, Ordering::Relaxed);
    next.run(request).await
}

#[tokio::test]
async fn a_hundred_requests_for_one_unknown_namespace_cause_two_look_ups() {
    let open = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&open);
    let fetch: Fetch = Arc::new(move |name| {
        let open = Arc::clone(&waits);
        async move {
            let _permit = open.acquire().await.map_err(|error| error.to_string())?;
            Ok(Some(meshed(name)))
        }
        .boxed()
    });
    let cluster = Arc::new(Cluster::new(Store::new(hooks::presets())));
    cluster.mark_synced();
    let live = NamespaceLookup::new(fetch, LOOKUP_DEADLINE);
    let admission = Admission::new(cluster, live.clone(), Arc::new(Metrics::default()));
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = middleware::from_fn_with_state(Arc::clone(&seen), count);
    let server = TestServer::start(admission::router(Arc::new(admission)).layer(counted)).await;
    let mut clients = Vec::new();
    for _ in 0..PARALLEL {
        clients.push(server.client().await);
    }
    let mut calls = JoinSet::new();
    for (number, mut client) in clients.into_iter().enumerate() {
        let review = hooks::review("u", "shop", hooks::plain_pod("shop-")).to_string();
        let hook = HOOKS[number / 2 % 2];
        calls.spawn(async move { (hook, hooks::send(&mut client, hook, review).await) });
    }
    eventually("all of them wait", async || {
        seen.load(Ordering::Relaxed) == PARALLEL
    })
    .await;
    open.add_permits(PARALLEL);
    while let Some(call) = calls.join_next().await {
        let (hook, answer) = call.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
        let reason = match hook {
            Hook::Gate => "injector_not_ready",
            Hook::Check => "sidecar_missing",
            Hook::Namespaces | Hook::Reach => panic!("{hook:?} is not asked about pods"),
        };
        assert!(answer.text().contains(reason), "{}", answer.text());
    }
    // The first one was under way when the others asked. Its answer may be older than their question, so
    // that they share the next.
    assert_eq!(live.count(), 2);
}

/// The router without a network: what is counted here is not what TLS costs.
struct Bare {
    router: axum::Router,
    metrics: Arc<Metrics>,
    review: String,
}

impl Bare {
    fn new(fetch: Fetch) -> Self {
        let cluster = Arc::new(Cluster::new(Store::new(hooks::presets())));
        cluster.mark_synced();
        let metrics = Arc::new(Metrics::default());
        let live = NamespaceLookup::new(fetch, LOOKUP_DEADLINE);
        let admission = Admission::new(cluster, live, Arc::clone(&metrics));
        let mut pod = hooks::plain_pod("shop-NUMBER-");
        pod["metadata"]["ownerReferences"] =
            json!([{"kind": "ReplicaSet", "name": "shop-NUMBER", "controller": true}]);
        pod["metadata"]["labels"] = json!({"istio.io/rev": "revision-NUMBER"});
        Self {
            router: admission::router(Arc::new(admission)),
            metrics,
            review: hooks::review("uNUMBER", "team-NUMBER", pod).to_string(),
        }
    }

    /// A pod of an owner and a namespace that no other pod has.
    async fn ask(&self, hook: Hook, number: usize) {
        let review = self.review.replace("NUMBER", &number.to_string());
        let request = Request::post(path(hook)).header("content-type", "application/json");
        let mut request = request.body(Body::from(review)).unwrap();
        // A client may cause 200 look-ups a second: here they come from a thousand.
        let client = Ipv4Addr::from_bits(u32::try_from(number % 1_000).unwrap());
        request.extensions_mut().insert(IpAddr::V4(client));
        let answer = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }

    /// Name and labels of every series.
    fn series(&self) -> BTreeSet<String> {
        let metrics = self.metrics.encode();
        let lines = metrics.lines().filter(|line| !line.starts_with('#'));
        let name = |line: &str| line.rsplit_once(' ').unwrap().0.to_owned();
        lines.map(name).collect()
    }
}

/// Resident memory of this process, in bytes; 0 where the system does not say.
fn resident() -> usize {
    let Ok(statm) = std::fs::read_to_string("/proc/self/statm") else {
        return 0;
    };
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[tokio::test]
async fn neither_series_nor_memory_grow_with_namespaces_pods_and_refusals() {
    // Other tests run in the same process: what is looked for is growth without end, at several
    // kilobytes per refusal, not a few megabytes.
    const BOUND: usize = 128 * 1024 * 1024;
    let bare = Bare::new(Arc::new(|name| async { Ok(Some(meshed(name))) }.boxed()));
    for hook in HOOKS {
        bare.ask(hook, 0).await;
    }
    let series = bare.series();
    assert!(series.len() > 10, "{series:?}");
    for number in 1..MANY {
        bare.ask(HOOKS[number % 2], number).await;
    }
    assert_eq!(bare.series(), series);
    let before = resident();
    for number in MANY..3 * MANY {
        bare.ask(Hook::Gate, number).await;
    }
    let after = resident();
    assert!(after < before + BOUND, "{before} bytes, then {after}");
    assert_eq!(bare.series(), series);
}
