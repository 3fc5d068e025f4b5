//! Pods that no rule is asked about: one function each, one table.
//!
//! Excluded namespaces come even before these, as they need no object at all.

use super::pod::PodView;
use super::reason::Reason;

/// Group of the kubelets, the only ones that may ask for a mirror pod.
const NODES: &str = "system:nodes";

type Test = fn(&PodView<'_>, asked_by_node: bool) -> bool;

/// In the order in which they are tried.
const EXEMPTIONS: [(Reason, Test); 3] = [
    (Reason::MirrorPod, mirror_pod),
    (Reason::HostNetwork, host_network),
    (Reason::OsWindows, windows),
];

/// Why the pod is exempt, if it is. `is_in_group` says whether the user who asks is in a group; it
/// is only asked about pods for which that counts.
pub fn of(pod: &PodView<'_>, is_in_group: impl FnOnce(&str) -> bool) -> Option<Reason> {
    let asked_by_node = pod.mirrored && is_in_group(NODES);
    let exempts = |(reason, test): (Reason, Test)| test(pod, asked_by_node).then_some(reason);
    EXEMPTIONS.into_iter().find_map(exempts)
}

/// The kubelet runs static pods whatever admission says (case 35). Anybody can write the
/// annotation, so that it counts only from a kubelet.
fn mirror_pod(pod: &PodView<'_>, asked_by_node: bool) -> bool {
    pod.mirrored && asked_by_node
}

/// Every injector passes them by, and CNI agents run so (cases 32 and 72).
fn host_network(pod: &PodView<'_>, _: bool) -> bool {
    pod.host_network()
}

/// A Linux proxy would never start there (case 34).
fn windows(pod: &PodView<'_>, _: bool) -> bool {
    pod.is_windows()
}

#[cfg(test)]
#[path = "exemption_tests.rs"]
mod tests;
