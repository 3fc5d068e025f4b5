//! The check as policies, on their way to being in force. Pure.
//!
//! What webhooks refuse is given up only once policies refuse it: written, and seen by a proof (see
//! `render::proof`) that an API server has taken up all of them as they are now.

use serde_json::{Value, json};

use crate::break_glass;
use crate::kube_api::kind::{Id, Kind};
use crate::render::{self, CHECK_PROOF, CONFIGURATION, GUARD, POLICIES, proof};

use super::contains::contains;
use super::entries;
use super::plan::Observed;

/// Whether policies are to make the guarantee.
pub(super) fn are_wanted(wanted: &[Value]) -> bool {
    wanted.iter().any(is_proof)
}

/// Whether this is the policy by which the others are proved.
pub(super) fn is_proof(object: &Value) -> bool {
    let is_policy = object["kind"] == Kind::ValidatingPolicy.names().kind;
    is_policy && object["metadata"]["name"] == CHECK_PROOF
}

/// Whether this is a policy or a binding that is the check of an injector.
pub(super) fn is_check(id: &Id) -> bool {
    let is_kind = matches!(
        id.kind,
        Kind::ValidatingPolicy | Kind::ValidatingPolicyBinding
    );
    is_kind && id.name.ends_with(POLICIES)
}

/// What proves that all policies that are wanted are in force as they are now; `None` while one
/// of them is not written, or not as it is wanted. One under broken glass is as it is to be.
pub(super) fn proof(observed: &Observed, wanted: &[Value]) -> Option<String> {
    let mut facts = Vec::new();
    for object in wanted {
        let Some(id) = Id::of(object).filter(is_check) else {
            continue;
        };
        let live = observed.objects.get(&id)?;
        if break_glass::of(live).is_none() && !contains(live, object) {
            return None;
        }
        let metadata = &live["metadata"];
        facts.push(json!([id.to_string(), metadata["uid"], metadata["generation"]]).to_string());
    }
    Some(render::hash(&facts.join("\n")))
}

/// Whether the API server holds the policy that proves this, and its binding.
pub(super) fn is_written(observed: &Observed, proof: &str) -> bool {
    let live = |kind| {
        let name = CHECK_PROOF.to_owned();
        observed.objects.get(&Id { kind, name })
    };
    let mut wanted = json!({});
    proof::refuse_with(&mut wanted, proof);
    let policy = live(Kind::ValidatingPolicy);
    policy.is_some_and(|policy| contains(policy, &wanted))
        && live(Kind::ValidatingPolicyBinding).is_some()
}

/// Whether webhooks refuse pods now, whatever they were written for.
pub(super) fn are_webhooks_armed(observed: &Observed) -> bool {
    let for_pods = |id: &Id| id.kind.is_webhooks() && id.name == CONFIGURATION;
    let mut live = observed.objects.iter().filter(|(id, _)| for_pods(id));
    live.any(|(_, live)| entries::is_any_armed(live))
}

/// Whether an object is written before the webhooks are given up.
pub(super) fn come_first(id: &Id) -> bool {
    let is_guard = id.name == GUARD || id.name == CHECK_PROOF;
    id.kind == Kind::ClusterRole || is_check(id) || is_guard
}

/// Whether a binding is not to be made, as somebody has switched off just that for now.
pub(super) fn is_under_glass(id: &Id, observed: &Observed) -> bool {
    let gate = Id {
        kind: Kind::MutatingWebhooks,
        name: CONFIGURATION.to_owned(),
    };
    let note = observed.objects.get(&gate).and_then(break_glass::of);
    let injector = id.name.strip_suffix(POLICIES);
    let is_binding = id.kind == Kind::ValidatingPolicyBinding;
    let open = note.filter(|note| is_binding && note.until.is_some());
    open.is_some_and(|note| injector.is_some_and(|injector| note.is_about(injector)))
}
