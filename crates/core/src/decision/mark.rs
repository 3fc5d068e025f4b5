//! The mark: the one annotation that meshgate sets, and its patch.
//!
//! The patch holds one operation below `/metadata/annotations` (cases 4 to 7). It is written, not
//! found by comparing two pods: a typed round trip would lose fields the types do not know.

use super::pod::PodView;

/// Key of the mark.
pub const KEY: &str = "meshgate.io/admitted";

/// [`KEY`] in a JSON Pointer: `~` is `~0` first, then `/` is `~1` (case 5).
const ESCAPED_KEY: &str = "meshgate.io~1admitted";

/// What becomes of the mark on a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// It stays as it is, or stays away.
    Keep,
    /// It is set to this value.
    Set(String),
    /// One that arrived with the pod is taken away.
    Remove,
}

impl Edit {
    /// The mark of a pod that was admitted for these injectors: their names, sorted.
    pub fn admitted_for(mut names: Vec<&str>) -> Self {
        if names.is_empty() {
            return Self::Remove;
        }
        names.sort_unstable();
        Self::Set(names.join(","))
    }

    /// The JSON Patch (RFC 6902) that makes the pod so; `None` if it is so already (case 22).
    pub fn patch(&self, pod: &PodView<'_>) -> Option<String> {
        let key = ESCAPED_KEY;
        match (self, pod.mark.as_deref()) {
            (Self::Keep, _) | (Self::Remove, None) => None,
            (Self::Remove, Some(_)) => Some(format!(
                r#"[{{"op":"remove","path":"/metadata/annotations/{key}"}}]"#
            )),
            (Self::Set(value), Some(there)) if value == there => None,
            (Self::Set(value), _) if pod.has_annotations() => Some(format!(
                r#"[{{"op":"add","path":"/metadata/annotations/{key}","value":"{value}"}}]"#
            )),
            (Self::Set(value), _) => Some(format!(
                r#"[{{"op":"add","path":"/metadata/annotations","value":{{"{KEY}":"{value}"}}}}]"#
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Edit;
    use crate::decision::pod::PodView;
    use crate::injector::Injectors;

    #[test]
    fn the_key_is_escaped_for_a_json_pointer() {
        let escaped = super::KEY.replace('~', "~0").replace('/', "~1");
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
}
