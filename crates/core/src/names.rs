//! Keys of labels and annotations that more than one module reads, spelled once.

/// Annotation by which meshgate marks a pod that it admitted: the injectors that it requires.
pub const ADMITTED: &str = "meshgate.io/admitted";

/// Annotation by which a kubelet's mirror pod is known (case 35).
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// Label of nodes, and so key of node selectors: the operating system (case 34).
pub const OS: &str = "kubernetes.io/os";
