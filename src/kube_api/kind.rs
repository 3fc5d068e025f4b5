//! The kinds of objects that meshgate writes for the whole cluster, and the name of one object. Pure.

use std::fmt;

use serde_json::Value;

use meshgate_core::names::{ENTRIES, OWNER};

/// A kind that meshgate writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The empty owner of everything else.
    ClusterRole,
    /// The mirror, where the cluster serves the kind, and its proof.
    MutatingPolicy,
    MutatingPolicyBinding,
    /// The mirror where it is a webhook, and the gate.
    MutatingWebhooks,
    /// The check.
    ValidatingWebhooks,
    /// The guard, and the check where it is a policy.
    ValidatingPolicy,
    ValidatingPolicyBinding,
}

/// What the API says about a kind. The version of all of them is v1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    pub group: &'static str,
    /// As objects spell it.
    pub kind: &'static str,
    /// As paths spell it.
    pub plural: &'static str,
}

impl Kind {
    /// All of them in the order of removal: first what can refuse a request, last the owner, since
    /// the garbage collector deletes everything else with it.
    pub const BY_REMOVAL: [Self; 7] = [
        Self::MutatingWebhooks,
        Self::ValidatingWebhooks,
        Self::ValidatingPolicyBinding,
        Self::ValidatingPolicy,
        Self::MutatingPolicyBinding,
        Self::MutatingPolicy,
        Self::ClusterRole,
    ];

    pub fn names(self) -> Names {
        let (kind, plural) = match self {
            Self::ClusterRole => ("ClusterRole", "clusterroles"),
            Self::MutatingPolicy => ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
            Self::MutatingPolicyBinding => (
                "MutatingAdmissionPolicyBinding",
                "mutatingadmissionpolicybindings",
            ),
            Self::MutatingWebhooks => (
                "MutatingWebhookConfiguration",
                "mutatingwebhookconfigurations",
            ),
            Self::ValidatingWebhooks => (
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
            ),
            Self::ValidatingPolicy => ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
            Self::ValidatingPolicyBinding => (
                "ValidatingAdmissionPolicyBinding",
                "validatingadmissionpolicybindings",
            ),
        };
        let group = if self == Self::ClusterRole {
            "rbac.authorization.k8s.io"
        } else {
            "admissionregistration.k8s.io"
        };
        Names {
            group,
            kind,
            plural,
        }
    }

    /// The kinds that the guard guards.
    pub fn is_webhooks(self) -> bool {
        matches!(self, Self::MutatingWebhooks | Self::ValidatingWebhooks)
    }

    /// The kinds that clusters before 1.36 do not serve.
    pub fn is_optional(self) -> bool {
        matches!(self, Self::MutatingPolicy | Self::MutatingPolicyBinding)
    }
}

/// One object, which has no namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub kind: Kind,
    pub name: String,
}

impl Id {
    pub fn new(kind: Kind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
        }
    }

    /// Of an object with `kind` and `metadata.name`; `None` if meshgate does not write its kind.
    pub fn of(object: &Value) -> Option<Self> {
        let word = object["kind"].as_str()?;
        let mut kinds = Kind::BY_REMOVAL.into_iter();
        let kind = kinds.find(|kind| kind.names().kind == word)?;
        Some(Self::new(kind, object["metadata"]["name"].as_str()?))
    }

    /// Whether meshgate gives such names. The label of meshgate's objects may be on any object.
    pub fn is_ours(&self) -> bool {
        if self.kind == Kind::ClusterRole {
            self.name == OWNER
        } else {
            self.name.ends_with(ENTRIES)
        }
    }
}

/// Sorts objects into the order of removal.
pub fn in_order(mut ids: Vec<Id>) -> Vec<Id> {
    let rank = |kind: Kind| Kind::BY_REMOVAL.iter().position(|one| *one == kind);
    ids.sort_by_key(|id| (rank(id.kind), id.name.clone()));
    ids
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.names().kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_told_by_their_names() {
        let id = Id::new;
        assert!(id(Kind::ValidatingPolicy, "old.check.meshgate.io").is_ours());
        assert!(id(Kind::ClusterRole, OWNER).is_ours());
        assert!(!id(Kind::ClusterRole, "guard.meshgate.io").is_ours());
        for name in ["policy.example.test", "meshgate.io", "xmeshgate.io"] {
            assert!(!id(Kind::MutatingWebhooks, name).is_ours(), "{name}");
        }
    }
}
