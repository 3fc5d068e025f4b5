//! Putting back exactly what was there.

use serde_json::{Value, json};

use super::{ANNOTATION, BEFORE, is_added, is_off, patch_of};

/// The merge patch that closes the glass of a webhook configuration or a binding; `None` if there is
/// nothing of ours to close. What a person has changed by hand stays as they left it.
pub fn close(object: &Value) -> Option<Value> {
    let annotations = &object["metadata"]["annotations"];
    let mut entries = object["webhooks"].as_array().cloned().unwrap_or_default();
    let is_changed = entries.iter().any(is_off);
    let before = before(&annotations[BEFORE]);
    if annotations[ANNOTATION].is_null() && annotations[BEFORE].is_null() && !is_changed {
        return None;
    }
    let mut patch = patch_of(object, &json!({ANNOTATION: null, BEFORE: null}));
    if is_changed {
        entries.iter_mut().for_each(switch_on);
        patch["webhooks"] = Value::Array(entries);
    }
    if let Some(before) = before {
        patch["spec"] = json!({"validationActions": before});
    }
    Some(patch)
}

/// What a binding did before, if it can be read.
fn before(note: &Value) -> Option<Value> {
    let actions: Value = serde_json::from_str(note.as_str()?).ok()?;
    let is_list = |list: &Vec<Value>| !list.is_empty() && list.iter().all(Value::is_string);
    actions.as_array().is_some_and(is_list).then_some(actions)
}

fn switch_on(entry: &mut Value) {
    let conditions = entry.get_mut("matchConditions");
    let Some(conditions) = conditions.and_then(Value::as_array_mut) else {
        return;
    };
    let count = conditions.len();
    conditions.retain(|one| !is_added(one));
    let is_empty = conditions.is_empty() && count > 0;
    if let Some(entry) = entry.as_object_mut().filter(|_| is_empty) {
        entry.remove("matchConditions");
    }
}
