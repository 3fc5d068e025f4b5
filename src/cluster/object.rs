//! Objects of the cluster, and the part of them that the view keeps. PURE, as the store.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use meshgate_core::injector::keys::Keys;
use meshgate_core::injector::profile::ServiceName;
use meshgate_core::injector::rule::Place;
use meshgate_core::readiness::endpoints::{Endpoint, Slice};
use meshgate_core::readiness::installation::{Client, WebhookConfiguration, WebhookEntry};

use super::slim;
use meshgate_core::break_glass;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Object {
    Namespace(slim::Namespace),
    Service(slim::Service),
    EndpointSlice(slim::EndpointSlice),
    Node(slim::Node),
    Webhooks(slim::MutatingWebhookConfiguration),
}

/// The kinds of [`Object`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Namespace,
    Service,
    EndpointSlice,
    Node,
    /// MutatingWebhookConfiguration.
    Webhooks,
}

impl Kind {
    /// In the order of their discriminants.
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

    /// As `apiVersion:` spells it.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Namespace | Self::Service | Self::Node => "v1",
            Self::EndpointSlice => "discovery.k8s.io/v1",
            Self::Webhooks => "admissionregistration.k8s.io/v1",
        }
    }
}

/// What one watch follows: a kind, or what belongs to one Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watched {
    pub kind: Kind,
    pub service: Option<Arc<ServiceName>>,
}

impl From<Kind> for Watched {
    fn from(kind: Kind) -> Self {
        Self {
            kind,
            service: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    pub kind: Kind,
    /// Empty if cluster-scoped.
    pub namespace: String,
    pub name: String,
}

impl ObjectId {
    pub(super) fn cluster_scoped(kind: Kind, name: &str) -> Self {
        Self::namespaced(kind, "", name)
    }

    pub(super) fn namespaced(kind: Kind, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl Object {
    /// Reads an object of a kind.
    ///
    /// # Errors
    /// It is not what the kind looks like.
    pub fn deserialize<'de, D: Deserializer<'de>>(kind: Kind, from: D) -> Result<Self, D::Error> {
        Ok(match kind {
            Kind::Namespace => Self::Namespace(Deserialize::deserialize(from)?),
            Kind::Service => Self::Service(Deserialize::deserialize(from)?),
            Kind::EndpointSlice => Self::EndpointSlice(Deserialize::deserialize(from)?),
            Kind::Node => Self::Node(Deserialize::deserialize(from)?),
            Kind::Webhooks => Self::Webhooks(Deserialize::deserialize(from)?),
        })
    }

    /// Reads an object of a kind, as the API server writes it.
    ///
    /// # Errors
    /// It is not what the kind looks like.
    pub fn from_json(kind: Kind, json: &str) -> Result<Self, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(json);
        let object = Self::deserialize(kind, &mut json)?;
        json.end().map(|()| object)
    }

    /// The same without the labels and annotations that meshgate does not read: a list of thousands is
    /// held until its last page is there.
    #[must_use]
    pub fn pruned(mut self, keys: &Keys) -> Self {
        let (kind, metadata) = match &mut self {
            Self::Namespace(namespace) => (Kind::Namespace, &mut namespace.metadata),
            Self::Service(service) => (Kind::Service, &mut service.metadata),
            Self::EndpointSlice(slice) => (Kind::EndpointSlice, &mut slice.metadata),
            Self::Node(node) => (Kind::Node, &mut node.metadata),
            Self::Webhooks(webhooks) => (Kind::Webhooks, &mut webhooks.metadata),
        };
        metadata.labels.retain(|key, _| match kind {
            Kind::Namespace => keys.slot(Place::NamespaceLabel, key).is_some(),
            Kind::EndpointSlice => key == SERVICE_NAME || key == MANAGED_BY,
            // Revisions and tags.
            Kind::Webhooks => true,
            Kind::Service | Kind::Node => false,
        });
        metadata.annotations.retain(|key, _| match kind {
            Kind::Namespace => keys.slot(Place::NamespaceAnnotation, key).is_some(),
            Kind::Webhooks => key == break_glass::ANNOTATION,
            Kind::Service | Kind::EndpointSlice | Kind::Node => false,
        });
        self
    }

    pub fn id(&self) -> ObjectId {
        let namespaced = |kind, metadata: &slim::Metadata| {
            ObjectId::namespaced(kind, &metadata.namespace, &metadata.name)
        };
        let cluster_scoped =
            |kind, metadata: &slim::Metadata| ObjectId::cluster_scoped(kind, &metadata.name);
        match self {
            Self::Namespace(namespace) => cluster_scoped(Kind::Namespace, &namespace.metadata),
            Self::Service(service) => namespaced(Kind::Service, &service.metadata),
            Self::EndpointSlice(slice) => namespaced(Kind::EndpointSlice, &slice.metadata),
            Self::Node(node) => cluster_scoped(Kind::Node, &node.metadata),
            Self::Webhooks(webhooks) => cluster_scoped(Kind::Webhooks, &webhooks.metadata),
        }
    }
}

/// Label of a slice that names its Service.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of a slice that names its controller.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// The view's part of a slice, with its Service; `None` if it names none.
pub(super) fn slice(slice: slim::EndpointSlice) -> Option<(ServiceName, Slice)> {
    let mut labels = slice.metadata.labels;
    let service = ServiceName {
        namespace: slice.metadata.namespace,
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
    let node = endpoint.node_name.filter(|node| !node.is_empty());
    Endpoint {
        addresses: endpoint.addresses,
        target: target.map(|target| format!("{}/{}", target.namespace, target.name).into()),
        node: node.map(Into::into),
        ready: endpoint.conditions.ready,
        serving: endpoint.conditions.serving,
        terminating: endpoint.conditions.terminating,
    }
}

/// The view's part of a webhook configuration, with its name.
/// The entries of a configuration that break-glass has suspended as a whole.
pub(super) fn silenced(configuration: &slim::MutatingWebhookConfiguration) -> HashSet<String> {
    let is_off = |condition: &slim::MatchCondition| {
        condition.name == break_glass::CONDITION && condition.expression == break_glass::OFF
    };
    let entries = configuration.webhooks.iter();
    let off = entries.filter(|entry| entry.match_conditions.iter().any(is_off));
    off.map(|entry| entry.name.clone()).collect()
}

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
        let name = webhook.name;
        Some(WebhookEntry { name, client })
    });
    let slim::Metadata { name, labels, .. } = configuration.metadata;
    let entries = entries.collect();
    (name, WebhookConfiguration { labels, entries })
}
