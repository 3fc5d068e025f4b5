//! `Reason`: why a decision was taken, as metrics, logs and audit annotations spell it.

/// Why a decision was taken. One word each, the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Not the creation of a pod: UPDATE, DELETE, a subresource, another kind (cases 12 to 18).
    NotAPodCreate,
    /// Not a namespace being created or updated.
    NotANamespaceWrite,
    /// The namespace is being deleted, and left alone.
    NamespaceDeleted,
    /// The labels of the namespace say what its annotations say.
    LabelsAgree,
    /// A label of the namespace is added or removed, so that they agree again.
    LabelsCorrected,
    /// Not the object by which meshgate finds out whether the API server reaches it.
    NotAReachCall,
    /// The API server reached this server.
    Reached,
    /// The namespace is never looked at (cases 72, 73).
    ExcludedNamespace,
    /// A kubelet's mirror pod (case 35).
    MirrorPod,
    /// A pod on the host network (case 32).
    HostNetwork,
    /// A Windows pod (case 34).
    OsWindows,
    /// No rule requires an injector.
    NotRequired,
    /// The pod opts out of what its namespace requires (case 26).
    PodOptOut,
    /// The pod arrived with the complete sidecar (case 23).
    AlreadyInjected,
    /// Every required injector is usable.
    InjectorReady,
    /// The final pod holds every required sidecar.
    SidecarPresent,
    /// Too few usable endpoints (case 1).
    InjectorNotReady,
    /// No webhook entry of the injector in the cluster.
    InjectorNotInstalled,
    /// No webhook configuration carries the revision or tag (case 31).
    NoInjectorForRevision,
    /// The namespace could not be read (case 21).
    NamespaceUnknown,
    /// The server has not read the cluster yet (case 60).
    NotSynced,
    /// The answer would have come too late (case 20).
    DeadlineExceeded,
    /// A value that the injector does not know (case 25).
    InvalidValue,
    /// The final pod lacks the sidecar (case 2).
    SidecarMissing,
    /// The sidecar is an init container that ends (case 36).
    SidecarNotRestartable,
    /// The sidecar is still a placeholder (case 37).
    SidecarPlaceholder,
    /// The sidecar is there, its init container is not.
    InitMissing,
    /// The object of the review is not a pod (case 8).
    UnreadableObject,
    /// Nobody could answer: no review, no uid, not JSON (case 10).
    BadRequest,
}

impl Reason {
    /// All of them, for documentation and tests.
    pub const ALL: [Self; 29] = [
        Self::NotAPodCreate,
        Self::NotANamespaceWrite,
        Self::NamespaceDeleted,
        Self::LabelsAgree,
        Self::LabelsCorrected,
        Self::NotAReachCall,
        Self::Reached,
        Self::ExcludedNamespace,
        Self::MirrorPod,
        Self::HostNetwork,
        Self::OsWindows,
        Self::NotRequired,
        Self::PodOptOut,
        Self::AlreadyInjected,
        Self::InjectorReady,
        Self::SidecarPresent,
        Self::InjectorNotReady,
        Self::InjectorNotInstalled,
        Self::NoInjectorForRevision,
        Self::NamespaceUnknown,
        Self::NotSynced,
        Self::DeadlineExceeded,
        Self::InvalidValue,
        Self::SidecarMissing,
        Self::SidecarNotRestartable,
        Self::SidecarPlaceholder,
        Self::InitMissing,
        Self::UnreadableObject,
        Self::BadRequest,
    ];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAPodCreate => "not_a_pod_create",
            Self::NotANamespaceWrite => "not_a_namespace_write",
            Self::NamespaceDeleted => "namespace_deleted",
            Self::LabelsAgree => "labels_agree",
            Self::LabelsCorrected => "labels_corrected",
            Self::NotAReachCall => "not_a_reach_call",
            Self::Reached => "reached",
            Self::ExcludedNamespace => "excluded_namespace",
            Self::MirrorPod => "mirror_pod",
            Self::HostNetwork => "host_network",
            Self::OsWindows => "os_windows",
            Self::NotRequired => "not_required",
            Self::PodOptOut => "pod_opt_out",
            Self::AlreadyInjected => "already_injected",
            Self::InjectorReady => "injector_ready",
            Self::SidecarPresent => "sidecar_present",
            Self::InjectorNotReady => "injector_not_ready",
            Self::InjectorNotInstalled => "injector_not_installed",
            Self::NoInjectorForRevision => "no_injector_for_revision",
            Self::NamespaceUnknown => "namespace_unknown",
            Self::NotSynced => "not_synced",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::InvalidValue => "invalid_value",
            Self::SidecarMissing => "sidecar_missing",
            Self::SidecarNotRestartable => "sidecar_not_restartable",
            Self::SidecarPlaceholder => "sidecar_placeholder",
            Self::InitMissing => "init_missing",
            Self::UnreadableObject => "unreadable_object",
            Self::BadRequest => "bad_request",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Reason;

    #[test]
    fn all_are_listed_once_and_have_words_of_their_own() {
        let all: BTreeSet<_> = Reason::ALL.into_iter().collect();
        // The list is as long as the last discriminant says.
        assert_eq!(all.len(), Reason::BadRequest as usize + 1);
        let words: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(words.len(), all.len());
        let is_word = |word: &&&str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        assert_eq!(words.iter().filter(is_word).count(), words.len());
        // Those that the cases name.
        let named = [
            "pod_opt_out",
            "no_injector_for_revision",
            "host_network",
            "os_windows",
            "mirror_pod",
            "sidecar_not_restartable",
        ];
        assert!(named.iter().all(|word| words.contains(word)));
    }
}
