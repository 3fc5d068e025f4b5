//! `State` and `Cause`: what an audit says of a pod and one injector, in words.

use crate::decision::reason::words;

words! {
    /// Whether a running pod has the sidecar that it requires. One word each, the same everywhere.
    State:
    /// It has the sidecar.
    Injected = "injected",
    /// It has the sidecar, of another revision than its namespace names, or too old.
    Stale = "stale",
    /// It requires the sidecar and lacks it.
    Bare = "bare",
    /// It opts out of what its namespace requires.
    OptedOut = "optedOut",
    /// A rule requires the sidecar, and an exemption spares the pod.
    Exempt = "exempt",
    /// What decides is not known.
    Unknown = "unknown",
}

words! {
    /// Why a pod is in its state. One word each, the same everywhere. Of those of [`State::Bare`] the first
    /// that fits counts.
    Cause:
    /// Bare: the sidecar's image is a placeholder (case 37).
    PlaceholderImage = "placeholderImage",
    /// Bare: the sidecar is there, its init container is not.
    InitMissing = "initMissing",
    /// Bare: the sidecar is an init container that ends (case 36).
    SidecarNotRestartable = "sidecarNotRestartable",
    /// Bare: the sidecar's image does not begin as the profile wants.
    SidecarImage = "sidecarImage",
    /// Bare: the pod has meshgate's mark for the injector.
    MarkedButBare = "markedButBare",
    /// Bare: an administrator suspended enforcement before the pod was created (case 96).
    EnforcementSuspended = "enforcementSuspended",
    /// Bare: a value that the injector does not know (case 25).
    InvalidValue = "invalidValue",
    /// Bare: the pod opts out where the profile forbids it.
    OptOutForbidden = "optOutForbidden",
    /// Bare: the pod is older than the label or annotation of its namespace (case 88).
    OlderThanRequirement = "olderThanRequirement",
    /// Bare: nothing of meshgate was armed when the pod was created.
    NotArmed = "notArmed",
    /// Bare: the injector is in mode `warn`.
    ModeWarn = "modeWarn",
    /// Bare: nothing of the above.
    Unexplained = "unknown",
    /// Stale: another revision injected the pod than its namespace names.
    OtherRevision = "otherRevision",
    /// Stale: the sidecar's image is too many minor versions behind the injector's.
    OlderProxy = "olderProxy",
    /// Injected: one set of the profile is there.
    SidecarPresent = "sidecarPresent",
    /// Opted out: by a label or annotation of the pod (case 26).
    PodOptOut = "podOptOut",
    /// Exempt: its namespace is never looked at (cases 72, 73).
    ExcludedNamespace = "excludedNamespace",
    /// Exempt: a kubelet's mirror pod (case 35).
    MirrorPod = "mirrorPod",
    /// Exempt: a pod on the host network (case 32).
    HostNetwork = "hostNetwork",
    /// Exempt: a Windows pod (case 34).
    OsWindows = "osWindows",
    /// Unknown: the pod's namespace could not be read (case 21).
    NamespaceUnknown = "namespaceUnknown",
    /// Unknown: the object cannot be read as a pod (case 8).
    UnreadableObject = "unreadableObject",
}
