//! The fields of webhook configurations and bindings that break-glass reads and changes.
//!
//! Objects stay JSON values, so that a patch repeats each entry as the API server stores it, with the
//! fields of later versions.

use serde_json::{Value, json};

use crate::names::{REQUIRED, asks_meshgate};

/// Name of the condition that suspends an entry.
pub const CONDITION: &str = "break-glass";

pub(super) fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["annotations"][key].as_str()
}

/// A merge patch that holds only for the version that was seen.
pub(super) fn patch(object: &Value, annotations: &Value) -> Value {
    json!({"metadata": {
        "resourceVersion": object["metadata"]["resourceVersion"],
        "annotations": annotations,
    }})
}

/// The name of an entry that asks meshgate.
pub(super) fn our_name(entry: &Value) -> Option<&str> {
    entry["name"].as_str().filter(|name| asks_meshgate(name))
}

/// Whether an entry of a webhook configuration is suspended, as a whole or in part.
pub(super) fn is_off(entry: &Value) -> bool {
    condition(entry, CONDITION).is_some()
}

/// The expression that says which pods an entry asks about.
pub(super) fn required(entry: &Value) -> &str {
    let condition = condition(entry, REQUIRED);
    condition.map_or("", |one| one["expression"].as_str().unwrap_or_default())
}

fn condition<'e>(entry: &'e Value, name: &str) -> Option<&'e Value> {
    let conditions = entry["matchConditions"].as_array()?;
    conditions.iter().find(|one| one["name"] == name)
}

/// Has an entry ask only where this holds.
pub(super) fn restrict(entry: &mut Value, expression: &str) {
    restore(entry);
    let condition = json!({"name": CONDITION, "expression": expression});
    match entry["matchConditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => entry["matchConditions"] = json!([condition]),
    }
}

/// Takes that restriction away. An entry that had no condition before has none again.
pub(super) fn restore(entry: &mut Value) {
    let conditions = entry
        .as_object_mut()
        .and_then(|entry| entry.remove("matchConditions"));
    if let Some(Value::Array(mut conditions)) = conditions {
        conditions.retain(|one| one["name"] != CONDITION);
        if !conditions.is_empty() {
            entry["matchConditions"] = conditions.into();
        }
    }
}
