//! Patches of labels and annotations, and what is no object.

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
