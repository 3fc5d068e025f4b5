//! What `uninstall` removes, and what it leaves to the tool that installed it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::kube_api::kind::{Id, Kind};
use meshgate_core::names::{
    CHECK_PROOF, CONFIGURATION, CONTROL, ENTRIES, GUARD, MIRROR, MIRROR_PROOF, OWNER, PART_OF,
};
use meshgate_core::render::mirror;

/// Annotations by which Helm finds what belongs to a release.
const RELEASE: [&str; 2] = [
    "meta.helm.sh/release-name",
    "meta.helm.sh/release-namespace",
];

/// A kind of object in version v1, as kubectl spells it: plural and group.
pub(super) type ResourceKind = &'static str;

/// What meshgate writes into its own namespace.
pub(super) const OWN: [(ResourceKind, &str); 3] = [
    ("secrets", "meshgate-ca"),
    ("secrets", "meshgate-tls"),
    ("leases.coordination.k8s.io", CONTROL),
];

const CLUSTER_ROLES: ResourceKind = "clusterroles.rbac.authorization.k8s.io";

/// The kinds of which an installation consists.
pub(super) const INSTALLED: [ResourceKind; 17] = [
    "deployments.apps",
    "services",
    "configmaps",
    "serviceaccounts",
    "resourcequotas",
    "poddisruptionbudgets.policy",
    "networkpolicies.networking.k8s.io",
    "certificates.cert-manager.io",
    "servicemonitors.monitoring.coreos.com",
    "prometheusrules.monitoring.coreos.com",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    CLUSTER_ROLES,
    "clusterrolebindings.rbac.authorization.k8s.io",
    "namespaces",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
];

/// One object; without a namespace if its kind has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ObjectRef {
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    pub(super) name: String,
}

impl ObjectRef {
    pub(super) fn new(kind: ResourceKind, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// What stays, and the commands that remove it.
#[derive(Debug, Default)]
pub(super) struct Installed {
    pub(super) objects: Vec<ObjectRef>,
    /// Name and namespace of Helm's releases.
    releases: BTreeSet<[String; 2]>,
    /// Kinds of what Helm did not install, by namespace.
    others: BTreeMap<String, BTreeSet<ResourceKind>>,
}

impl Installed {
    pub(super) fn add(&mut self, object: ObjectRef, annotations: &BTreeMap<String, String>) {
        // It goes with the registration.
        let is_owner = object.kind == CLUSTER_ROLES && object.name == OWNER;
        if is_owner || object.name.ends_with(ENTRIES) {
            return;
        }
        let [name, namespace] = RELEASE.map(|key| annotations.get(key).cloned());
        if let (Some(name), Some(namespace)) = (name, namespace) {
            self.releases.insert([name, namespace]);
        } else {
            let kinds = self.others.entry(object.namespace.clone()).or_default();
            kinds.insert(object.kind);
        }
        self.objects.push(object);
    }

    pub(super) fn commands(&self) -> Vec<String> {
        let helm = |[name, namespace]: &[String; 2]| {
            format!("helm uninstall {name} --namespace {namespace}")
        };
        // Last what has no namespace: deleting a namespace deletes all that is in it.
        let kubectl = self.others.iter().rev().map(|(namespace, kinds)| {
            let kinds = kinds.iter().copied().collect::<Vec<_>>().join(",");
            let place = match namespace.as_str() {
                "" => String::new(),
                name => format!("-n {name} "),
            };
            format!("kubectl delete {place}{kinds} -l {PART_OF}")
        });
        self.releases.iter().map(helm).chain(kubectl).collect()
    }
}

/// meshgate's cluster-wide objects, whatever became of their labels.
pub(super) fn well_known() -> Vec<Id> {
    let validating = [Kind::ValidatingPolicy, Kind::ValidatingPolicyBinding];
    let mutating = [Kind::MutatingPolicy, Kind::MutatingPolicyBinding];
    let webhooks = [Kind::MutatingWebhooks, Kind::ValidatingWebhooks];
    [
        (CONFIGURATION, &webhooks[..]),
        (GUARD, &validating),
        (CHECK_PROOF, &validating),
        (MIRROR, &webhooks[..1]),
        (MIRROR, &mutating),
        (MIRROR_PROOF, &mutating),
        (OWNER, &[Kind::ClusterRole]),
    ]
    .into_iter()
    .flat_map(|(name, kinds)| kinds.iter().map(move |kind| Id::new(*kind, name)))
    .collect()
}

/// The merge patch that takes meshgate's labels off a namespace; `None` if it has none.
pub(super) fn unlabel(labels: &BTreeMap<String, String>) -> Option<Value> {
    let ours = labels
        .keys()
        .filter(|key| key.starts_with(mirror::LABEL_PREFIX));
    let nulls: BTreeMap<&String, Value> = ours.map(|key| (key, Value::Null)).collect();
    (!nulls.is_empty()).then(|| json!({"metadata": {"labels": nulls}}))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
