//! What the API server is told: a configuration as webhook configurations, policies and their
//! conditions, as objects ready to be written.
//!
//! PURE: no async, no clock, no IO, no logging. Objects are JSON values, since they have to name
//! kinds that are newer than the types of the client. Must not import anything but `injector`;
//! that the same rules come out as those of `decision` is held by tests.
//!
//! - [`webhooks`]: who is sent to gate and check (design section 7: the smallest set of pods).
//!   `entries` lays the `cells` of several injectors over each other; a cell is a kind of
//!   namespace with what is left of the rules there.
//! - [`mirror`]: annotations of namespaces as labels, which alone can be selected on.
//! - [`policy`]: the check, for the API server to evaluate.
//! - [`in_force`]: the proof that policies are in force, and that the mirror is.
//! - [`guard`]: against accidents with the registration.
//! - [`fixed`]: all of it for the API server's own disk.
//! - `condition`: conditions as values, made from rules and printed as CEL.
//!
//! Written in this order at the start: owner, mirror, labels of existing namespaces, the rest.

mod cells;
mod condition;
mod entries;
mod exemptions;
pub mod fixed;
pub mod guard;
pub mod in_force;
pub mod mirror;
pub mod policy;
pub mod reach;
pub mod webhooks;

use std::fmt;

use serde_json::{Value, json};

use crate::injector::{ALWAYS_EXCLUDED, Injectors};

/// Name of the `MutatingWebhookConfiguration` and of the `ValidatingWebhookConfiguration` for
/// pods. Mutating ones are called by name, and this one sorts before the injectors' names, so that
/// a refusal costs one call.
pub const CONFIGURATION: &str = "admission.meshgate.io";

/// Name of the entry that only a dry run of ours meets: it proves that the API server reaches us.
pub const REACH_ENTRY: &str = "reach.meshgate.io";

/// Annotation of a webhook configuration: whom each entry asks for, as a JSON object from names of
/// entries to lists of injectors. Names of entries do not tell, and `break-glass` has no configuration.
pub const ASKED_FOR: &str = "meshgate.io/injectors";

/// Name of the condition that says which pods are asked about.
pub const REQUIRED: &str = "required";

/// What stands between the requirements of several injectors in the condition [`REQUIRED`], in the
/// order of [`ASKED_FOR`], and nowhere within one: so that one can be taken out of the text.
pub const ALTERNATIVE: &str = "\n|| ";

/// Label of the `ConfigMap` that meets [`REACH_ENTRY`], in meshgate's own namespace.
pub const REACH_LABEL: &str = "meshgate.io/reach";

/// Name of the `MutatingAdmissionPolicy` and its binding, or of the
/// `MutatingWebhookConfiguration`, that mirror annotations of namespaces.
pub const MIRROR: &str = "namespaces.meshgate.io";

/// Name of the `ValidatingAdmissionPolicy` and its binding that guard the registration.
pub const GUARD: &str = "guard.meshgate.io";

/// Annotation that lets a change weaken the registration: who, and why.
pub const BREAK_GLASS: &str = "meshgate.io/break-glass";

/// Name of the empty `ClusterRole` that owns everything else (case 77).
pub const OWNER: &str = "meshgate";

/// Selects what we have written by the label that each of our objects carries: our field manager
/// cannot be selected on.
pub const OURS: &str = "app.kubernetes.io/managed-by=meshgate";

/// Annotation by which cainjector of cert-manager knows what to write where.
const INJECT_CA: &str = "cert-manager.io/inject-ca-from";

/// Paths of the endpoints.
pub mod path {
    /// The gate.
    pub const GATE: &str = "/mutate/pods";
    /// The check.
    pub const CHECK: &str = "/validate/pods";
    /// The mirror, where it is a webhook.
    pub const NAMESPACES: &str = "/mutate/namespaces";
    /// The proof that the API server reaches us.
    pub const REACH: &str = "/mutate/reach";
}

/// What the rendered objects depend on besides the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How the API server calls us.
    pub client: Client,
    /// PEM of the CAs that our certificate is verified by; without them the API server uses its
    /// system's.
    pub ca_bundle: Option<String>,
    /// `NAMESPACE/NAME` of the Certificate from which cainjector of cert-manager writes the bundle:
    /// then it is none of our fields.
    pub inject_ca_from: Option<String>,
    /// Of the entries that enforce: [`FailurePolicy::Ignore`] until armed.
    pub failure_policy: FailurePolicy,
    /// meshgate's own namespace, excluded as well.
    pub namespace: String,
    /// UID of that namespace, if it is known: it owns the [`OWNER`].
    pub namespace_uid: Option<String>,
    /// UID of the [`OWNER`]; without it the objects have no owner.
    pub owner_uid: Option<String>,
    /// Who makes the guarantee.
    pub enforcement: Enforcement,
    /// How namespaces are labelled.
    pub mirror: MirrorForm,
    /// Users that the guard lets change the registration: meshgate's own account.
    pub writers: Vec<String>,
}

