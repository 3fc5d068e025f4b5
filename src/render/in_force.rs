//! The proof that policies are in force: a policy of our own that refuses one dry run of ours.
//!
//! API servers take up policies and bindings from caches: what was written is not what refuses
//! anything, for a second or so. They take up all changes of a kind in the order in which they were
//! written. So one more policy is written, after all others, and its refusal carries a *proof*: a
//! hash of what the others were then. An API server that refuses with the right proof has all of
//! them. Nothing but a ConfigMap with [`LABEL`] in meshgate's own namespace meets it.

use serde_json::{Value, json};

use super::webhooks::{NAMESPACE_NAME, rule};
use super::{Settings, metadata};

/// Name of the policy and of its binding.
pub const NAME: &str = "in-force.meshgate.io";

/// Label of the ConfigMap that the policy refuses.
pub const LABEL: &str = "meshgate.io/in-force";

/// Annotation of the policy with the proof.
const PROOF: &str = "meshgate.io/proof";

/// The policy and its binding, with nothing to prove yet.
pub fn objects(settings: &Settings) -> Vec<Value> {
    let mut policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(NAME, settings),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: settings.namespace}},
                "objectSelector": {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]},
                "resourceRules": [rule("configmaps")],
            },
        },
    });
    prove(&mut policy, "nothing");
    vec![policy, super::policy::binding(NAME, &["Deny"], settings)]
}

/// Has the policy refuse with this proof.
pub fn prove(policy: &mut Value, proof: &str) {
    policy["metadata"]["annotations"][PROOF] = json!(proof);
    policy["spec"]["validations"] = json!([{
        "expression": "false",
        "message": refusal(proof),
        "reason": "Forbidden",
    }]);
}

/// What it refuses with.
pub fn refusal(proof: &str) -> String {
    format!("in force: {proof}")
}
