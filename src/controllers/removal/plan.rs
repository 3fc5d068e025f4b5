//! What there is to remove, and in which order. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::kube_api::kind::{Id, Kind};
use crate::render::{CHECK_PROOF, CONFIGURATION, GUARD, MIRROR, MIRROR_PROOF, OWNER, mirror};

/// Objects of these names are ours, whatever became of their labels.
pub fn well_known() -> Vec<Id> {
    let of = |name: &str, kinds: &[Kind]| -> Vec<Id> {
        let id = |kind: &Kind| Id {
            kind: *kind,
            name: name.to_owned(),
        };
        kinds.iter().map(id).collect()
    };
    let validating = [Kind::ValidatingPolicy, Kind::ValidatingPolicyBinding];
    let mutating = [Kind::MutatingPolicy, Kind::MutatingPolicyBinding];
    [
        of(
            CONFIGURATION,
            &[Kind::MutatingWebhooks, Kind::ValidatingWebhooks],
        ),
        of(GUARD, &validating),
        of(CHECK_PROOF, &validating),
        of(MIRROR, &[Kind::MutatingWebhooks]),
        of(MIRROR, &mutating),
        of(MIRROR_PROOF, &mutating),
        of(OWNER, &[Kind::ClusterRole]),
    ]
    .concat()
}

/// Label of everything that an installation consists of.
pub const PART_OF: &str = "app.kubernetes.io/part-of=meshgate";
/// Label with the name of the Helm release.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// Label of what Helm keeps of a release.
pub const HELM: &str = "owner=helm";
/// Label of what meshgate itself has written.
pub const OURS: (&str, &str) = ("app.kubernetes.io/managed-by", "meshgate");

/// What goes in any case, by kind and name: what writes the registration, and what meshgate makes in its
/// own namespace.
pub const BY_NAME: [(&str, &[&str]); 3] = [
    ("Deployment", &["meshgate-control"]),
    ("Secret", &["meshgate-ca", "meshgate-tls"]),
    ("Lease", &["meshgate-control"]),
];

/// Where objects of a kind are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In our namespace.
    Home,
    /// In any namespace.
    Anywhere,
    /// They have none.
    Cluster,
}

/// A kind of object that an installation may consist of. All are v1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    /// Its API group.
    pub group: &'static str,
    /// As objects spell it.
    pub kind: &'static str,
    /// As paths spell it.
    pub plural: &'static str,
    /// Where it is looked for.
    pub place: Place,
}

impl Sort {
    /// A Secret.
    pub const SECRET: Self = sort("", "Secret", "secrets", Place::Home);
    /// A Namespace: ours goes last.
    pub const NAMESPACE: Self = sort("", "Namespace", "namespaces", Place::Cluster);

    /// Whether this is the owner of the registration, which goes with that.
    pub fn is_owner(self, name: &str) -> bool {
        self.kind == "ClusterRole" && name == OWNER
    }
}

const fn sort(group: &'static str, kind: &'static str, plural: &'static str, place: Place) -> Sort {
    Sort {
        group,
        kind,
        plural,
        place,
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const PROMETHEUS: &str = "monitoring.coreos.com";

/// All of them, in the order in which they go: what runs, what makes others, the rest, rights last.
pub const SORTS: [Sort; 19] = [
    sort("apps", "Deployment", "deployments", Place::Home),
    sort("batch", "Job", "jobs", Place::Home),
    sort(
        "cert-manager.io",
        "Certificate",
        "certificates",
        Place::Home,
    ),
    sort("cert-manager.io", "Issuer", "issuers", Place::Home),
    sort(
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        Place::Home,
    ),
    sort(
        "networking.k8s.io",
        "NetworkPolicy",
        "networkpolicies",
        Place::Home,
    ),
    sort(
        PROMETHEUS,
        "ServiceMonitor",
        "servicemonitors",
        Place::Anywhere,
    ),
    sort(PROMETHEUS, "PodMonitor", "podmonitors", Place::Anywhere),
    sort(
        PROMETHEUS,
        "PrometheusRule",
        "prometheusrules",
        Place::Anywhere,
    ),
    sort("", "Service", "services", Place::Home),
    sort("", "ConfigMap", "configmaps", Place::Home),
    sort("", "ResourceQuota", "resourcequotas", Place::Home),
    Sort::SECRET,
    sort("coordination.k8s.io", "Lease", "leases", Place::Home),
    sort(RBAC, "RoleBinding", "rolebindings", Place::Anywhere),
    sort(RBAC, "Role", "roles", Place::Anywhere),
    sort(
        RBAC,
        "ClusterRoleBinding",
        "clusterrolebindings",
        Place::Cluster,
    ),
    sort(RBAC, "ClusterRole", "clusterroles", Place::Cluster),
    sort("", "ServiceAccount", "serviceaccounts", Place::Home),
];

/// The merge patch that takes our labels off a namespace; `None` if it has none.
pub fn unlabel(labels: &BTreeMap<String, String>) -> Option<Value> {
    let ours = labels
        .keys()
        .filter(|key| key.starts_with(mirror::LABEL_PREFIX));
    let nulls: BTreeMap<&String, Value> = ours.map(|key| (key, Value::Null)).collect();
    (!nulls.is_empty()).then(|| json!({"metadata": {"labels": nulls}}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube_api::kind::in_order;

    #[test]
    fn webhooks_go_first_and_the_owner_last() {
        let mut ids = well_known();
        ids.reverse();
        let kinds: Vec<Kind> = in_order(ids).iter().map(|id| id.kind).collect();
        assert!(kinds[0].is_webhooks() && kinds[2].is_webhooks() && !kinds[3].is_webhooks());
        assert_eq!(kinds.last(), Some(&Kind::ClusterRole));
        let position = |kind| kinds.iter().position(|one| *one == kind).unwrap();
        assert!(position(Kind::ValidatingPolicyBinding) < position(Kind::ValidatingPolicy));
        assert!(position(Kind::MutatingPolicyBinding) < position(Kind::MutatingPolicy));
    }

    #[test]
    fn only_our_labels_go() {
        let labels = |keys: &[&str]| -> BTreeMap<String, String> {
            keys.iter()
                .map(|key| ((*key).to_owned(), String::new()))
                .collect()
        };
        let ours = "meshgate.io/requires.old";
        assert_eq!(
            unlabel(&labels(&["a", ours])),
            Some(json!({"metadata": {"labels": {ours: null}}}))
        );
        assert_eq!(unlabel(&labels(&["a", "meshgate.io/other"])), None);
    }
}
