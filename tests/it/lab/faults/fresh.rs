//! Whether what has just changed in the cluster is known.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::lab::harness::{Lab, Meshgate, within};
use crate::support::client::Client;

/// How soon after the API server is back the view has to be right.
const SOON: Duration = Duration::from_secs(5);

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/vault/endpointslices";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// A namespace whose mark changes, and the slice of an injector that no pod asks for.
pub(super) struct Fresh<'l> {
    lab: &'l Lab,
    meshgate: &'l Meshgate<'l>,
    namespace: String,
    ca_pem: String,
    is_on: Cell<bool>,
}

impl<'l> Fresh<'l> {
    /// With neither mark nor usable endpoint.
    pub(super) async fn new(lab: &'l Lab, meshgate: &'l Meshgate<'l>) -> Self {
        lab.ensure_namespace("vault").await;
        let entry = json!({
            "name": "vault.hashicorp.com",
            "clientConfig": {"service": {"namespace": "vault", "name": "vault-agent-injector-svc"}},
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
            // No server is to be called.
            "namespaceSelector": {"matchLabels": {"no-object": "has-this"}},
        });
        let webhooks = json!({"metadata": {"name": "vault"}, "webhooks": [entry]});
        lab.create(WEBHOOKS, &webhooks).await.unwrap();
        let mut slice = endpoints(false);
        slice["metadata"] = json!({
            "name": "injector",
            "labels": {"kubernetes.io/service-name": "vault-agent-injector-svc"},
        });
        slice["addressType"] = json!("IPv4");
        lab.create(SLICES, &slice).await.unwrap();
        let ca_pem = fs::read_to_string(meshgate.certs().join("ca.crt")).unwrap();
        Self {
            lab,
            meshgate,
            namespace: lab.namespace("fresh", &[], &[]).await,
            ca_pem,
            is_on: Cell::new(false),
        }
    }

    /// Changes both, and waits until that is known; returns how long all of it took.
    pub(super) async fn is_known(&self) -> Duration {
        let begin = Instant::now();
        let on = !self.is_on.replace(!self.is_on.get());
        let mark = if on { json!("enabled") } else { Value::Null };
        let mark = json!({"metadata": {"annotations": {"linkerd.io/inject": mark}}});
        let namespace = format!("/api/v1/namespaces/{}", self.namespace);
        self.lab.merge(&namespace, &mark).await.unwrap();
        let slice = format!("{SLICES}/injector");
        self.lab.merge(&slice, &endpoints(on)).await.unwrap();
        let left = SOON.saturating_sub(begin.elapsed());
        let is_known = async || {
            let metrics = self.meshgate.metrics();
            let ready = format!(
                "meshgate_injector_ready{{injector=\"vault\"}} {}",
                u8::from(on)
            );
            let current = metrics
                .lines()
                .filter(|line| line.starts_with("meshgate_view_current{") && line.ends_with(" 1"));
            let is_so = current.count() == 5
                && metrics.contains(&ready)
                && self.gate_requires().await == on;
            is_so.then_some(())
        };
        within(left, "a change is known", is_known).await;
        begin.elapsed()
    }

    /// Whether the gate finds that a pod in the namespace requires anything.
    async fn gate_requires(&self) -> bool {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/reviews/orders-pod.json");
        let mut review: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        review["request"]["namespace"] = json!(self.namespace);
        let mut client = Client::connect(self.meshgate.address, &self.ca_pem).await;
        let answer = client.try_post("/mutate/pods", &review.to_string()).await;
        let answer: Value = serde_json::from_str(answer.unwrap().text()).unwrap();
        let response = &answer["response"];
        response["allowed"] == false || response["patch"].is_string()
    }
}

fn endpoints(is_ready: bool) -> Value {
    json!({"endpoints": [{"addresses": ["192.0.2.8"], "conditions": {"ready": is_ready}}]})
}