impl Settings {
    /// As they are before anything is armed, for webhooks and a cluster of today.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            ca_bundle: None,
            inject_ca_from: None,
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

/// How the API server calls us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Client {
    /// `https://HOST:PORT`, without a path.
    Url(String),
    /// A Service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
}

/// What becomes of a request when we cannot be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It goes on.
    Ignore,
    /// It is refused.
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

    /// How long the API server waits for an answer: less where a request goes on without one, as
    /// waiting is then all that a silent meshgate brings.
    pub fn timeout_seconds(self) -> u32 {
        match self {
            Self::Ignore => 2,
            Self::Fail => 5,
        }
    }
}

/// Who makes the guarantee that no pod starts without its sidecar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// Gate and check are webhooks.
    Webhook,
    /// The check is a policy that the API server evaluates itself; the gate never blocks.
    Policy,
}

/// How annotations of namespaces become labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorForm {
    /// By a `MutatingAdmissionPolicy` (Kubernetes 1.36 and later): no call at all.
    Policy,
    /// By a webhook on namespaces.
    Webhook,
}

/// Objects, and what somebody should know about them.
#[derive(Debug, Clone, Default)]
pub struct Rendered {
    /// In the order in which they are to be written.
    pub objects: Vec<Value>,
    /// Where more pods are asked about than need be, and why.
    pub notes: Vec<Note>,
}

/// Something to know about what was rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Namespaces are not told apart by a label, as there would be too many entries.
    Widened {
        /// Whose requirement is asked about too often.
        injector: String,
        /// Labels of namespaces that are not looked at.
        labels: Vec<String>,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Widened { injector, labels } => write!(
                f,
                "pods are sent to meshgate whatever their namespace says for {injector} in {}: to \
                 tell these namespaces apart would take too many webhook entries; the verdicts \
                 are the same",
                labels.join(", ")
            ),
        }
    }
}

/// Everything that registers meshgate, in the order in which it is to be written: the owner, the
/// mirror if an injector needs one, the guard, the webhook configurations; with
/// [`Enforcement::Policy`] the policies as well, and what proves that they are in force.
pub fn registration(injectors: &Injectors, settings: &Settings) -> Rendered {
    let mut rendered = Rendered {
        objects: vec![owner(settings)],
        ..Rendered::default()
    };
    rendered
        .objects
        .extend(mirror::objects(injectors, settings));
    rendered.objects.extend(guard::objects(settings));
    if settings.enforcement == Enforcement::Policy {
        rendered.add(policy::objects(injectors, settings));
        rendered.objects.extend(in_force::objects(settings));
    }
    rendered.add(webhooks::objects(injectors, settings));
    rendered
}

impl Rendered {
    fn add(&mut self, more: Self) {
        self.objects.extend(more.objects);
        self.notes.extend(more.notes);
    }
}

/// The [`OWNER`]: a role without rights. What it owns is collected within a second of its
/// deletion, with no meshgate running (case 77). The chart brings it too, and [`OURS`] is a label that
/// Helm says something else about: both writing it would stop the next upgrade with a conflict. So it is
/// found by its name alone. Our namespace owns it: where that goes and nobody of us lives to see it, the
/// registration goes as well.
pub fn owner(settings: &Settings) -> Value {
    let mut metadata = json!({"name": OWNER, "labels": names()});
    if let Some(uid) = &settings.namespace_uid {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1",
            "kind": "Namespace",
            "name": settings.namespace,
            "uid": uid,
        }]);
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [],
    })
}

fn names() -> Value {
    json!({
        "app.kubernetes.io/name": "meshgate",
        "app.kubernetes.io/part-of": "meshgate",
    })
}

fn labels() -> Value {
    let (key, value) = OURS.split_once('=').unwrap_or((OURS, ""));
    let mut labels = names();
    labels[key] = value.into();
    labels
}

/// Metadata of an object that the [`OWNER`] owns.
fn metadata(name: &str, settings: &Settings) -> Value {
    let mut metadata = json!({"name": name, "labels": labels()});
    if let Some(uid) = &settings.owner_uid {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "name": OWNER,
            "uid": uid,
        }]);
    }
    metadata
}

/// Metadata of a webhook configuration: cainjector of cert-manager is told if it is to write there.
fn webhooks_metadata(name: &str, settings: &Settings) -> Value {
    let mut metadata = metadata(name, settings);
    if let Some(certificate) = &settings.inject_ca_from {
        metadata["annotations"] = json!({ (INJECT_CA): certificate });
    }
    metadata
}

/// A short word that differs with the text (64-bit FNV-1a): it has to differ, not to hide.
pub fn hash(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Namespaces that are never looked at, sorted.
fn excluded<'s>(injectors: &'s Injectors, settings: &'s Settings) -> Vec<&'s str> {
    let own = std::iter::once(settings.namespace.as_str());
    let configured = injectors.excluded().iter().map(String::as_str);
    let mut names: Vec<&str> = ALWAYS_EXCLUDED
        .into_iter()
        .chain(own)
        .chain(configured)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests;
