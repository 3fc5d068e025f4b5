//! The patch, applied by a strict RFC 6902 library: one annotation changes and nothing else.

use std::sync::LazyLock;

use meshgate_core::decision::mark::Edit;
use meshgate_core::injector::Injectors;
use meshgate_core::names::ADMITTED;
use meshgate_core::view::pod::PodView;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// Keys with everything that JSON Pointers and JSON escape.
fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        select(
            &[
                "a/b",
                "a~b",
                "~1",
                "~0",
                "meshgate.io~1admitted",
                "meshgate.io/admitted2",
                "Meshgate.io/admitted",
                "meshgate.io",
                "admitted",
                "",
                "\"",
                "\\",
                "\u{0}",
                "ключ",
                "🦀",
                "linkerd.io/inject",
            ][..]
        )
        .prop_map(str::to_owned),
        "\\PC{0,12}",
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_key(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn texts() -> impl Strategy<Value = Value> {
    prop::collection::vec((any_key(), "\\PC{0,8}"), 0..5).prop_map(|entries| {
        let entries = entries.into_iter().filter(|(key, _)| key != ADMITTED);
        Value::Object(
            entries
                .map(|(key, value)| (key, Value::from(value)))
                .collect(),
        )
    })
}

/// Annotations: missing, null, empty, or with some; with a mark of meshgate or not.
fn annotations() -> impl Strategy<Value = Option<Value>> {
    let mark = select(&["linkerd", "vault", "", "istio,linkerd", "\"}]", "é"][..]);
    let mark = prop_oneof![mark.prop_map(Value::from), Just(Value::Null)];
    let with_mark = (texts(), prop::option::of(mark)).prop_map(|(mut texts, mark)| {
        if let Some(mark) = mark {
            texts[ADMITTED] = mark;
        }
        Some(texts)
    });
    prop_oneof![1 => Just(None), 1 => Just(Some(Value::Null)), 6 => with_mark]
}

/// A pod of which only what rules read has its type.
fn pods() -> impl Strategy<Value = Value> {
    let noise = || prop::collection::vec((any_key(), any_json()), 0..4);
    let read = [
        "metadata",
        "spec",
        "labels",
        "annotations",
        "name",
        "generateName",
        "ownerReferences",
    ];
    (noise(), noise(), texts(), annotations()).prop_map(
        move |(outer, inner, labels, annotations)| {
            let keep = |entries: Vec<(String, Value)>| -> Map<String, Value> {
                let entries = entries.into_iter();
                entries
                    .filter(|(key, _)| !read.contains(&key.as_str()))
                    .collect()
            };
            let mut metadata = keep(inner);
            metadata.insert("labels".to_owned(), labels);
            if let Some(annotations) = annotations {
                metadata.insert("annotations".to_owned(), annotations);
            }
            let mut pod = keep(outer);
            pod.insert("metadata".to_owned(), Value::Object(metadata));
            Value::Object(pod)
        },
    )
}

fn edits() -> impl Strategy<Value = Edit> {
    let names = select(&["linkerd", "istio", "vault", "own-1"][..]);
    prop_oneof![
        1 => Just(Edit::Keep),
        2 => Just(Edit::Remove),
        4 => prop::collection::btree_set(names, 1..3)
            .prop_map(|names| Edit::admitted_for(names.into_iter().rev().collect())),
    ]
}

fn patched(pod: &Value, edit: &Edit, injectors: &Injectors) -> (Value, usize) {
    let text = pod.to_string();
    let view = PodView::read(&text, injectors.keys()).unwrap();
    let mut after = pod.clone();
    let Some(patch) = edit.patch(&view) else {
        return (after, 0);
    };
    let patch: json_patch::Patch = serde_json::from_str(&patch).unwrap();
    json_patch::patch(&mut after, &patch).unwrap();
    (after, patch.len())
}

/// The mark, and the pod without it. Annotations that are missing, null or empty are the same.
fn apart(mut pod: Value) -> (Option<Value>, Value) {
    let metadata = pod["metadata"].as_object_mut().unwrap();
    let mut annotations = match metadata.remove("annotations") {
        Some(Value::Object(annotations)) => annotations,
        Some(Value::Null) | None => Map::new(),
        other => panic!("annotations became {other:?}"),
    };
    let mark = annotations.remove(ADMITTED);
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    (mark, pod)
}

/// Parsed once: each case asks for them.
static PRESETS: LazyLock<Injectors> = LazyLock::new(|| Injectors::all_presets().unwrap());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn exactly_one_annotation_changes(pod in pods(), edit in edits()) {
        let injectors = &*PRESETS;
        let (after, operations) = patched(&pod, &edit, injectors);
        prop_assert!(operations <= 1);
        let (before_mark, before_rest) = apart(pod.clone());
        let (after_mark, after_rest) = apart(after.clone());
        // As texts too, so that their order counts as far as it is kept.
        prop_assert_eq!(before_rest.to_string(), after_rest.to_string());
        let expected = match &edit {
            Edit::Keep => before_mark,
            Edit::Set(value) => Some(json!(value)),
            Edit::Remove => None,
        };
        prop_assert_eq!(&after_mark, &expected);
        if operations == 0 {
            prop_assert_eq!(&after, &pod);
        }
        // Answering again changes nothing.
        prop_assert_eq!(patched(&after, &edit, injectors), (after, 0));
    }
}

#[test]
fn the_key_of_the_mark_is_the_contracts() {
    assert_eq!(ADMITTED, "meshgate.io/admitted");
}
