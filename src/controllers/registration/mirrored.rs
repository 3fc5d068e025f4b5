//! The mirror as a policy, on its way to being in force. Pure.
//!
//! A namespace that is made before an API server has taken it up gets its labels by the controller of
//! `namespaces` alone, and a pod that is quicker is asked about by nobody: so nothing is called armed
//! before.

use serde_json::Value;

use crate::break_glass;
use crate::kube_api::kind::{Id, Kind};
use crate::render::{MIRROR, MIRROR_PROOF, proof};

use super::contains::contains;
use super::plan::Observed;

/// What proves the mirror that is wanted; `None` if it is no policy, or there is none.
pub(super) fn proof(wanted: &[Value]) -> Option<&str> {
    let is_proof = |id: &Id| id.kind == Kind::MutatingPolicy && id.name == MIRROR_PROOF;
    let mut wanted = wanted.iter();
    let object = wanted.find(|object| Id::of(object).is_some_and(|id| is_proof(&id)))?;
    proof::of_policy(object)
}

/// Whether the API server holds the mirror and what proves it as they are wanted. What is under broken
/// glass is as it is to be.
pub(super) fn is_written(observed: &Observed, wanted: &[Value]) -> bool {
    wanted.iter().all(|object| {
        let Some(id) = Id::of(object) else {
            return true;
        };
        if ![MIRROR, MIRROR_PROOF].contains(&id.name.as_str()) {
            return true;
        }
        let live = observed.objects.get(&id);
        live.is_some_and(|live| break_glass::of(live).is_some() || contains(live, object))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Id, Observed, is_written, proof};
    use crate::injector::Injectors;
    use crate::render::{BREAK_GLASS, Client, MirrorForm, Settings, mirror};

    fn wanted(form: MirrorForm, injectors: &str) -> Vec<Value> {
        let config = format!(
            "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors: {injectors}\n"
        );
        let injectors = Injectors::from_yaml("test", config.as_bytes()).unwrap();
        let mut settings = Settings::new(Client::Url("https://a".to_owned()), "meshgate-system");
        settings.mirror = form;
        mirror::objects(&injectors, &settings)
    }

    #[test]
    fn only_a_mirror_that_is_a_policy_has_to_be_proved() {
        let linkerd = wanted(MirrorForm::Policy, "[{preset: linkerd}]");
        let both = wanted(MirrorForm::Policy, "[{preset: linkerd}, {preset: dapr}]");
        assert!(proof(&linkerd).is_some());
        assert_eq!(proof(&both), proof(&linkerd), "it mirrors the same");
        assert_eq!(
            proof(&wanted(MirrorForm::Webhook, "[{preset: linkerd}]")),
            None
        );
        assert_eq!(proof(&[]), None);
        assert!(is_written(&Observed::default(), &[]));
    }

    #[test]
    fn it_is_written_once_all_of_it_is_there_as_wanted() {
        let wanted = wanted(MirrorForm::Policy, "[{preset: linkerd}]");
        let mut observed = Observed::default();
        for object in &wanted {
            assert!(!is_written(&observed, &wanted));
            observed
                .objects
                .insert(Id::of(object).unwrap(), object.clone());
        }
        assert!(is_written(&observed, &wanted));
        for object in &wanted {
            let id = Id::of(object).unwrap();
            let mut changed = object.clone();
            changed["spec"] = json!({});
            observed.objects.insert(id.clone(), changed.clone());
            assert!(!is_written(&observed, &wanted), "{id}");
            changed["metadata"]["annotations"] = json!({ (BREAK_GLASS): "jane tries something" });
            observed.objects.insert(id.clone(), changed);
            assert!(is_written(&observed, &wanted), "{id} is under glass");
            observed.objects.insert(id, object.clone());
        }
    }
}
