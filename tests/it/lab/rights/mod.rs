//! The chart's rights are exact: meshgate does all that it does with them, and each of them is used.

mod audit;
mod fence;
mod roles;
mod story;
mod wake_fence;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use self::audit::Call;
use self::roles::{Grant, grants};
use crate::manifests::of_kind;

/// Whose the roles are: a role of that name, and the user who has it.
const WHOSE: [(&str, &str); 7] = [
    (
        "meshgate-serve",
        "system:serviceaccount:meshgate-system:meshgate",
    ),
    (
        "meshgate-control",
        "system:serviceaccount:meshgate-system:meshgate-control",
    ),
    (
        "meshgate-control-wake",
        "system:serviceaccount:meshgate-system:meshgate-control",
    ),
    (
        "meshgate-control-events",
        "system:serviceaccount:meshgate-system:meshgate-control",
    ),
    (
        "meshgate-uninstall",
        "system:serviceaccount:meshgate-system:meshgate-uninstall",
    ),
    (
        "meshgate-break-glass",
        "system:serviceaccount:on-call:engineer",
    ),
    (
        "meshgate-break-glass-events",
        "system:serviceaccount:on-call:engineer",
    ),
];

/// What cannot be seen here, and why it is needed all the same.
const UNSEEN: [(&str, &str); 1] = [(
    "meshgate-break-glass: get validatingadmissionpolicybindings.admissionregistration.k8s.io/linkerd.check.meshgate.io",
    "read again when another client was quicker",
)];

/// Holds what was asked against what may be asked.
fn compare(objects: &[Value], calls: &[Call]) {
    let refused: Vec<&Call> = calls.iter().filter(|call| call.is_forbidden).collect();
    assert!(
        refused.is_empty(),
        "not granted, and asked for: {refused:#?}"
    );
    let mut asked: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        asked.entry(&call.user).or_default().push(call);
    }
    let roles = [of_kind(objects, "ClusterRole"), of_kind(objects, "Role")].concat();
    let grants: Vec<Grant> = roles.into_iter().flat_map(grants).collect();
    let is_used = |grant: &&Grant| {
        let whose = WHOSE.iter().find(|(role, _)| *role == grant.role);
        let (_, user) = whose.unwrap_or_else(|| panic!("whose is {grant}?"));
        let calls = asked.get(user).into_iter().flatten();
        calls.into_iter().any(|call| grant.is_used_by(call))
    };
    let is_known = |grant: &&Grant| UNSEEN.iter().any(|(known, _)| *known == grant.to_string());
    let unused: Vec<String> = grants
        .iter()
        .filter(|grant| !is_used(grant) && !is_known(grant))
        .map(ToString::to_string)
        .collect();
    assert!(unused.is_empty(), "granted, and never used: {unused:#?}");
    let stale: Vec<String> = grants
        .iter()
        .filter(|grant| is_used(grant) && is_known(grant))
        .map(ToString::to_string)
        .collect();
    assert!(
        stale.is_empty(),
        "used, so that it need not be excused: {stale:#?}"
    );
}

#[tokio::test]
async fn every_right_is_used_and_none_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let folder: &Path = folder.path();
    let objects = story::told(audit::flags(folder)).await;
    compare(&objects, &audit::calls(folder));
}
