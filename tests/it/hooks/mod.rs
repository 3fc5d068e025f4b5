//! Gate and check over real TLS, with a cluster that the test puts in.

pub(crate) mod answer;
pub(crate) mod objects;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use hyper::body::Bytes;
use meshgate::admission::{self, Admission};
use meshgate::cluster::Cluster;
use meshgate::cluster::namespace_lookup::{Fetch, NamespaceLookup};
use meshgate::cluster::object::Object;
use meshgate::cluster::store::Store;
use meshgate::metrics::{Hook, Metrics};
use meshgate_core::injector::Injectors;
use serde_json::{Value, json};

use crate::support::client::{self, Client};
use crate::support::server::TestServer;

/// As `serve` has it.
pub(crate) const LOOKUP_DEADLINE: Duration = Duration::from_secs(1);

/// The admission router behind a TLS server on a free port.
pub(crate) struct Hooks {
    pub(crate) server: TestServer,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) live: NamespaceLookup,
    pub(crate) metrics: Arc<Metrics>,
}

impl Hooks {
    /// All presets, no object, synced; `fetch` is asked for namespaces that are not there.
    pub(crate) async fn start(fetch: Fetch) -> Self {
        let hooks = Self::start_unsynced(fetch).await;
        hooks.cluster.mark_synced();
        hooks
    }

    /// The same before anything was listed.
    pub(crate) async fn start_unsynced(fetch: Fetch) -> Self {
        let cluster = Arc::new(Cluster::new(Store::new(presets())));
        let live = NamespaceLookup::new(fetch, LOOKUP_DEADLINE);
        let metrics = Arc::new(Metrics::default());
        let admission = Admission::new(Arc::clone(&cluster), live.clone(), Arc::clone(&metrics));
        let server = TestServer::start(admission::router(Arc::new(admission))).await;
        Self {
            server,
            cluster,
            live,
            metrics,
        }
    }

    /// Puts these objects in place of all others, with the presets.
    pub(crate) fn hold(&self, objects: Vec<Object>) {
        self.cluster.replace(Store::with(presets(), objects));
    }

    pub(crate) async fn client(&self) -> Client {
        Box::pin(self.server.client()).await
    }
}

/// All presets, and meshgate's own namespace excluded, as `serve` does it.
pub(crate) fn presets() -> Arc<Injectors> {
    let presets = Injectors::all_presets().unwrap();
    Arc::new(presets.excluding("meshgate-system"))
}

/// A source without any namespace.
pub(crate) fn nowhere() -> Fetch {
    Arc::new(|_| async { Ok(None) }.boxed())
}

/// A source that cannot be reached.
pub(crate) fn unreachable() -> Fetch {
    Arc::new(|_| async { Err("connection refused".to_owned()) }.boxed())
}

/// The path of a hook.
pub(crate) fn path(hook: Hook) -> &'static str {
    match hook {
        Hook::Gate => "/mutate/pods",
        Hook::Check => "/validate/pods",
        Hook::Namespaces => "/mutate/namespaces",
        Hook::Reach => "/mutate/reach/0a1b",
    }
}

/// Both hooks for pods.
pub(crate) const HOOKS: [Hook; 2] = [Hook::Gate, Hook::Check];

/// All of them.
pub(crate) const ALL_HOOKS: [Hook; 4] = [Hook::Gate, Hook::Check, Hook::Namespaces, Hook::Reach];

/// Sends a body as the API server sends a review.
pub(crate) async fn send(
    client: &mut Client,
    hook: Hook,
    body: impl Into<Bytes>,
) -> client::Answer {
    client.post(path(hook), "application/json", body).await
}

/// A review of the creation of a pod by a ReplicaSet's controller.
#[expect(
    clippy::needless_pass_by_value,
    reason = "most objects are made for the call"
)]
pub(crate) fn review(uid: &str, namespace: &str, object: Value) -> Value {
    let pods = json!({"group": "", "version": "v1", "resource": "pods"});
    let pod = json!({"group": "", "version": "v1", "kind": "Pod"});
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": pod,
            "resource": pods,
            "requestKind": pod,
            "requestResource": pods,
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:kube-system:replicaset-controller",
                "groups": ["system:serviceaccounts", "system:authenticated"],
            },
            "object": object,
            "oldObject": null,
            "dryRun": false,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    })
}

/// A pod that asks for nothing.
pub(crate) fn plain_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": name},
        "spec": {"containers": [{"name": "app", "image": "registry.example.test/app:1"}]},
    })
}
