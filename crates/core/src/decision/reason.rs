//! `Reason`: why a decision was taken, as metrics, logs and audit annotations spell it.

/// An enum with its words, once: the type, the list of all and the words are made of it.
macro_rules! words {
    ($(#[$about:meta])+ $type:ident: $($(#[$doc:meta])+ $name:ident = $word:literal,)+) => {
        $(#[$about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type {
            $($(#[$doc])+ $name,)+
        }

        impl $type {
            /// All of them, for documentation and tests.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

pub(crate) use words;

words! {
    /// Why a decision was taken. One word each, the same everywhere.
    Reason:
    /// Not the creation of a pod: UPDATE, DELETE, a subresource, another kind (cases 12 to 18).
    NotAPodCreate = "not_a_pod_create",
    /// Not a namespace being created or updated.
    NotANamespaceWrite = "not_a_namespace_write",
    /// The namespace is being deleted, and left alone.
    NamespaceDeleted = "namespace_deleted",
    /// The labels of the namespace say what its annotations say.
    LabelsAgree = "labels_agree",
    /// A label of the namespace is added or removed, so that they agree again.
    LabelsCorrected = "labels_corrected",
    /// Not the object by which meshgate finds out whether the API server reaches it.
    NotAReachCall = "not_a_reach_call",
    /// The API server reached this server.
    Reached = "reached",
    /// The namespace is never looked at (cases 72, 73).
    ExcludedNamespace = "excluded_namespace",
    /// A kubelet's mirror pod (case 35).
    MirrorPod = "mirror_pod",
    /// A pod on the host network (case 32).
    HostNetwork = "host_network",
    /// A Windows pod (case 34).
    OsWindows = "os_windows",
    /// No rule requires an injector.
    NotRequired = "not_required",
    /// The pod opts out of what its namespace requires (case 26).
    PodOptOut = "pod_opt_out",
    /// The pod arrived with the complete sidecar (case 23).
    AlreadyInjected = "already_injected",
    /// Every required injector is usable.
    InjectorReady = "injector_ready",
    /// The final pod holds every required sidecar.
    SidecarPresent = "sidecar_present",
    /// Too few usable endpoints (case 1).
    InjectorNotReady = "injector_not_ready",
    /// No webhook entry of the injector in the cluster.
    InjectorNotInstalled = "injector_not_installed",
    /// No webhook configuration carries the revision or tag (case 31).
    NoInjectorForRevision = "no_injector_for_revision",
    /// The namespace could not be read (case 21).
    NamespaceUnknown = "namespace_unknown",
    /// The server has not read the cluster yet (case 60).
    NotSynced = "not_synced",
    /// The answer would have come too late (case 20).
    DeadlineExceeded = "deadline_exceeded",
    /// A value that the injector does not know (case 25).
    InvalidValue = "invalid_value",
    /// The pod opts out where the profile forbids it.
    OptOutForbidden = "opt_out_forbidden",
    /// The final pod lacks the sidecar (case 2).
    SidecarMissing = "sidecar_missing",
    /// The sidecar is an init container that ends (case 36).
    SidecarNotRestartable = "sidecar_not_restartable",
    /// The sidecar is still a placeholder (case 37).
    SidecarPlaceholder = "sidecar_placeholder",
    /// The sidecar's image does not begin as the profile wants.
    SidecarImage = "sidecar_image",
    /// The sidecar is there, its init container is not.
    InitMissing = "init_missing",
    /// The object of the review is not a pod (case 8).
    UnreadableObject = "unreadable_object",
    /// No answer is possible: no review, no uid, not JSON (case 10).
    BadRequest = "bad_request",
}

#[cfg(test)]
#[path = "reason_tests.rs"]
mod tests;
