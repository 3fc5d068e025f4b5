use serde_json::json;

use super::*;
use meshgate_core::names::BREAK_GLASS;

/// Items of a list carry no kind.
#[test]
fn suspended_bindings_are_seen_and_what_is_damaged_hides_no_other() {
    let id = Id::new(Kind::ValidatingPolicyBinding, "linkerd.check.meshgate.io");
    let note = json!({BREAK_GLASS: "jane: x"});
    let item = json!({"metadata": {"name": id.name, "annotations": note}});
    let damaged = Id::new(Kind::MutatingWebhooks, CONFIGURATION);
    let webhooks = json!({"metadata": {"name": damaged.name}, "webhooks": 7});
    let seen = parsed(vec![(damaged, webhooks), (id.clone(), item)]);
    assert_eq!(seen.keys().collect::<Vec<_>>(), [&id]);
    assert_eq!(seen[&id].note.as_ref().unwrap().text, "jane: x");
}

#[test]
fn a_bundle_that_is_no_base64_is_named() {
    let id = Id::new(Kind::MutatingWebhooks, CONFIGURATION);
    let entry = json!({"name": "a", "clientConfig": {"caBundle": "?"}});
    let gate = json!({"metadata": {"name": CONFIGURATION}, "webhooks": [entry]});
    let why = trusted(&Ok(parsed(vec![(id, gate)]))).unwrap_err();
    let why = format!("{why:#}");
    assert!(
        why.starts_with("the registered caBundle is no base64: "),
        "{why}"
    );
}
