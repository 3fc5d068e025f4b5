//! What has to change on one namespace. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use meshgate_core::injector::Injectors;
use meshgate_core::render::mirror::{self, Change};

/// How far the labels of a namespace are put right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Wanted labels are added. The others may be what entries of another configuration select by,
    /// which are in force until those of this one are.
    Added,
    /// The others are removed as well.
    Exact,
}

/// The changes after which the labels of a namespace agree with its annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Labelling {
    /// The version that was seen: the changes hold for no other.
    version: Option<String>,
    changes: Vec<Change>,
}

impl Labelling {
    /// `None` if there is nothing to do.
    pub(super) fn of(seen: &ObjectMeta, injectors: &Injectors, extent: Extent) -> Option<Self> {
        if seen.deletion_timestamp.is_some() {
            return None;
        }
        let annotations = seen.annotations.as_ref();
        let annotation = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        let labels = seen.labels.iter().flatten().map(|(key, _)| key.as_str());
        let name = seen.name.as_deref().unwrap_or_default();
        let mut changes = mirror::changes(injectors, name, labels, annotation);
        changes.retain(|change| change.add || extent == Extent::Exact);
        let version = seen.resource_version.clone();
        (!changes.is_empty()).then_some(Self { version, changes })
    }

    /// Whether a label is added.
    pub(super) fn adds(&self) -> bool {
        self.changes.iter().any(|change| change.add)
    }

    /// As a merge patch.
    pub(super) fn patch(&self) -> Value {
        let value = |add| if add { json!("") } else { Value::Null };
        let changes = self.changes.iter();
        let labels: BTreeMap<&str, Value> = changes
            .map(|change| (change.label.as_str(), value(change.add)))
            .collect();
        json!({"metadata": {"resourceVersion": self.version, "labels": labels}})
    }
}
