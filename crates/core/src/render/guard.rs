//! The guard: a policy in the API server against accidents with the registration.
//!
//! A fence, not a wall: the API server admits changes of policies and bindings without asking any policy,
//! and an administrator who may write the annotation passes. RBAC is the wall.

use serde_json::{Value, json};

use crate::condition::cel;
use crate::names::{BREAK_GLASS, CONFIGURATION, GUARD, MIRROR};

use super::{Settings, object};

/// The account that removes the registration when its owner is deleted.
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

/// The policy and its binding.
pub(super) fn objects(settings: &Settings) -> [Value; 2] {
    let rules = object::rules(
        "admissionregistration.k8s.io",
        &["UPDATE", "DELETE"],
        &[
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
        ],
        "Cluster",
    );
    let spec = json!({
        "matchConstraints": object::constraints(json!({}), rules),
        "matchConditions": conditions(settings),
        "variables": [{"name": "isSuspended", "expression": is_suspended()}],
        "validations": [{
            "expression": "variables.isSuspended",
            "message": format!("the change{}", wants_annotation()),
            "messageExpression": message(),
            "reason": "Forbidden",
        }],
        // So that the audit log has who and why.
        "auditAnnotations": [{"key": "break-glass", "valueExpression": who_and_why()}],
    });
    object::validating_policy(GUARD, &["Deny"], spec, settings)
}

/// The changes that it looks at.
fn conditions(settings: &Settings) -> Value {
    let names = [CONFIGURATION, MIRROR].map(str::to_owned);
    let mut passing = vec![COLLECTOR.to_owned()];
    passing.extend(settings.writers.iter().cloned());
    let passing = cel::texts(&passing);
    json!([
        {"name": "ours", "expression": format!("oldObject.metadata.name in {}", cel::texts(&names))},
        {"name": "another-client", "expression": format!("!(request.userInfo.username in {passing})")},
        {
            // Every user may change labels and annotations, but not the owner, which removes it in the end.
            "name": "more-than-labels-and-annotations",
            "expression": "request.operation == 'DELETE' || object.?webhooks != oldObject.?webhooks || \
                object.metadata.?ownerReferences != oldObject.metadata.?ownerReferences",
        },
    ])
}

/// [`note::suspends`](crate::break_glass::note::suspends) as CEL, of the object before or after the change.
fn is_suspended() -> String {
    let says = format!(
        ".metadata.?annotations[?{}].orValue('').matches('\\\\S\\\\s+\\\\S')",
        cel::text(BREAK_GLASS)
    );
    format!("oldObject{says} || (request.operation == 'UPDATE' && object{says})")
}

fn wants_annotation() -> String {
    format!(
        " would let pods start without their sidecar. First set the annotation {BREAK_GLASS} on it with who \
         and why"
    )
}

/// The same with the names of what is changed, and as a command to copy.
fn message() -> String {
    let says = cel::text(&format!(
        "{}, for example: kubectl annotate ",
        wants_annotation()
    ));
    let example = cel::text(&format!(
        " {BREAK_GLASS}=\"jane: the mesh is being replaced\""
    ));
    format!(
        "request.operation + ' of ' + oldObject.metadata.name +\n{says} +\nrequest.resource.resource + \
         ' ' + oldObject.metadata.name + {example}"
    )
}

fn who_and_why() -> String {
    let key = cel::text(BREAK_GLASS);
    format!(
        "object != null && {key} in object.metadata.?annotations.orValue({{}}) ? \
         string(object.metadata.annotations[{key}]) : \
         string(oldObject.metadata.?annotations[?{key}].orValue(''))"
    )
}
