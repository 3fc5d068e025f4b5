//! Restoring exactly what was there.

use serde_json::{Value, json};

use super::ANNOTATION;
use super::object::{self, annotation, is_off};
use super::suspend::BEFORE;

/// The merge patch that restores a webhook configuration or a binding; `None` if meshgate has changed
/// nothing on it. Fields that an administrator has changed by hand stay as they are.
pub fn resume(object: &Value) -> Option<Value> {
    let entries = object["webhooks"].as_array();
    let is_changed = entries.into_iter().flatten().any(is_off);
    let before = annotation(object, BEFORE);
    if annotation(object, ANNOTATION).is_none() && before.is_none() && !is_changed {
        return None;
    }
    let mut patch = object::patch(object, &json!({ANNOTATION: null, BEFORE: null}));
    let actions = before.and_then(|text| serde_json::from_str::<Vec<String>>(text).ok());
    if let Some(actions) = actions.filter(|actions| !actions.is_empty()) {
        patch["spec"] = json!({"validationActions": actions});
    }
    if is_changed {
        let mut entries = object["webhooks"].clone();
        let all = entries.as_array_mut().into_iter().flatten();
        all.for_each(object::restore);
        patch["webhooks"] = entries;
    }
    Some(patch)
}
