//! The watches of Services by name, against an API server of which every answer can be held back.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures::stream::{self, StreamExt};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::{Request, Response};
use kube::Client;
use kube::client::Body;
use meshgate_core::injector::Injectors;
use meshgate_core::readiness::{Looked, Readiness};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::server::event;
use crate::cluster::Cluster;
use crate::cluster::store::Store;
use crate::cluster::watch::run;

/// Lists by path and selector, and what is said on watches of the same.
#[derive(Default)]
struct State {
    lists: BTreeMap<String, Vec<Value>>,
    /// Lists that are not answered yet.
    held: Vec<String>,
    events: BTreeMap<String, Vec<String>>,
    asked: Vec<String>,
}

#[derive(Clone, Default)]
struct Server(Arc<(Mutex<State>, Notify)>);

const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

fn slices_of(namespace: &str, name: &str) -> String {
    format!(
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?\
         labelSelector=kubernetes.io%2Fservice-name%3D{name}"
    )
}

/// Path and selector of a request.
fn address(uri: &str) -> String {
    let (path, query) = uri.split_once('?').unwrap();
    let selector = query.split('&').find(|pair| pair.contains("Selector="));
    match selector {
        Some(selector) => format!("{path}?{selector}"),
        None => path.to_owned(),
    }
}

/// The webhook configuration of Linkerd, with this Service.
fn linkerd_at(namespace: &str, name: &str) -> Value {
    located("linkerd-proxy-injector.linkerd.io", namespace, name)
}

fn located(entry: &str, namespace: &str, name: &str) -> Value {
    let service = json!({"namespace": namespace, "name": name});
    json!({
        "metadata": {"name": entry, "resourceVersion": "5"},
        "webhooks": [{"name": entry, "clientConfig": {"service": service}}],
    })
}

fn slice(namespace: &str, service: &str, is_ready: bool) -> Value {
    let labels = json!({"kubernetes.io/service-name": service});
    json!({
        "metadata": {"namespace": namespace, "name": "s", "labels": labels, "resourceVersion": "6"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": is_ready}}],
    })
}

impl Server {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.0.lock());
        self.0.1.notify_waiters();
    }

    fn say(&self, address: &str, kind: &str, object: &Value) {
        self.change(|state| {
            let events = state.events.entry(address.to_owned()).or_default();
            events.push(event(kind, object));
        });
    }

    /// How often this was listed.
    fn lists_of(&self, wanted: &str) -> usize {
        let state = self.0.0.lock();
        let lists = state.asked.iter().filter(|uri| !uri.contains("watch=true"));
        lists.filter(|uri| address(uri) == wanted).count()
    }

    /// What `take` finds, once it finds something.
    async fn until<T>(&self, mut take: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let changed = self.0.1.notified();
            if let Some(found) = take(&mut self.0.0.lock()) {
                return found;
            }
            changed.await;
        }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, uri) = (server.clone(), request.uri().to_string());
            async move {
                server.change(|state| state.asked.push(uri.clone()));
                let address = address(&uri);
                let chunk = |text: String| Ok::<_, io::Error>(Frame::data(Bytes::from(text)));
                if uri.contains("watch=true") {
                    let lines = stream::unfold((server, address), async |(server, address)| {
                        let line = server.until(|state| {
                            let lines = state.events.get_mut(&address)?;
                            (!lines.is_empty()).then(|| lines.remove(0))
                        });
                        let line = line.await;
                        Some((line, (server, address)))
                    });
                    let body = StreamBody::new(lines.map(chunk).boxed());
                    return Ok::<_, io::Error>(Response::new(body));
                }
                let items = server.until(|state| {
                    let is_held = state.held.contains(&address);
                    (!is_held).then(|| state.lists.get(&address).cloned())
                });
                let items = items.await.unwrap_or_default();
                let list = json!({"metadata": {"resourceVersion": "4"}, "items": items});
                let lines = stream::iter([list.to_string()]);
                Ok(Response::new(StreamBody::new(lines.map(chunk).boxed())))
            }
        });
        Client::new(service, "default")
    }
}

/// What the view says of Linkerd: `usable`, `not usable`, `unread`, …
fn says(cluster: &Cluster) -> &'static str {
    let store = cluster.read();
    match store.readiness(0, None) {
        Readiness::Usable(_) => "usable",
        Readiness::NotUsable(Looked::Unread { .. }) => "unread",
        Readiness::NotUsable(_) => "not usable",
        Readiness::NotInstalled => "not installed",
        Readiness::NoInstance => "no instance",
    }
}

async fn becomes(cluster: &Cluster, expected: &str) {
    let waited = timeout(Duration::from_secs(60), async {
        while says(cluster) != expected {
            sleep(Duration::from_millis(1)).await;
        }
    });
    let waited = waited.await;
    waited.unwrap_or_else(|_| panic!("expected {expected}, found {}", says(cluster)));
}

