//! The kinds of objects that meshgate writes for the whole cluster, and the name of one object. Pure.

use std::fmt;

use serde_json::Value;

use meshgate_core::names::{ENTRIES, OWNER};

/// Group and version of all kinds but the owner's.
pub const REGISTRATION: &str = "admissionregistration.k8s.io/v1";

/// The group in an `apiVersion`, empty for the core group.
pub fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// A kind that meshgate writes. Kinds are in the order of removal: first what can refuse a request, last
/// the owner, since the garbage collector deletes everything else with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The mirror where it is a webhook, and the gate.
    MutatingWebhooks,
    /// The check.
    ValidatingWebhooks,
    ValidatingPolicyBinding,
    /// The guard, and the check where it is a policy.
    ValidatingPolicy,
    MutatingPolicyBinding,
    /// The mirror, where the cluster serves the kind, and its proof.
    MutatingPolicy,
    /// The empty owner of everything else.
    ClusterRole,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::MutatingWebhooks,
        Self::ValidatingWebhooks,
        Self::ValidatingPolicyBinding,
        Self::ValidatingPolicy,
        Self::MutatingPolicyBinding,
        Self::MutatingPolicy,
        Self::ClusterRole,
    ];

    /// As objects spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MutatingWebhooks => "MutatingWebhookConfiguration",
            Self::ValidatingWebhooks => "ValidatingWebhookConfiguration",
            Self::ValidatingPolicyBinding => "ValidatingAdmissionPolicyBinding",
            Self::ValidatingPolicy => "ValidatingAdmissionPolicy",
            Self::MutatingPolicyBinding => "MutatingAdmissionPolicyBinding",
            Self::MutatingPolicy => "MutatingAdmissionPolicy",
            Self::ClusterRole => "ClusterRole",
        }
    }

    /// Group and version, as objects spell them.
    pub fn api_version(self) -> &'static str {
        if self == Self::ClusterRole {
            "rbac.authorization.k8s.io/v1"
        } else {
            REGISTRATION
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

/// One object, which has no namespace. Sorts in the order of removal.
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
        let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == word)?;
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

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

#[cfg(test)]
#[path = "kind_tests.rs"]
mod tests;
