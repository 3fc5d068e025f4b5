//! An injector in the test process, under the name of Linkerd's webhook. What it adds is what
//! Linkerd's adds as far as meshgate looks; pods can ask it to go wrong in one of the ways in
//! which injectors do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::guarded::until_injected;
use crate::lab::harness::Lab;
use crate::support::server::TestServer;

/// The annotation by which a pod asks for a fault, or for the other right form.
pub(super) const HOW: &str = "lab/injects";

/// The label of pods out of which another webhook takes the sidecar again.
pub(super) const STRIPPED: &str = "lab/stripped";

/// The label of pods that its webhook entry passes by.
pub(super) const PASSED_BY: &str = "lab/passed-by";

const CONFIGURATION: &str = "linkerd-proxy-injector-webhook-config";

/// It injects pods of namespaces whose name begins with this, and those that ask for it.
const NAMESPACES: &str = "meshed";

/// Installed, and answering until it is dropped.
pub(super) struct Linkerd {
    server: TestServer,
    calls: Arc<AtomicUsize>,
}

impl Linkerd {
    /// Serves, and registers itself by URL as one that fails open, as Linkerd's does by default.
    pub(super) async fn install(lab: &Lab) -> Self {
        lab.ensure_namespace("linkerd").await;
        let calls = Arc::new(AtomicUsize::new(0));
        let router = Router::new()
            .route("/inject", post(inject))
            .route("/strip", post(strip))
            .with_state(Arc::clone(&calls));
        let server = TestServer::start(router).await;
        let ca = BASE64_STANDARD.encode(&server.ca_pem);
        let entry = |name: &str, path: &str, label: Value| {
            json!({
                "name": name,
                "clientConfig": {
                    "url": format!("https://{}/{path}", server.addr), "caBundle": ca,
                },
                "objectSelector": {"matchExpressions": [label]},
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"],
                    "resources": ["pods"], "operations": ["CREATE"],
                }],
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            })
        };
        let passed_by = json!({"key": PASSED_BY, "operator": "DoesNotExist"});
        let stripped = json!({"key": STRIPPED, "operator": "Exists"});
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": CONFIGURATION},
            "webhooks": [
                entry("linkerd-proxy-injector.linkerd.io", "inject", passed_by),
                entry("strip.example.com", "strip", stripped),
            ],
        });
        lab.apply_whole(&configuration.to_string()).await;
        until_injected(lab).await;
        Self { server, calls }
    }

    /// How often it was asked about a pod.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Does not answer any more; its webhook stays.
    pub(super) async fn stop(&self) {
        self.server.shutdown.abort("the test wants it");
        self.server.ended().await;
    }

    /// Takes its webhook away.
    pub(super) async fn uninstall(&self, lab: &Lab) {
        let arguments = ["delete", "mutatingwebhookconfiguration", CONFIGURATION];
        lab.kubectl(&arguments).await.ok();
    }
}

async fn inject(State(calls): State<Arc<AtomicUsize>>, body: Bytes) -> impl IntoResponse {
    calls.fetch_add(1, Ordering::Relaxed);
    let review: Value = serde_json::from_slice(&body).unwrap();
    answer(&review, injected(&review["request"]))
}

async fn strip(body: Bytes) -> impl IntoResponse {
    let review: Value = serde_json::from_slice(&body).unwrap();
    let without = |list: &str| {
        let all = review["request"]["object"]["spec"][list].as_array();
        let all = all.into_iter().flatten();
        let kept: Vec<_> = all.filter(|c| c["name"] != "linkerd-proxy").collect();
        json!({"op": "add", "path": format!("/spec/{list}"), "value": kept})
    };
    let patch = [without("containers"), without("initContainers")];
    answer(&review, patch.into())
}

/// The operations that make a pod meshed; none if it does not want to be.
fn injected(request: &Value) -> Vec<Value> {
    let pod = &request["object"];
    let annotation = |key: &str| pod["metadata"]["annotations"][key].as_str();
    let is_meshed = request["namespace"]
        .as_str()
        .is_some_and(|name| name.starts_with(NAMESPACES));
    let wants = match annotation("linkerd.io/inject") {
        Some("enabled" | "ingress") => true,
        Some("disabled") => false,
        Some(_) | None => is_meshed,
    };
    if !wants || pod["spec"]["hostNetwork"] == true {
        return Vec::new();
    }
    let proxy = json!({"name": "linkerd-proxy", "image": "cr.l5d.io/linkerd/proxy:edge-26.8.2"});
    let mut native = proxy.clone();
    native["restartPolicy"] = json!("Always");
    let named = |name: &str| json!({"name": name, "image": "cr.l5d.io/linkerd/proxy-init:v2.4.3"});
    let (init, containers) = match annotation(HOW) {
        Some("nothing") => (vec![], vec![]),
        Some("no init container") => (vec![], vec![proxy]),
        Some("a proxy that ends") => (vec![named("linkerd-init"), proxy], vec![]),
        Some("a native sidecar") => (vec![named("linkerd-init"), native], vec![]),
        Some("a validator") => (vec![named("linkerd-network-validator")], vec![proxy]),
        Some(_) | None => (vec![named("linkerd-init")], vec![proxy]),
    };
    let with = |list: &str, new: Vec<Value>| {
        let old = pod["spec"][list].as_array().into_iter().flatten().cloned();
        let all: Vec<Value> = new.into_iter().chain(old).collect();
        json!({"op": "add", "path": format!("/spec/{list}"), "value": all})
    };
    vec![with("initContainers", init), with("containers", containers)]
}

fn answer(review: &Value, patch: Vec<Value>) -> impl IntoResponse + use<> {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    if !patch.is_empty() {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(BASE64_STANDARD.encode(Value::Array(patch).to_string()));
    }
    let body = json!({
        "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response,
    });
    ([(CONTENT_TYPE, "application/json")], body.to_string())
}
