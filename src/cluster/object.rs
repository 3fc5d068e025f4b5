//! Objects of the cluster, and what the view keeps of them. PURE, as the store.

use crate::injector::keys::Keys;
use crate::injector::profile::ServiceName;
use crate::injector::rule::Place;
use crate::readiness::endpoints::{Endpoint, Slice};
use crate::readiness::installation::{Client, WebhookConfiguration, WebhookEntry};

use super::slim;
use crate::break_glass;

/// One object of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A Namespace.
    Namespace(slim::Namespace),
    /// A Service.
    Service(slim::Service),
    /// An EndpointSlice.
    EndpointSlice(slim::EndpointSlice),
    /// A Node.
    Node(slim::Node),
    /// A MutatingWebhookConfiguration.
    Webhooks(slim::MutatingWebhookConfiguration),
}

/// The kinds of [`Object`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Namespace.
    Namespace,
    /// Service.
    Service,
    /// EndpointSlice.
    EndpointSlice,
    /// Node.
    Node,
    /// MutatingWebhookConfiguration.
    Webhooks,
}

impl Kind {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 5] = [
        Self::Namespace,
        Self::Service,
        Self::EndpointSlice,
        Self::Node,
        Self::Webhooks,
    ];

    /// As URLs, RBAC rules, checks of `/readyz` and labels of metrics spell it.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Namespace => "namespaces",
            Self::Service => "services",
            Self::EndpointSlice => "endpointslices",
            Self::Node => "nodes",
            Self::Webhooks => "mutatingwebhookconfigurations",
        }
    }

    /// As `kind:` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Node => "Node",
            Self::Webhooks => "MutatingWebhookConfiguration",
        }
    }
}

/// What makes an object this one: kind, namespace (empty if cluster-scoped), name.
pub type ObjectId = (Kind, String, String);

impl Object {
    /// Reads an object of a kind, as the API server writes it.
    ///
    /// # Errors
    /// It is not what the kind looks like.
    pub fn from_json(kind: Kind, json: &str) -> Result<Self, serde_json::Error> {
        match kind {
            Kind::Namespace => serde_json::from_str(json).map(Self::Namespace),
            Kind::Service => serde_json::from_str(json).map(Self::Service),
            Kind::EndpointSlice => serde_json::from_str(json).map(Self::EndpointSlice),
            Kind::Node => serde_json::from_str(json).map(Self::Node),
            Kind::Webhooks => serde_json::from_str(json).map(Self::Webhooks),
        }
    }

    /// The same without the labels and annotations that nobody reads: a list of thousands is
    /// held until its last page is there.
    pub fn pruned(mut self, keys: &Keys) -> Self {
        let (metadata, labels): (_, fn(&str) -> bool) = match &mut self {
            Self::Namespace(namespace) => {
                let slim::Metadata {
                    labels,
                    annotations,
                    ..
                } = &mut namespace.metadata;
                labels.retain(|key, _| keys.slot(Place::NamespaceLabel, key).is_some());
                annotations.retain(|key, _| keys.slot(Place::NamespaceAnnotation, key).is_some());
                return self;
            }
            Self::EndpointSlice(slice) => (&mut slice.metadata, |key| {
                key == SERVICE_NAME || key == MANAGED_BY
            }),
            Self::Service(service) => (&mut service.metadata, |_| false),
            Self::Node(node) => (&mut node.metadata, |_| false),
            // Revisions and tags; and on ours, whether the glass is broken.
            Self::Webhooks(webhooks) => {
                let annotations = &mut webhooks.metadata.annotations;
                annotations.retain(|key, _| key == break_glass::ANNOTATION);
                return self;
            }
        };
        metadata.labels.retain(|key, _| labels(key));
        metadata.annotations.clear();
        self
    }

    /// Its kind, namespace and name.
    pub fn id(&self) -> ObjectId {
        let (kind, metadata) = match self {
            Self::Namespace(namespace) => (Kind::Namespace, &namespace.metadata),
            Self::Service(service) => (Kind::Service, &service.metadata),
            Self::EndpointSlice(slice) => (Kind::EndpointSlice, &slice.metadata),
            Self::Node(node) => (Kind::Node, &node.metadata),
            Self::Webhooks(webhooks) => (Kind::Webhooks, &webhooks.metadata),
        };
        let namespaced = matches!(kind, Kind::Service | Kind::EndpointSlice);
        let namespace = if namespaced {
            metadata.namespace.clone()
        } else {
            String::new()
        };
        (kind, namespace, metadata.name.clone())
    }
}

/// Label of a slice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of a slice that names its controller.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// What is kept of a slice, with the Service that it belongs to; `None` if it names none.
pub(super) fn slice(slice: slim::EndpointSlice) -> Option<(ServiceName, Slice)> {
    let slim::Metadata {
        namespace,
        mut labels,
        ..
    } = slice.metadata;
    let service = ServiceName {
        namespace,
        name: labels.remove(SERVICE_NAME)?,
    };
    let kept = Slice {
        counts: slice.address_type != "FQDN",
        managed_by: labels.remove(MANAGED_BY).map(Into::into),
        endpoints: slice.endpoints.into_iter().map(endpoint).collect(),
    };
    Some((service, kept))
}

fn endpoint(endpoint: slim::Endpoint) -> Endpoint {
    let target = endpoint.target_ref.filter(|target| !target.name.is_empty());
    Endpoint {
        addresses: endpoint.addresses.into_iter().map(Into::into).collect(),
        target: target.map(|target| format!("{}/{}", target.namespace, target.name).into()),
        node: endpoint
            .node_name
            .filter(|node| !node.is_empty())
            .map(Into::into),
        ready: endpoint.conditions.ready,
        serving: endpoint.conditions.serving,
        terminating: endpoint.conditions.terminating,
    }
}

/// What is kept of a webhook configuration, with its name.
pub(super) fn webhooks(
    configuration: slim::MutatingWebhookConfiguration,
) -> (String, WebhookConfiguration) {
    let entries = configuration.webhooks.into_iter().filter_map(|webhook| {
        let client = match (webhook.client_config.service, webhook.client_config.url) {
            (Some(service), _) => Client::Service {
                service: ServiceName {
                    namespace: service.namespace,
                    name: service.name,
                },
                port: service.port.unwrap_or(443),
                path: service.path,
            },
            (None, Some(url)) => Client::Url(url),
            (None, None) => return None,
        };
        Some(WebhookEntry {
            name: webhook.name,
            client,
        })
    });
    let slim::Metadata { name, labels, .. } = configuration.metadata;
    (
        name,
        WebhookConfiguration {
            labels,
            entries: entries.collect(),
        },
    )
}
