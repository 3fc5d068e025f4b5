//! The proof that policies are in force: a policy of our own that refuses one dry run of ours.
//!
//! API servers take up policies and bindings from caches: what was written is not what refuses
//! anything, for a second or so. They take up all changes of a kind in the order in which they were
//! written. So one more policy is written, after all others, and its refusal carries a *proof*: a
//! hash of what the others were then. An API server that refuses with the right proof has all of
//! them. Nothing but a ConfigMap with [`LABEL`] in meshgate's own namespace meets it.
//!
//! The [`mirror`](super::mirror) as a policy is proved alike: one more mutating policy is written after
//! it, and writes the proof into the answer to a dry run of a ConfigMap with [`MIRROR_LABEL`].

use serde_json::{Value, json};

use super::webhooks::{NAMESPACE_NAME, rule};
use super::{Settings, metadata};

/// Name of the policy and of its binding.
pub const NAME: &str = "in-force.meshgate.io";

/// Label of the ConfigMap that the policy refuses.
pub const LABEL: &str = "meshgate.io/in-force";

/// Name of the policy that proves the mirror, and of its binding.
pub const MIRROR_NAME: &str = "in-force.namespaces.meshgate.io";

/// Label of the ConfigMap into which it writes its proof.
pub const MIRROR_LABEL: &str = "meshgate.io/mirror-in-force";

/// Annotation with the proof: of the policies, and of what the mirror's has written it into.
pub const PROOF: &str = "meshgate.io/proof";

/// The policy and its binding, with nothing to prove yet.
pub fn objects(settings: &Settings) -> Vec<Value> {
    let mut policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(NAME, settings),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": own_config_map(LABEL, settings),
        },
    });
    prove(&mut policy, "nothing");
    vec![policy, super::policy::binding(NAME, &["Deny"], settings)]
}

/// What proves that this mirror is in force, if it is one of policies: to be written after it.
pub(super) fn of_mirror(mirror: &[Value], settings: &Settings) -> Vec<Value> {
    let text: Vec<String> = mirror
        .iter()
        .map(|object| object["spec"].to_string())
        .collect();
    let proof = super::hash(&text.join("\n"));
    let mut metadata = metadata(MIRROR_NAME, settings);
    metadata["annotations"] = json!({ (PROOF): proof });
    let expression = format!(
        "[JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{'{PROOF}': '{proof}'}}}}]"
    );
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": own_config_map(MIRROR_LABEL, settings),
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        },
    });
    vec![policy, super::mirror::binding(MIRROR_NAME, settings)]
}

/// ConfigMaps in our own namespace with a label, and nothing else.
fn own_config_map(label: &str, settings: &Settings) -> Value {
    json!({
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: settings.namespace}},
        "objectSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
        "resourceRules": [rule("configmaps")],
    })
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
