//! Pods that no rule is asked about: one table.
//!
//! Excluded namespaces come even before these, as they need no object at all. `render` says the
//! same in CEL, so that the API server does not send such pods.

use crate::view::pod::PodView;

use super::reason::Reason;

/// Group of the kubelets, the only ones that may ask for a mirror pod.
const NODES: &str = "system:nodes";

type Test = fn(&PodView<'_>) -> bool;

/// In the order in which they are tried.
const EXEMPTIONS: [(Reason, Test); 2] = [
    // Injectors pass them by (linkerd/linkerd2 pkg/inject/report.go; istio/istio pkg/kube/inject/inject.go),
    // and CNI agents run so (cases 32 and 72).
    (Reason::HostNetwork, |pod| pod.host_network()),
    // A Linux proxy would never start there (case 34).
    (Reason::OsWindows, |pod| pod.is_windows()),
];

/// Why the pod is exempt, if it is. `is_in_group` says whether the user who asks is in a group; it
/// is only asked about pods for which that counts.
pub fn of(pod: &PodView<'_>, is_in_group: impl FnOnce(&str) -> bool) -> Option<Reason> {
    // The kubelet runs static pods whatever admission says (case 35). Any user can write the
    // annotation, so that it counts only from a kubelet.
    if pod.mirrored && is_in_group(NODES) {
        return Some(Reason::MirrorPod);
    }
    let mut exemptions = EXEMPTIONS.into_iter();
    exemptions.find_map(|(reason, test)| test(pod).then_some(reason))
}

#[cfg(test)]
#[path = "exemption_tests.rs"]
mod tests;