/// A view of Linkerd, which is at `mesh/injector` and usable there.
async fn with_linkerd(test: impl AsyncFnOnce(&Server, &Arc<Cluster>)) {
    let yaml = "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n- preset: linkerd\n- preset: vault\n";
    let injectors = Arc::new(Injectors::from_yaml("test", yaml.as_bytes()).unwrap());
    let cluster = Arc::new(Cluster::new(Store::of_whole(injectors)));
    let server = Server::default();
    server.change(|state| {
        let lists = [
            (WEBHOOKS.to_owned(), linkerd_at("mesh", "injector")),
            (
                slices_of("mesh", "injector"),
                slice("mesh", "injector", true),
            ),
        ];
        state.lists = lists
            .into_iter()
            .map(|(at, item)| (at, vec![item]))
            .collect();
        state.held = vec![slices_of("mesh", "injector")];
    });
    let follow = run(
        server.client(),
        Arc::clone(&cluster),
        CancellationToken::new(),
    );
    tokio::select! {
        () = follow => panic!("the watches ended"),
        () = test(&server, &cluster) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_is_complete_once_the_services_of_located_injectors_are_read() {
    with_linkerd(async |server, cluster| {
        becomes(cluster, "unread").await;
        sleep(Duration::from_secs(10)).await;
        assert!(!cluster.is_synced(), "its slices are missing");
        server.change(|state| state.held.clear());
        becomes(cluster, "usable").await;
        sleep(Duration::from_secs(1)).await;
        assert!(cluster.is_synced());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn of_services_only_those_that_injectors_name_are_asked_for() {
    with_linkerd(async |server, cluster| {
        server.change(|state| state.held.clear());
        becomes(cluster, "usable").await;
        sleep(Duration::from_secs(1)).await;
        let mut asked = server.0.0.lock().asked.clone();
        asked.retain(|uri| uri.contains("endpointslices") || uri.contains("/services"));
        asked.retain(|uri| !uri.contains("watch=true"));
        assert!(
            asked.iter().all(|uri| uri.ends_with("&limit=100")),
            "{asked:#?}"
        );
        let mut asked: Vec<String> = asked.iter().map(|uri| address(uri)).collect();
        asked.sort();
        let services = |namespace: &str, name: &str| {
            format!("/api/v1/namespaces/{namespace}/services?fieldSelector=metadata.name%3D{name}")
        };
        let named = [
            ("linkerd", "linkerd-proxy-injector"),
            ("mesh", "injector"),
            ("vault", "vault-agent-injector-svc"),
        ];
        let mut expected = named
            .map(|(namespace, name)| [services(namespace, name), slices_of(namespace, name)])
            .concat();
        expected.sort();
        assert_eq!(asked, expected);
    })
    .await;
}

/// The old Service counts no more, the new one not yet: no pod is let in by either.
#[tokio::test(start_paused = true)]
async fn an_injector_that_moves_is_unread_until_its_new_service_is_listed() {
    with_linkerd(async |server, cluster| {
        server.change(|state| state.held.clear());
        becomes(cluster, "usable").await;
        let blue = slices_of("mesh", "blue");
        server.change(|state| {
            state.held.push(blue.clone());
            state
                .lists
                .insert(blue.clone(), vec![slice("mesh", "blue", true)]);
        });
        server.say(WEBHOOKS, "MODIFIED", &linkerd_at("mesh", "blue"));
        becomes(cluster, "unread").await;
        sleep(Duration::from_secs(20)).await;
        assert_eq!(says(cluster), "unread");
        assert_eq!(cluster.read().counts()[2].1, 0, "the old slices are gone");
        server.change(|state| state.held.clear());
        becomes(cluster, "usable").await;
        // Back again: what was known before is too old.
        let old = slices_of("mesh", "injector");
        server.change(|state| {
            state
                .lists
                .insert(old.clone(), vec![slice("mesh", "injector", false)]);
        });
        server.say(WEBHOOKS, "MODIFIED", &linkerd_at("mesh", "injector"));
        becomes(cluster, "not usable").await;
        assert_eq!(server.lists_of(&old), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_further_service_costs_the_others_nothing() {
    with_linkerd(async |server, cluster| {
        server.change(|state| state.held.clear());
        becomes(cluster, "usable").await;
        let (own, other) = (
            slices_of("mesh", "injector"),
            slices_of("vault-blue", "blue"),
        );
        server.change(|state| state.held = vec![own.clone()]);
        let vault = located("vault.hashicorp.com", "vault-blue", "blue");
        server.say(WEBHOOKS, "ADDED", &vault);
        for _ in 0..100 {
            sleep(Duration::from_millis(10)).await;
            assert_eq!(says(cluster), "usable");
        }
        server.say(&own, "MODIFIED", &slice("mesh", "injector", false));
        becomes(cluster, "not usable").await;
        assert_eq!((server.lists_of(&own), server.lists_of(&other)), (1, 1));
    })
    .await;
}
