//! Kubernetes objects, trimmed to what is read of them. `null` and missing are the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Metadata {
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Namespace, empty for cluster-scoped objects.
    #[serde(default, deserialize_with = "or_default")]
    pub namespace: String,
    #[serde(default, deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
}

/// v1 `Namespace`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Namespace {
    /// Its metadata is all that is read.
    pub metadata: Metadata,
}

/// v1 `Service`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Service {
    pub metadata: Metadata,
    #[serde(default, deserialize_with = "or_default")]
    pub spec: ServiceSpec,
}

/// `spec` of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Set for type `ExternalName`: such a Service has no slices and never will.
    #[serde(default, deserialize_with = "or_default")]
    pub external_name: String,
}

/// discovery.k8s.io/v1 `EndpointSlice`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    /// Metadata; the Service is a label.
    pub metadata: Metadata,
    /// `IPv4`, `IPv6` or `FQDN`.
    #[serde(default, deserialize_with = "or_default")]
    pub address_type: String,
    /// The API server gives `null` for a Service scaled to zero (case 41).
    #[serde(default, deserialize_with = "or_default")]
    pub endpoints: Vec<Endpoint>,
}

/// One endpoint of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    #[serde(default, deserialize_with = "or_default")]
    pub addresses: Vec<Box<str>>,
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Conditions,
    /// The pod behind it.
    pub target_ref: Option<TargetRef>,
    pub node_name: Option<String>,
}

/// `conditions` of an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Conditions {
    /// Missing means ready.
    pub ready: Option<bool>,
    /// Missing means serving.
    pub serving: Option<bool>,
    /// Missing means not terminating.
    pub terminating: Option<bool>,
}

/// `targetRef` of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct TargetRef {
    #[serde(default, deserialize_with = "or_default")]
    pub namespace: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
}

/// v1 `Node`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Node {
    pub metadata: Metadata,
    #[serde(default, deserialize_with = "or_default")]
    pub spec: NodeSpec,
    /// Status.
    #[serde(default, deserialize_with = "or_default")]
    pub status: NodeStatus,
}

/// `spec` of a Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct NodeSpec {
    #[serde(default, deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

/// One taint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Taint {
    #[serde(default, deserialize_with = "or_default")]
    pub key: String,
}

/// `status` of a Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct NodeStatus {
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Vec<NodeCondition>,
}

/// One condition of a Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct NodeCondition {
    /// `Ready`, `MemoryPressure`, …
    #[serde(rename = "type", default, deserialize_with = "or_default")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
}

impl Node {
    /// Lost: Ready False or Unknown, or the unreachable taint. A node without a Ready condition,
    /// or one that is only cordoned, is not (case 45).
    pub fn is_lost(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        let ready = conditions.find(|condition| condition.kind == "Ready");
        let not_ready = ready.is_some_and(|ready| matches!(&*ready.status, "False" | "Unknown"));
        let unreachable = |taint: &Taint| taint.key == "node.kubernetes.io/unreachable";
        not_ready || self.spec.taints.iter().any(unreachable)
    }
}

/// admissionregistration.k8s.io/v1 `MutatingWebhookConfiguration`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct MutatingWebhookConfiguration {
    /// Metadata; revisions and tags are labels.
    pub metadata: Metadata,
    #[serde(default, deserialize_with = "or_default")]
    pub webhooks: Vec<Webhook>,
}

/// One entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// How it is called.
    #[serde(default, deserialize_with = "or_default")]
    pub client_config: ClientConfig,
    /// `matchConditions`: all must hold for it to be called.
    #[serde(default, deserialize_with = "or_default")]
    pub match_conditions: Vec<MatchCondition>,
}

/// One of the `matchConditions` of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct MatchCondition {
    pub name: String,
    /// In CEL.
    pub expression: String,
}

/// `clientConfig` of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ClientConfig {
    /// A URL, or …
    pub url: Option<String>,
    /// … a Service.
    pub service: Option<ServiceReference>,
}

/// A Service as a webhook entry names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
    /// Path; `/` if missing.
    pub path: Option<String>,
    /// Port; 443 if missing.
    pub port: Option<u16>,
}
