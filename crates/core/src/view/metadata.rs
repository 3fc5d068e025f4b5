//! `MetadataView`: the labels and annotations of an object that is no pod, borrowed from the
//! request's bytes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::injector::rule::Place;

use super::json::{EachText, Object, RawText, Text, read};

/// Most labels of meshgate's that one answer repairs. The controller repairs the others.
const MOST_LABELS: usize = 64;

/// What is read of a Namespace, or of any object of which only the metadata counts.
#[derive(Debug, Clone)]
pub struct MetadataView<'a>(Metadata<'a>);

#[derive(Debug, Clone, Deserialize)]
struct Outer<'a> {
    #[serde(borrow)]
    metadata: Object<Metadata<'a>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    namespace: Option<Text<'a>>,
    #[serde(borrow, default)]
    creation_timestamp: Option<&'a RawValue>,
    #[serde(borrow, default)]
    managed_fields: Option<&'a RawValue>,
    #[serde(borrow, default)]
    labels: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<&'a RawValue>,
}

/// An entry of `managedFields`: what a client owns of the metadata, and when it last changed something.
#[derive(Deserialize)]
struct Managed<'a> {
    #[serde(borrow, default)]
    time: Option<&'a RawValue>,
    #[serde(default, rename = "fieldsV1")]
    fields: Fields,
}

#[derive(Default, Deserialize)]
struct Fields {
    #[serde(default, rename = "f:metadata")]
    metadata: Owned,
}

#[derive(Default, Deserialize)]
struct Owned {
    #[serde(default, rename = "f:labels")]
    labels: BTreeMap<String, IgnoredAny>,
    #[serde(default, rename = "f:annotations")]
    annotations: BTreeMap<String, IgnoredAny>,
}

fn time(raw: &RawValue) -> Option<Timestamp> {
    let text: Text<'_> = serde_json::from_str(raw.get()).ok()?;
    text.parse().ok()
}

impl<'a> MetadataView<'a> {
    /// Reads an object from its JSON.
    ///
    /// # Errors
    /// `metadata` is missing or null (no patch would apply to it), or labels or annotations are
    /// no maps of texts.
    pub fn read(json: &'a str) -> Result<Self, serde_json::Error> {
        let Object(Outer { metadata }) = serde_json::from_str(json)?;
        each(metadata.0.labels, |_, _| ())?;
        each(metadata.0.annotations, |_, _| ())?;
        Ok(Self(metadata.0))
    }

    /// Its name; empty if it is still to be made up.
    pub fn name(&self) -> &str {
        self.0.name.as_deref().unwrap_or_default()
    }

    /// Its namespace; empty if the text names none.
    pub fn namespace(&self) -> &str {
        self.0.namespace.as_deref().unwrap_or_default()
    }

    /// When it was created, if the text says so.
    pub fn created(&self) -> Option<Timestamp> {
        time(self.0.creation_timestamp?)
    }

    /// Hands over each label and annotation with a time at which it was there, by `managedFields`. A client
    /// that writes several fields has one time for all, that of its last change.
    pub fn each_written(&self, mut each: impl FnMut(Place, &str, Timestamp)) {
        let managed = self.0.managed_fields.map(RawValue::get).unwrap_or("null");
        let managed: Option<Vec<Managed<'_>>> = serde_json::from_str(managed).unwrap_or_default();
        for one in managed.into_iter().flatten() {
            let Some(at) = one.time.and_then(time) else {
                continue;
            };
            let Owned {
                labels,
                annotations,
            } = one.fields.metadata;
            let labels = labels.keys().map(|key| (Place::NamespaceLabel, key));
            let annotations = annotations
                .keys()
                .map(|key| (Place::NamespaceAnnotation, key));
            for (place, key) in labels.chain(annotations) {
                if let Some(key) = key.strip_prefix("f:") {
                    each(place, key, at);
                }
            }
        }
    }

    /// Whether it carries a label, whatever its value.
    pub fn has_label(&self, key: &str) -> bool {
        !self.labels(|own| own == key).is_empty()
    }

    /// The keys of its labels that are asked for, the first few.
    pub fn labels(&self, is_read: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        // All of it was read before.
        drop(each(self.0.labels, |key, _| {
            if found.len() < MOST_LABELS && is_read(key) {
                found.insert(key.to_owned());
            }
        }));
        found
    }

    /// Those of its annotations whose keys are read; a value that is no text counts as empty.
    pub fn annotations(&self, is_read: impl Fn(&str) -> bool) -> BTreeMap<String, Cow<'a, str>> {
        let mut found = BTreeMap::new();
        drop(each(self.0.annotations, |key, value| {
            if is_read(key) {
                found.insert(key.to_owned(), value.decode().unwrap_or_default());
            }
        }));
        found
    }

    /// True once a client has asked for its deletion.
    pub fn is_being_deleted(&self) -> bool {
        let at = self.0.deletion_timestamp;
        at.is_some_and(|raw| raw.get() != "null")
    }

    /// The JSON Patch (RFC 6902) after which the object carries each of these labels, with the
    /// empty text, exactly if it is wanted; `None` if the labels are right (cases 4, 5 and 22).
    pub fn labels_patch<S: AsRef<str>>(&self, labels: &[(S, bool)]) -> Option<String> {
        let differs = |(label, wanted): &&(S, bool)| self.has_label(label.as_ref()) != *wanted;
        let edits: Vec<_> = labels.iter().filter(differs).collect();
        if edits.is_empty() {
            return None;
        }
        if self.0.labels.is_none() {
            // All of them are to be added: none is there.
            let map: BTreeMap<&str, &str> = edits.iter().map(|one| (one.0.as_ref(), "")).collect();
            let patch = json!([{"op": "add", "path": "/metadata/labels", "value": map}]);
            return Some(patch.to_string());
        }
        let operation = |(label, wanted): &&(S, bool)| {
            let path = format!("/metadata/labels/{}", escaped(label.as_ref()));
            if *wanted {
                json!({"op": "add", "path": path, "value": ""})
            } else {
                json!({"op": "remove", "path": path})
            }
        };
        Some(edits.iter().map(operation).collect::<Value>().to_string())
    }

    /// The JSON Patch that sets an annotation. Neither key nor value may need escapes in JSON.
    pub fn annotation_patch(&self, key: &str, value: &str) -> String {
        if self.0.annotations.is_some() {
            let path = format!("/metadata/annotations/{}", escaped(key));
            return format!(r#"[{{"op":"add","path":"{path}","value":"{value}"}}]"#);
        }
        format!(r#"[{{"op":"add","path":"/metadata/annotations","value":{{"{key}":"{value}"}}}}]"#)
    }
}

/// Hands over the entries of a map of texts.
fn each<'a>(
    map: Option<&'a RawValue>,
    mut entry: impl FnMut(&str, RawText<'a>),
) -> Result<(), serde_json::Error> {
    let Some(map) = map else { return Ok(()) };
    let mut each = EachText::new(|key: &str, value| {
        entry(key, value);
        Ok(())
    });
    read(map.get(), &mut each).map(drop)
}

/// A key in a JSON Pointer: `~` is `~0` first, then `/` is `~1` (case 5).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;
