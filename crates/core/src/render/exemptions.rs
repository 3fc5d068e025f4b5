//! Pods that meshgate never looks at, as conditions: those of `decision::exemption`.

use serde_json::{Value, json};

use crate::names::{MIRROR, REQUIRED};

use super::mirror;

/// Name and expression. Every user can write the annotation of a mirror pod, so that exemption is bound to
/// the user (case 35).
const EXEMPTIONS: [(&str, &str); 3] = [
    (
        "not-a-mirror-pod",
        "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}) && \
         'system:nodes' in request.userInfo.?groups.orValue([]))",
    ),
    (
        "not-on-host-network",
        "!object.spec.?hostNetwork.orValue(false)",
    ),
    (
        "not-for-windows",
        "object.spec.?os.?name.orValue('') != 'windows' && \
         object.spec.?nodeSelector[?'kubernetes.io/os'].orValue('') != 'windows'",
    ),
];

/// As `matchConditions`: all must hold for a pod to be looked at.
pub(super) fn conditions() -> Vec<Value> {
    let condition =
        |(name, expression): (&str, &str)| json!({"name": name, "expression": expression});
    EXEMPTIONS.into_iter().map(condition).collect()
}

/// The same, as expressions that `&&` joins.
pub(super) fn expressions() -> impl Iterator<Item = &'static str> {
    EXEMPTIONS.into_iter().map(|(_, expression)| expression)
}

/// The names of conditions that entries for pods have.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let exemptions = EXEMPTIONS.into_iter().map(|(name, _)| name);
    exemptions.chain([REQUIRED])
}

/// Whether meshgate gives an entry of this name a condition of that one.
pub fn is_own_condition(entry: &str, name: &str) -> bool {
    if entry == MIRROR {
        return mirror::CONDITIONS.contains(&name);
    }
    names().any(|own| own == name)
}
