//! `MetadataView`: the labels and annotations of an object that is no pod, borrowed from the
//! request's bytes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::pod::{Entries, Object, Text};

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
    labels: Option<Entries<'a>>,
    #[serde(borrow, default)]
    annotations: Option<Entries<'a>>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<&'a RawValue>,
}

impl<'a> MetadataView<'a> {
    /// Reads an object from its JSON.
    ///
    /// # Errors
    /// `metadata` is missing or null (no patch would apply to it), or labels or annotations are
    /// no maps of texts.
    pub fn read(json: &'a str) -> Result<Self, serde_json::Error> {
        let Object(Outer { metadata }) = serde_json::from_str(json)?;
        Ok(Self(metadata.0))
    }

    /// Its name; empty if it is still to be made up.
    pub fn name(&self) -> &str {
        self.0.name.as_deref().unwrap_or_default()
    }

    /// Whether it carries a label, whatever its value.
    pub fn has_label(&self, key: &str) -> bool {
        self.labels().any(|own| own == key)
    }

    /// The keys of its labels.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let entries = self.0.labels.iter();
        entries.flat_map(|labels| labels.0.iter().map(|(key, _)| &**key))
    }

    /// Those of its annotations whose keys are read; a value that is no text counts as empty.
    pub fn annotations(&self, is_read: impl Fn(&str) -> bool) -> Vec<(&str, Cow<'a, str>)> {
        let entries = self.0.annotations.iter();
        let entries = entries.flat_map(|annotations| &annotations.0);
        let read = entries.filter(|(key, _)| is_read(key));
        read.map(|(key, value)| (&**key, value.decode().unwrap_or_default()))
            .collect()
    }

    /// True once its deletion has been asked for.
    pub fn is_being_deleted(&self) -> bool {
        let at = self.0.deletion_timestamp;
        at.is_some_and(|raw| raw.get() != "null")
    }

    /// The JSON Patch (RFC 6902) after which the object carries each of these labels, with the
    /// empty text, exactly if it is wanted; `None` if that is so already (cases 4, 5 and 22).
    pub fn labels_patch<S: AsRef<str>>(&self, labels: &[(S, bool)]) -> Option<String> {
        let differs = |(label, wanted): &&(S, bool)| self.has_label(label.as_ref()) != *wanted;
        let edits: Vec<_> = labels.iter().filter(differs).collect();
        if edits.is_empty() {
            return None;
        }
        if self.0.labels.is_none() {
            // All of them are to be added: none is there.
            let pairs = edits
                .iter()
                .map(|(label, _)| format!(r#""{}":"""#, label.as_ref()));
            let map = pairs.collect::<Vec<_>>().join(",");
            return Some(format!(
                r#"[{{"op":"add","path":"/metadata/labels","value":{{{map}}}}}]"#
            ));
        }
        let operation = |(label, wanted): &&(S, bool)| {
            let key = escaped(label.as_ref());
            match wanted {
                true => format!(r#"{{"op":"add","path":"/metadata/labels/{key}","value":""}}"#),
                false => format!(r#"{{"op":"remove","path":"/metadata/labels/{key}"}}"#),
            }
        };
        let operations: Vec<_> = edits.iter().map(operation).collect();
        Some(format!("[{}]", operations.join(",")))
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

/// A key in a JSON Pointer: `~` is `~0` first, then `/` is `~1` (case 5).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::MetadataView;

    #[test]
    fn patches_bring_the_wanted_labels_and_nothing_else() {
        let a = "meshgate.io/requires.a";
        let path = "/metadata/labels/meshgate.io~1requires.a";
        let create = json!([{"op": "add", "path": "/metadata/labels", "value": {a: ""}}]);
        let add = json!([{"op": "add", "path": path, "value": ""}]);
        let remove = json!([{"op": "remove", "path": path}]);
        let table = [
            (json!({}), true, Some(&create)),
            (json!({"labels": null}), true, Some(&create)),
            (json!({"labels": {}}), true, Some(&add)),
            (json!({"labels": {"x": "y"}}), true, Some(&add)),
            (json!({"labels": {a: ""}}), true, None),
            (json!({"labels": {a: "by hand"}}), true, None),
            (json!({"labels": {a: "", "x": "y"}}), false, Some(&remove)),
            (json!({"labels": {a: null}}), false, Some(&remove)),
            (json!({"labels": {"x": "y"}}), false, None),
            (json!({}), false, None),
        ];
        for (metadata, wanted, expected) in table {
            let text = json!({"metadata": metadata}).to_string();
            let patch = MetadataView::read(&text)
                .unwrap()
                .labels_patch(&[(a, wanted)]);
            let patch: Option<Value> = patch.map(|text| serde_json::from_str(&text).unwrap());
            assert_eq!(patch.as_ref(), expected, "{wanted} for {text}");
        }
    }

    #[test]
    fn several_labels_are_one_patch_that_applies() {
        let labels = [
            ("m.io/a", true),
            ("m.io/b", false),
            ("m.io/c", true),
            ("m.io/d", false),
        ];
        let maps = [json!({"m.io/b": "", "m.io/c": ""}), json!({}), Value::Null];
        for map in maps {
            let mut object = json!({"metadata": {"labels": map}});
            let text = object.to_string();
            let patch = MetadataView::read(&text)
                .unwrap()
                .labels_patch(&labels)
                .unwrap();
            let patch: json_patch::Patch = serde_json::from_str(&patch).unwrap();
            json_patch::patch(&mut object, &patch).unwrap();
            assert_eq!(
                object["metadata"]["labels"],
                json!({"m.io/a": "", "m.io/c": ""})
            );
            let text = object.to_string();
            assert_eq!(
                MetadataView::read(&text).unwrap().labels_patch(&labels),
                None
            );
        }
    }

    #[test]
    fn an_annotation_is_set_where_there_are_some_and_where_there_are_none() {
        for annotations in [json!(null), json!({}), json!({"a": "b", "m.io/x": "old"})] {
            let mut object = json!({"metadata": {"annotations": annotations}});
            let text = object.to_string();
            let view = MetadataView::read(&text).unwrap();
            let patch = view.annotation_patch("m.io/x", "0a1b");
            let patch: json_patch::Patch = serde_json::from_str(&patch).unwrap();
            json_patch::patch(&mut object, &patch).unwrap();
            assert_eq!(object["metadata"]["annotations"]["m.io/x"], "0a1b");
        }
    }

    #[test]
    fn what_is_no_object_is_an_error_and_null_means_absent() {
        for wrong in [
            "[]",
            "{}",
            r#"{"metadata":null}"#,
            r#"{"metadata":{"labels":[]}}"#,
        ] {
            assert!(MetadataView::read(wrong).is_err(), "{wrong}");
        }
        let read = |metadata: Value| {
            let text = json!({"metadata": metadata}).to_string();
            let view = MetadataView::read(&text).unwrap();
            (
                view.is_being_deleted(),
                view.annotations(|key| key == "a").len(),
            )
        };
        let time = json!("2026-01-01T00:00:00Z");
        assert_eq!(read(json!({"deletionTimestamp": time})), (true, 0));
        assert_eq!(read(json!({"deletionTimestamp": null})), (false, 0));
        assert_eq!(read(json!({"annotations": {"a": ""}})), (false, 1));
    }
}
