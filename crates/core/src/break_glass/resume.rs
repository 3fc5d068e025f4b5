//! Restoring exactly what was there.

use serde_json::{Value, json};

use super::ANNOTATION;
use super::object::{Entry, Object};
use super::suspend::BEFORE;

/// The merge patch that restores a webhook configuration or a binding; `None` if meshgate has changed
/// nothing on it. Fields that an administrator has changed by hand stay as they are.
pub fn resume(object: &Value) -> Option<Value> {
    let mut seen = Object::read(object)?;
    let is_changed = seen.webhooks.iter().any(Entry::is_off);
    let before = seen.annotation(BEFORE);
    if seen.annotation(ANNOTATION).is_none() && before.is_none() && !is_changed {
        return None;
    }
    let mut patch = seen.patch(&json!({ANNOTATION: null, BEFORE: null}));
    let actions = before.and_then(|text| serde_json::from_str::<Vec<String>>(text).ok());
    if let Some(actions) = actions.filter(|actions| !actions.is_empty()) {
        patch["spec"] = json!({"validationActions": actions});
    }
    if is_changed {
        seen.webhooks.iter_mut().for_each(Entry::restore);
        patch["webhooks"] = json!(seen.webhooks);
    }
    Some(patch)
}
