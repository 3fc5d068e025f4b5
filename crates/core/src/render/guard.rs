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

/// Whether the text of the annotation breaks the glass: two words at least, who and why. A word ends
/// with ASCII white space, as in the expression of the guard.
pub fn is_broken(note: &str) -> bool {
    note.split_ascii_whitespace().nth(1).is_some()
}

/// [`is_broken`] as CEL, of the object as it was or as it is to be.
fn glass_is_broken() -> String {
    let says = format!(
        ".metadata.?annotations[?{}].orValue('').matches('\\\\S\\\\s+\\\\S')",
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

#[cfg(test)]
mod tests {
    use super::is_broken;

    /// The same texts are put to the guard of an API server (`registration::keeping`).
    #[test]
    fn glass_is_broken_by_two_words() {
        for (note, expected) in [
            ("", false),
            (" ", false),
            ("x", false),
            (" x ", false),
            ("x\u{a0}y", false),
            ("x y", true),
            ("x\ty", true),
            ("x\ny", true),
            ("jane: the mesh is being replaced", true),
        ] {
            assert_eq!(is_broken(note), expected, "{note:?}");
        }
    }
}
