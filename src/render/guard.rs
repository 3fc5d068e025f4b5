//! The guard: a policy in the API server against accidents with the registration.
//!
//! A fence, not a wall: policies and bindings are exempt from admission themselves, and whoever
//! may write the annotation gets through. RBAC is the wall.

use serde_json::{Value, json};

use super::cel;
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
    let mut passing = vec![COLLECTOR.to_owned()];
    passing.extend(settings.writers.iter().cloned());
    let names = [CONFIGURATION, MIRROR].map(str::to_owned);
    let glass = format!(
        ".metadata.?annotations[?{}].orValue('').matches('[^ ].* .*[^ ]')",
        cel::text(BREAK_GLASS)
    );
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
            "matchConditions": [
                {
                    "name": "ours",
                    "expression": format!("oldObject.metadata.name in {}", cel::texts(&names)),
                },
                {
                    "name": "somebody-else",
                    "expression": format!("!(request.userInfo.username in {})", cel::texts(&passing)),
                },
                {
                    // Metadata is free for all; only the owner is what removes it in the end.
                    "name": "more-than-labels-and-annotations",
                    "expression": "request.operation == 'DELETE' || \
                        object.?webhooks != oldObject.?webhooks || \
                        object.metadata.?ownerReferences != oldObject.metadata.?ownerReferences",
                },
            ],
            "variables": [{
                "name": "glassIsBroken",
                "expression": format!(
                    "oldObject{glass} || (request.operation == 'UPDATE' && object{glass})"
                ),
            }],
            "validations": [{
                "expression": "variables.glassIsBroken",
                "reason": "Forbidden",
                "messageExpression": format!(
                    "'{{}} of {{}} would let pods start without their sidecar, so that it takes the \
                     annotation {BREAK_GLASS} on it with who and why, for example: kubectl annotate {{}} {{}} \
                     {BREAK_GLASS}=\"jane: the mesh is being replaced\"'.replace('{{}}', request.operation, 1)\
                     .replace('{{}}', oldObject.metadata.name, 1)\
                     .replace('{{}}', request.resource.resource, 1)\
                     .replace('{{}}', oldObject.metadata.name, 1)"
                ),
            }],
            // Whoever broke the glass, the audit log says so.
            "auditAnnotations": [{
                "key": "break-glass",
                "valueExpression": format!(
                    "object != null && {key} in object.metadata.?annotations.orValue({{}}) ? \
                     string(object.metadata.annotations[{key}]) : \
                     string(oldObject.metadata.?annotations[?{key}].orValue(''))",
                    key = cel::text(BREAK_GLASS)
                ),
            }],
        },
    })
}
