//! What there is to remove, and in which order. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::controllers::kind::{Id, Kind};
use crate::render::{CONFIGURATION, GUARD, MIRROR, OWNER, mirror};

/// Objects of these names are ours, whatever became of their labels.
pub fn well_known() -> Vec<Id> {
    let of = |name: &str, kinds: &[Kind]| -> Vec<Id> {
        let id = |kind: &Kind| Id {
            kind: *kind,
            name: name.to_owned(),
        };
        kinds.iter().map(id).collect()
    };
    let validating = [Kind::ValidatingPolicy, Kind::ValidatingPolicyBinding];
    [
        of(
            CONFIGURATION,
            &[Kind::MutatingWebhooks, Kind::ValidatingWebhooks],
        ),
        of(GUARD, &validating),
        of(
            MIRROR,
            &[
                Kind::MutatingWebhooks,
                Kind::MutatingPolicy,
                Kind::MutatingPolicyBinding,
            ],
        ),
        of(OWNER, &[Kind::ClusterRole]),
    ]
    .concat()
}

/// The merge patch that takes our labels off a namespace; `None` if it has none.
pub fn unlabel(labels: &BTreeMap<String, String>) -> Option<Value> {
    let ours = labels
        .keys()
        .filter(|key| key.starts_with(mirror::LABEL_PREFIX));
    let nulls: BTreeMap<&String, Value> = ours.map(|key| (key, Value::Null)).collect();
    (!nulls.is_empty()).then(|| json!({"metadata": {"labels": nulls}}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::kind::in_order;

    #[test]
    fn webhooks_go_first_and_the_owner_last() {
        let mut ids = well_known();
        ids.reverse();
        let kinds: Vec<Kind> = in_order(ids).iter().map(|id| id.kind).collect();
        assert!(kinds[0].is_webhooks() && kinds[2].is_webhooks() && !kinds[3].is_webhooks());
        assert_eq!(kinds.last(), Some(&Kind::ClusterRole));
        let position = |kind| kinds.iter().position(|one| *one == kind).unwrap();
        assert!(position(Kind::ValidatingPolicyBinding) < position(Kind::ValidatingPolicy));
        assert!(position(Kind::MutatingPolicyBinding) < position(Kind::MutatingPolicy));
    }

    #[test]
    fn only_our_labels_go() {
        let labels = |keys: &[&str]| -> BTreeMap<String, String> {
            keys.iter()
                .map(|key| ((*key).to_owned(), String::new()))
                .collect()
        };
        let ours = "meshgate.io/requires.old";
        assert_eq!(
            unlabel(&labels(&["a", ours])),
            Some(json!({"metadata": {"labels": {ours: null}}}))
        );
        assert_eq!(unlabel(&labels(&["a", "meshgate.io/other"])), None);
    }
}
