//! The fields of webhook configurations and bindings that break-glass reads and changes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::names::{ENTRIES, REACH_ENTRY, REQUIRED};

/// Name of the condition that suspends an entry.
pub const CONDITION: &str = "break-glass";

/// A webhook configuration or a binding.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Object {
    metadata: Metadata,
    pub(super) webhooks: Vec<Entry>,
    pub(super) spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: Value,
    annotations: Map<String, Value>,
}

/// Of a binding.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) validation_actions: Vec<String>,
}

/// An entry of a webhook configuration.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    match_conditions: Vec<Condition>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
struct Condition {
    name: String,
    expression: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Object {
    /// `None` for an object that no API server would store.
    pub(super) fn read(object: &Value) -> Option<Self> {
        Self::deserialize(object).ok()
    }

    pub(super) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key)?.as_str()
    }

    /// A merge patch that holds only for the version that was seen.
    pub(super) fn patch(&self, annotations: &Value) -> Value {
        json!({"metadata": {
            "resourceVersion": self.metadata.resource_version,
            "annotations": annotations,
        }})
    }
}

impl Entry {
    pub(super) fn read(entry: &Value) -> Option<Self> {
        Self::deserialize(entry).ok()
    }

    /// Whether it asks meshgate about pods or namespaces. The entry that proves that the API server
    /// reaches meshgate is none: only meshgate meets it.
    pub(super) fn is_ours(&self) -> bool {
        self.name.ends_with(ENTRIES) && self.name != REACH_ENTRY
    }

    pub(super) fn is_off(&self) -> bool {
        self.match_conditions.iter().any(Condition::is_added)
    }

    /// The condition that says which pods it asks about.
    pub(super) fn required(&self) -> &str {
        let mut conditions = self.match_conditions.iter();
        let found = conditions.find(|one| one.name == REQUIRED);
        found.map_or("", |one| &one.expression)
    }

    /// Has the entry ask only where this holds.
    pub(super) fn restrict(&mut self, expression: &str) {
        let expression = expression.to_owned();
        match self.match_conditions.iter_mut().find(|one| one.is_added()) {
            Some(own) => own.expression = expression,
            None => self.match_conditions.push(Condition {
                name: CONDITION.to_owned(),
                expression,
                rest: Map::new(),
            }),
        }
    }

    /// Takes the restriction away.
    pub(super) fn restore(&mut self) {
        self.match_conditions.retain(|one| !one.is_added());
    }
}

impl Condition {
    fn is_added(&self) -> bool {
        self.name == CONDITION
    }
}
