//! Proofs that API servers use what meshgate has written.
//!
//! API servers read webhook configurations and policies from caches: for a second or so, what is written
//! is not yet in force. So the leader asks for a server-side dry run of a ConfigMap whose label one
//! object of meshgate's matches, and that object puts a *proof* into the answer. The proof is a hash of
//! what is to be proved, so that an API server with an older cache gives an older proof. No secret is in
//! it: TLS keeps others from answering.
//!
//! | what | who answers | what the proof is made of |
//! | --- | --- | --- |
//! | [`Subject::Reach`] | any replica, by an annotation: the API server calls it by a path that ends in the proof | address and CA bundle of the entry |
//! | [`Subject::Check`] | a validating policy that is written after all others: its refusal holds the proof | the policies of the check |
//! | [`Subject::Mirror`] | a mutating policy that is written after the mirror, by an annotation | the mirror |
//!
//! API servers take up all changes of a kind in the order in which they were written. So one that uses the
//! last policy uses all before it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::names::{CHECK_PROOF, MIRROR_PROOF, NAMESPACE_NAME, REACH_ENTRY, path};

use super::object::{self, client_config};
use super::{FailurePolicy, Settings};

/// Annotation with the proof: of the policies that prove, and in answers of the mirror's.
pub const PROOF: &str = "meshgate.io/proof";

/// Annotation with the proof in the answer of a replica.
pub const REACHED: &str = "meshgate.io/reached";

/// Longest proof that a replica repeats, in bytes.
const MAX_PROOF: usize = 64;

/// What an API server proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// It uses the policies of the check as they are now.
    Check,
    /// It uses the mirror of namespaces' annotations as it is now, where that is a policy.
    Mirror,
    /// It reaches meshgate by the entries as they are now.
    Reach,
}

impl Subject {
    /// In the order in which they are declared.
    pub const ALL: [Self; 3] = [Self::Check, Self::Mirror, Self::Reach];

    /// Label of the ConfigMap in meshgate's own namespace that is asked for.
    pub fn label(self) -> &'static str {
        match self {
            Self::Reach => "meshgate.io/reach",
            Self::Check => "meshgate.io/in-force",
            Self::Mirror => "meshgate.io/mirror-in-force",
        }
    }

    /// Whether the answer to the dry run, annotations or an error, holds this proof.
    ///
    /// # Errors
    /// The error, if it says nothing about the proof.
    pub fn is_proved(
        self,
        answer: Result<BTreeMap<String, String>, String>,
        proof: &str,
    ) -> Result<bool, String> {
        let key = match (self, answer) {
            (Self::Check, Ok(_)) => return Ok(false),
            (Self::Check, Err(error)) if error.contains(CHECK_PROOF) => {
                return Ok(error.contains(&refusal(proof)));
            }
            (_, Err(error)) => return Err(error),
            (Self::Reach, Ok(annotations)) => annotations.get(REACHED).cloned(),
            (Self::Mirror, Ok(annotations)) => annotations.get(PROOF).cloned(),
        };
        Ok(key.as_deref() == Some(proof))
    }

    /// Matches the ConfigMap and nothing else.
    fn constraints(self, settings: &Settings) -> Value {
        let ours = json!({"matchLabels": {NAMESPACE_NAME: settings.namespace}});
        let mut constraints = object::constraints(ours, object::creates("configmaps"));
        let has_label = json!({"key": self.label(), "operator": "Exists"});
        constraints["objectSelector"] = json!({"matchExpressions": [has_label]});
        constraints
    }
}

/// The proof of [`Subject::Reach`] for a way to call meshgate.
pub fn of_reach(settings: &Settings) -> String {
    object::hash(&client_config(path::REACH, settings).to_string())
}

/// The proof that a called path carries.
pub fn in_path(path: &str) -> Option<&str> {
    let proof = path.strip_prefix(path::REACH)?.strip_prefix('/')?;
    let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = (1..=MAX_PROOF).contains(&proof.len()) && proof.bytes().all(is_fine);
    fits.then_some(proof)
}

/// The entry of [`Subject::Reach`]. It always fails closed, so that an API server that does not reach
/// meshgate says so.
pub(super) fn reach_entry(settings: &Settings) -> Value {
    let mut constraints = Subject::Reach.constraints(settings);
    let path = format!("{}/{}", path::REACH, of_reach(settings));
    let mut webhook = object::webhook(REACH_ENTRY, &path, FailurePolicy::Fail, settings);
    webhook["rules"] = constraints["resourceRules"].take();
    webhook["namespaceSelector"] = constraints["namespaceSelector"].take();
    webhook["objectSelector"] = constraints["objectSelector"].take();
    webhook["reinvocationPolicy"] = "Never".into();
    webhook
}

/// The policy of [`Subject::Check`] and its binding, with nothing to prove yet.
pub(super) fn of_check(settings: &Settings) -> [Value; 2] {
    let spec = json!({"matchConstraints": Subject::Check.constraints(settings)});
    let [mut policy, binding] = object::validating_policy(CHECK_PROOF, &["Deny"], spec, settings);
    refuse_with(&mut policy, "nothing");
    [policy, binding]
}

/// Has the policy of [`Subject::Check`] refuse with this proof.
pub fn refuse_with(policy: &mut Value, proof: &str) {
    policy["metadata"]["annotations"][PROOF] = proof.into();
    policy["spec"]["validations"] = json!([{
        "expression": "false",
        "message": refusal(proof),
        "reason": "Forbidden",
    }]);
}

/// The message of that policy.
pub fn refusal(proof: &str) -> String {
    format!("in force: {proof}")
}

/// The policy of [`Subject::Mirror`] and its binding, for a mirror of policies.
pub(super) fn of_mirror(mirror: &[Value], settings: &Settings) -> [Value; 2] {
    let specs = mirror.iter().map(|object| object["spec"].to_string());
    let proof = object::hash(&specs.collect::<Vec<_>>().join("\n"));
    let expression = format!(
        "[JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{'{PROOF}': '{proof}'}}}}]"
    );
    let spec = json!({
        "reinvocationPolicy": "Never",
        "matchConstraints": Subject::Mirror.constraints(settings),
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    });
    let [mut policy, binding] = object::mutating_policy(MIRROR_PROOF, spec, settings);
    policy["metadata"]["annotations"] = json!({ (PROOF): proof });
    [policy, binding]
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
