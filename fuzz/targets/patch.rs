//! Any JSON object as the pod of a review: the patch of the mark, applied by a strict RFC 6902 library,
//! changes our annotation and nothing else, and a second answer changes nothing more.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use meshgate_core::decision::mark::Edit;
use meshgate_core::injector::Injectors;
use meshgate_core::names::ADMITTED;
use meshgate_core::view::pod::PodView;
use serde_json::Value;

static INJECTORS: LazyLock<Injectors> =
    LazyLock::new(|| Injectors::all_presets().expect("the presets parse"));

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    // The samples are reviews: their object is the pod.
    let review: Option<Value> = serde_json::from_str(text).ok();
    let object = review.and_then(|review| Some(review.pointer("/request/object")?.to_string()));
    let text = object.as_deref().unwrap_or(text);
    for edit in [Edit::admitted_for(vec!["istio", "linkerd"]), Edit::Remove] {
        let Ok(pod) = PodView::read(text, INJECTORS.keys()) else {
            return;
        };
        let Some(patch) = edit.patch(&pod) else {
            continue;
        };
        // What serde_json takes for a view it may refuse as a value: lone surrogates, deep nesting.
        let Ok(before) = serde_json::from_str::<Value>(text) else {
            return;
        };
        let mut after = before.clone();
        let patch: json_patch::Patch = serde_json::from_str(&patch).expect("a patch");
        assert_eq!(patch.0.len(), 1);
        json_patch::patch(&mut after, &patch).expect("the patch applies");
        assert_eq!(without_mark(&before), without_mark(&after));
        let after = after.to_string();
        let again = PodView::read(&after, INJECTORS.keys()).expect("still a pod");
        assert_eq!(edit.patch(&again), None, "a second answer changes nothing");
    }
});

/// The pod without our annotation, and without an annotations object that holds nothing else.
fn without_mark(pod: &Value) -> Value {
    let mut pod = pod.clone();
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(ADMITTED);
        }
        let is_empty =
            |v: &Value| v.is_null() || v.as_object().is_some_and(serde_json::Map::is_empty);
        if metadata.get("annotations").is_some_and(is_empty) {
            metadata.remove("annotations");
        }
    }
    pod
}
