//! What the API server is told: a configuration as webhook configurations and policies, as objects ready
//! to be written.
//!
//! Objects are JSON values, since they name kinds that are newer than the types of the client. Tests
//! hold that the same rules come out as those of `decision`.
//!
//! - [`webhooks`]: which pods are sent to gate and check (design section 7: the smallest set of pods).
//!   `entries` lays the partitions of several injectors over each other. A `partition` is a kind of
//!   namespace with the rest of the rules there.
//! - [`mirror`]: annotations of namespaces as labels, which a selector can look at.
//! - [`policy`]: the check, for the API server to evaluate.
//! - [`proof`]: how an API server shows that it uses what meshgate has written.
//! - [`guard`]: holds the registration to what it is for.
//! - [`static_manifests`]: all of it for the API server's own disk.
//!
//! Written in this order at the start: owner, mirror, labels of existing namespaces, the rest.

mod entries;
mod exemptions;
pub mod guard;
pub mod mirror;
mod object;
mod partition;
pub mod policy;
pub mod proof;
pub mod static_manifests;
pub mod webhooks;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::injector::{ALWAYS_EXCLUDED, Injectors};

pub use self::exemptions::is_own_condition;
pub use self::object::{client_config, hash, owner};
pub use crate::names::{
    ASKED_FOR, BREAK_GLASS, CHECK_PROOF, CONFIGURATION, GUARD, MIRROR, MIRROR_PROOF, OURS, OWNER,
    POLICIES, REACH_ENTRY, path,
};

/// Everything besides the configuration that the rendered objects depend on.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How the API server calls meshgate.
    pub client: Client,
    /// PEM of the CAs that verify meshgate's certificate. Without them the API server uses its system's.
    pub ca_bundle: Option<String>,
    /// Of the entries that enforce: [`FailurePolicy::Ignore`] until armed.
    pub failure_policy: FailurePolicy,
    /// meshgate's own namespace, excluded as well.
    pub namespace: String,
    /// UID of that namespace, which owns the [`OWNER`]; `None` if it is not known.
    pub namespace_uid: Option<String>,
    /// UID of the [`OWNER`]; without it the objects have no owner.
    pub owner_uid: Option<String>,
    /// Which side makes the guarantee.
    pub enforcement: Enforcement,
    /// How annotations of namespaces become labels.
    pub mirror: MirrorForm,
    /// Users who may change webhooks without a note: meshgate's own account.
    pub writers: Vec<String>,
}

impl Settings {
    /// Before anything is armed, for webhooks, in a cluster of Kubernetes 1.36 or later.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            ca_bundle: None,
            failure_policy: FailurePolicy::Ignore,
            namespace: namespace.to_owned(),
            namespace_uid: None,
            owner_uid: None,
            enforcement: Enforcement::Webhook,
            mirror: MirrorForm::Policy,
            writers: Vec::new(),
        }
    }
}

/// How the API server calls meshgate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Client {
    /// `https://HOST:PORT`, without a path.
    Url(String),
    /// A Service of the cluster.
    Service {
        /// `metadata.namespace`.
        namespace: String,
        /// `metadata.name`.
        name: String,
        /// The port of the Service, not of the pods.
        port: u16,
    },
}

/// What the API server does with a request when it cannot call meshgate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It lets the request pass.
    Ignore,
    /// It refuses the request.
    Fail,
}

impl FailurePolicy {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Fail => "Fail",
        }
    }

    /// How long the API server waits for an answer. Less where a request passes without one: waiting is
    /// then the only effect of a silent meshgate.
    pub fn timeout_seconds(self) -> u32 {
        match self {
            Self::Ignore => 2,
            Self::Fail => 5,
        }
    }
}

/// Which side makes the guarantee that no pod starts without its sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// Gate and check are webhooks.
    Webhook,
    /// The API server evaluates the check itself, as policies; the gate never blocks.
    Policy,
}

/// How annotations of namespaces become labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorForm {
    /// By a `MutatingAdmissionPolicy` (Kubernetes 1.36 and later), without a call.
    Policy,
    /// By a webhook on namespaces.
    Webhook,
}

/// Objects, and notes for an administrator.
#[derive(Debug, Clone, Default)]
pub struct Rendered {
    /// In the order in which they are to be written.
    pub objects: Vec<Value>,
    /// Where the API server asks about more pods than need be, and why.
    pub notes: Vec<Note>,
}

/// Some labels do not tell namespaces apart, as there would be too many entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The injector whose requirement the API server asks about too often.
    pub injector: String,
    /// The labels of namespaces that no selector looks at.
    pub labels: Vec<String>,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pods are sent to meshgate whatever their namespace says for {} in {}: to tell these \
             namespaces apart would take too many webhook entries; the verdicts are the same",
            self.injector,
            self.labels.join(", ")
        )
    }
}

/// Everything that registers meshgate, in the order in which it is to be changed: the owner, the
/// guard, the mirror if an injector needs one, the webhook configurations. With
/// [`Enforcement::Policy`] the policies and their proof come before the webhooks.
pub fn registration(injectors: &Injectors, settings: &Settings) -> Rendered {
    let webhooks = webhooks::objects(injectors, settings);
    let mut objects = vec![owner(settings)];
    // Before all that it looks at: it may have to admit another address.
    objects.extend(guard::objects(settings));
    objects.extend(mirror::objects(injectors, settings));
    if settings.enforcement == Enforcement::Policy {
        objects.extend(policy::objects(injectors, settings));
        objects.extend(proof::of_check(settings));
    }
    objects.extend(webhooks.objects);
    Rendered {
        objects,
        notes: webhooks.notes,
    }
}

/// Namespaces that are never looked at, sorted.
fn excluded<'s>(injectors: &'s Injectors, settings: &'s Settings) -> Vec<&'s str> {
    excluded_besides(injectors, Some(&settings.namespace))
}

/// The same where the injectors may exclude meshgate's own namespace already.
fn excluded_besides<'s>(injectors: &'s Injectors, own: Option<&'s str>) -> Vec<&'s str> {
    let configured = injectors.excluded().iter().map(String::as_str);
    let all = ALWAYS_EXCLUDED.into_iter().chain(own).chain(configured);
    let names: BTreeSet<&str> = all.collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests;
