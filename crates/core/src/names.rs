//! Names and keys that more than one module reads, spelled once.

/// Annotation by which meshgate marks a pod that it admitted: the injectors that it requires.
pub const ADMITTED: &str = "meshgate.io/admitted";

/// Annotation by which meshgate makes the controller of a ReplicaSet, Job or the like try at once: when it did.
pub const WOKEN: &str = "meshgate.io/woken";

/// Annotation by which a kubelet's mirror pod is known (case 35).
pub(crate) const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// Label of nodes, and so key of node selectors: the operating system (case 34).
pub(crate) const OS: &str = "kubernetes.io/os";

/// The label that the API server itself keeps on every namespace.
pub(crate) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Name of the `MutatingWebhookConfiguration` and of the `ValidatingWebhookConfiguration` for
/// pods. The API server calls mutating ones by name. This one sorts before the injectors' names, so that
/// a refusal costs one call.
pub const CONFIGURATION: &str = "admission.meshgate.io";

/// Name of the `MutatingAdmissionPolicy` and its binding, or of the
/// `MutatingWebhookConfiguration`, that mirror annotations of namespaces.
pub const MIRROR: &str = "namespaces.meshgate.io";

/// Name of the `ValidatingAdmissionPolicy` and its binding that guard the registration.
pub const GUARD: &str = "guard.meshgate.io";

/// Name of the empty `ClusterRole` that owns everything else (case 77).
pub const OWNER: &str = "meshgate";

/// Selects meshgate's objects by the label that each of them carries: a list cannot select by field
/// manager.
pub const OURS: &str = "app.kubernetes.io/managed-by=meshgate";

/// Selects everything that an installation consists of, whichever tool installed it.
pub const PART_OF: &str = "app.kubernetes.io/part-of=meshgate";

/// Name of the Deployment of the controllers, of its ServiceAccount, and of the Lease that they hold.
pub const CONTROL: &str = "meshgate-control";

/// Label of serving replicas: a hash of the configuration that they have.
pub const CONFIGURATION_LABEL: &str = "meshgate.io/configuration";

/// Annotation that lets a change weaken the registration: who, and why.
pub const BREAK_GLASS: &str = "meshgate.io/break-glass";

/// Annotation of a webhook configuration: a JSON object from the names of its entries to the injectors
/// that each asks for. `break-glass` has no configuration to read that from.
pub const ASKED_FOR: &str = "meshgate.io/injectors";

/// Name of the match condition that says which pods an entry asks about.
pub(crate) const REQUIRED: &str = "required";

/// Separates the requirements of several injectors in the condition [`REQUIRED`], in the order of
/// [`ASKED_FOR`]. It occurs nowhere within one, so that break-glass can take one out of the text.
pub(crate) const ALTERNATIVE: &str = "\n|| ";

/// How the names of all entries end.
pub const ENTRIES: &str = ".meshgate.io";

/// How the names of the policies that are the check end: the injector's name comes before.
pub const POLICIES: &str = ".check.meshgate.io";

/// Name of the entry that only a dry run of meshgate meets: it proves that the API server reaches
/// meshgate.
pub const REACH_ENTRY: &str = "reach.meshgate.io";

/// Name of the policy that proves the check as policies, and of its binding.
pub const CHECK_PROOF: &str = "in-force.meshgate.io";

/// Name of the policy that proves the mirror, and of its binding.
pub const MIRROR_PROOF: &str = "in-force.namespaces.meshgate.io";

/// Paths of the endpoints.
pub mod path {
    /// Of the gate.
    pub const GATE: &str = "/mutate/pods";
    /// Of the check.
    pub const CHECK: &str = "/validate/pods";
    /// Of the mirror, where it is a webhook.
    pub const NAMESPACES: &str = "/mutate/namespaces";
    /// Of the proof that the API server reaches meshgate.
    pub const REACH: &str = "/mutate/reach";
}

/// Whether an entry of this name asks meshgate about pods or namespaces. The entry that proves that the API
/// server reaches meshgate is none: only meshgate meets it.
pub fn asks_meshgate(entry: &str) -> bool {
    entry.ends_with(ENTRIES) && entry != REACH_ENTRY
}
