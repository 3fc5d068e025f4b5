//! Patches of the mark.

use serde_json::{Value, json};

use super::Edit;
use crate::injector::Injectors;
use crate::names::ADMITTED;
use crate::view::pod::PodView;

#[test]
fn the_key_is_escaped_for_a_json_pointer() {
    let escaped = ADMITTED.replace('~', "~0").replace('/', "~1");
    assert_eq!(super::ESCAPED_KEY, escaped);
}

#[test]
fn the_value_is_sorted_and_nothing_means_remove() {
    let names = |names: &[&str]| Edit::admitted_for(names.to_vec());
    assert_eq!(
        names(&["vault", "istio"]),
        Edit::Set("istio,vault".to_owned())
    );
    assert_eq!(
        names(&["istio", "vault"]),
        Edit::Set("istio,vault".to_owned())
    );
    assert_eq!(names(&["linkerd"]), Edit::Set("linkerd".to_owned()));
    assert_eq!(names(&[]), Edit::Remove);
}

#[test]
fn patches() {
    let key = "/metadata/annotations/meshgate.io~1admitted";
    let set = || Edit::Set("linkerd".to_owned());
    let add = json!([{"op": "add", "path": key, "value": "linkerd"}]);
    let create = json!([
        {"op": "add", "path": "/metadata/annotations", "value": {"meshgate.io/admitted": "linkerd"}}
    ]);
    let remove = json!([{"op": "remove", "path": key}]);
    let marked = |mark: Value| json!({"annotations": {"meshgate.io/admitted": mark}});
    let table = [
        (json!({}), set(), Some(&create)),
        (json!({"annotations": null}), set(), Some(&create)),
        (json!({"annotations": {}}), set(), Some(&add)),
        (json!({"annotations": {"a/b": "c"}}), set(), Some(&add)),
        (marked(json!("vault")), set(), Some(&add)),
        (marked(json!("linkerd")), set(), None),
        (marked(json!(null)), set(), Some(&add)),
        (marked(json!("linkerd")), Edit::Keep, None),
        (marked(json!("linkerd")), Edit::Remove, Some(&remove)),
        (marked(json!(null)), Edit::Remove, Some(&remove)),
        (json!({"annotations": {"a": "b"}}), Edit::Remove, None),
        (json!({}), Edit::Remove, None),
        (json!({}), Edit::Keep, None),
    ];
    let injectors = Injectors::all_presets().unwrap();
    for (metadata, edit, expected) in table {
        let json = json!({"metadata": metadata}).to_string();
        let pod = PodView::read(&json, injectors.keys()).unwrap();
        let patch = edit.patch(&pod);
        let patch: Option<Value> = patch.map(|text| serde_json::from_str(&text).unwrap());
        assert_eq!(patch.as_ref(), expected, "{edit:?} of {json}");
    }
}
