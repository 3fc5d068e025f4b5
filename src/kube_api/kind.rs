//! The kinds of objects that meshgate writes, and the name of one of them. Pure.

use std::fmt;

use serde_json::Value;

use crate::render::OWNER;

/// A kind that meshgate writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The empty owner of everything else.
    ClusterRole,
    /// The mirror, where the cluster has the kind.
    MutatingPolicy,
    /// Its binding.
    MutatingPolicyBinding,
    /// The mirror where it is a webhook, and the gate.
    MutatingWebhooks,
    /// The check.
    ValidatingWebhooks,
    /// The guard, and the check where it is a policy.
    ValidatingPolicy,
    /// Their bindings.
    ValidatingPolicyBinding,
}

/// What the API says about a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Its API group; the version is v1 for all.
    pub group: &'static str,
    /// As objects spell it.
    pub kind: &'static str,
    /// As paths spell it.
    pub plural: &'static str,
}

const ADMISSION: &str = "admissionregistration.k8s.io";

impl Kind {
    /// All of them, in the order in which they are removed: first what can refuse anything, last
    /// the owner, since everything else goes with it.
    pub const BY_REMOVAL: [Self; 7] = [
        Self::MutatingWebhooks,
        Self::ValidatingWebhooks,
        Self::ValidatingPolicyBinding,
        Self::ValidatingPolicy,
        Self::MutatingPolicyBinding,
        Self::MutatingPolicy,
        Self::ClusterRole,
    ];

    /// Its names.
    pub fn names(self) -> Names {
        let (group, kind, plural) = match self {
            Self::ClusterRole => ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles"),
            Self::MutatingPolicy => {
                let plural = "mutatingadmissionpolicies";
                (ADMISSION, "MutatingAdmissionPolicy", plural)
            }
            Self::MutatingPolicyBinding => {
                let plural = "mutatingadmissionpolicybindings";
                (ADMISSION, "MutatingAdmissionPolicyBinding", plural)
            }
            Self::MutatingWebhooks => {
                let plural = "mutatingwebhookconfigurations";
                (ADMISSION, "MutatingWebhookConfiguration", plural)
            }
            Self::ValidatingWebhooks => {
                let plural = "validatingwebhookconfigurations";
                (ADMISSION, "ValidatingWebhookConfiguration", plural)
            }
            Self::ValidatingPolicy => {
                let plural = "validatingadmissionpolicies";
                (ADMISSION, "ValidatingAdmissionPolicy", plural)
            }
            Self::ValidatingPolicyBinding => {
                let plural = "validatingadmissionpolicybindings";
                (ADMISSION, "ValidatingAdmissionPolicyBinding", plural)
            }
        };
        Names {
            group,
            kind,
            plural,
        }
    }

    /// True for the kinds that the guard guards.
    pub fn is_webhooks(self) -> bool {
        matches!(self, Self::MutatingWebhooks | Self::ValidatingWebhooks)
    }

    /// True for the kinds that older clusters do not serve.
    pub fn is_optional(self) -> bool {
        matches!(self, Self::MutatingPolicy | Self::MutatingPolicyBinding)
    }
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl Id {
    /// Of an object with `kind` and `metadata.name`; `None` if it is none of ours.
    pub fn of(object: &Value) -> Option<Self> {
        let word = object["kind"].as_str()?;
        let mut kinds = Kind::BY_REMOVAL.into_iter();
        Some(Self {
            kind: kinds.find(|kind| kind.names().kind == word)?,
            name: object["metadata"]["name"].as_str()?.to_owned(),
        })
    }
}

impl Id {
    /// Whether it has a name as we give it. The label that ours carry may be on anybody's object.
    pub fn is_ours(&self) -> bool {
        match self.kind == Kind::ClusterRole {
            true => self.name == OWNER,
            false => self.name.ends_with(".meshgate.io"),
        }
    }
}

/// The objects in the order in which they go: webhooks first, as they alone can refuse anything
/// when nobody answers them; the owner last.
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
        let id = |kind, name: &str| Id {
            kind,
            name: name.to_owned(),
        };
        assert!(id(Kind::ValidatingPolicy, "old.check.meshgate.io").is_ours());
        assert!(id(Kind::ClusterRole, OWNER).is_ours());
        assert!(!id(Kind::ClusterRole, "guard.meshgate.io").is_ours());
        for name in ["policy.example.test", "meshgate.io", "xmeshgate.io"] {
            assert!(!id(Kind::MutatingWebhooks, name).is_ours(), "{name}");
        }
    }
}
