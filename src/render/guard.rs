//! The guard: a policy in the API server against accidents with the registration.
//!
//! A fence, not a wall: policies and bindings are exempt from admission themselves, and whoever
//! may write the annotation gets through. RBAC is the wall.

use serde_json::{Value, json};

use super::condition::cel;
use super::{BREAK_GLASS, CONFIGURATION, GUARD, MIRROR, Settings, metadata};

/// Who else may change it: what removes it when its owner is deleted.
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

/// The policy and its binding.
pub fn objects(settings: &Settings) -> Vec<Value> {
    vec![
        policy(settings),
        super::policy::binding(GUARD, &["Deny"], settings),
    ]
}

fn policy(settings: &Settings) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(GUARD, settings),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [{
                    "apiGroups": ["admissionregistration.k8s.io"],
                    "apiVersions": ["v1"],
                    "operations": ["UPDATE", "DELETE"],
                    "resources": [
                        "mutatingwebhookconfigurations",
                        "validatingwebhookconfigurations",
                    ],
                    "scope": "Cluster",
                }],
            },
            "matchConditions": conditions(settings),
            "variables": [{"name": "glassIsBroken", "expression": glass_is_broken()}],
            "validations": [{
                "expression": "variables.glassIsBroken",
                "message": format!("it takes the annotation {BREAK_GLASS} with who and why"),
                "messageExpression": message(),
                "reason": "Forbidden",
            }],
            // Whoever broke the glass, the audit log says so.
            "auditAnnotations": [{"key": "break-glass", "valueExpression": who_and_why()}],
        },
    })
}

/// Which changes it looks at.
fn conditions(settings: &Settings) -> Value {
    let names = [CONFIGURATION, MIRROR].map(str::to_owned);
    let mut passing = vec![COLLECTOR.to_owned()];
    passing.extend(settings.writers.iter().cloned());
    let passing = cel::texts(&passing);
    json!([
        {"name": "ours", "expression": format!("oldObject.metadata.name in {}", cel::texts(&names))},
        {"name": "somebody-else", "expression": format!("!(request.userInfo.username in {passing})")},
        {
            // Labels and annotations are free for all; the owner is what removes it in the end.
            "name": "more-than-labels-and-annotations",
            "expression": "request.operation == 'DELETE' || object.?webhooks != oldObject.?webhooks || \
                object.metadata.?ownerReferences != oldObject.metadata.?ownerReferences",
        },
    ])
}

/// The annotation with two words at least: who, and why.
fn glass_is_broken() -> String {
    let says = format!(
        ".metadata.?annotations[?{}].orValue('').matches('[^ ].* .*[^ ]')",
        cel::text(BREAK_GLASS)
    );
    format!("oldObject{says} || (request.operation == 'UPDATE' && object{says})")
}

fn message() -> String {
    let says = cel::text(&format!(
        " would let pods start without their sidecar, so that it takes the annotation {BREAK_GLASS} on it \
         with who and why, for example: kubectl annotate "
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
