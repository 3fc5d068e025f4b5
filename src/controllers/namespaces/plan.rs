//! What has to change on one namespace. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::injector::Injectors;
use crate::render::mirror;

/// What is read of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// The version that was seen.
    pub resource_version: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its deletion was asked for.
    pub is_being_deleted: bool,
}

/// How far the labels of a namespace are put right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What is wanted is added. What is not wanted may be what entries of another configuration
    /// select by, which are in force until those of this one are.
    Added,
    /// What is not wanted goes as well.
    Exact,
}

/// The merge patch after which the labels of the namespace say what its annotations say, which
/// applies to the version that was seen alone; `None` if there is nothing to do.
pub fn patch(seen: &Seen, injectors: &Injectors, extent: Extent) -> Option<Value> {
    if seen.is_being_deleted {
        return None;
    }
    let annotation = |key: &str| seen.annotations.get(key).map(String::as_str);
    let labels = seen.labels.keys().map(String::as_str);
    let mut changes = mirror::changes(injectors, &seen.name, labels, annotation);
    changes.retain(|change| change.add || extent == Extent::Exact);
    if changes.is_empty() {
        return None;
    }
    let value = |add| if add { json!("") } else { Value::Null };
    let changes = changes.into_iter().map(|one| (one.label, value(one.add)));
    let labels: BTreeMap<String, Value> = changes.collect();
    let version = &seen.resource_version;
    Some(json!({"metadata": {"resourceVersion": version, "labels": labels}}))
}

/// Whether a patch adds a label.
pub fn adds(patch: &Value) -> bool {
    let labels = patch["metadata"]["labels"].as_object();
    labels.is_some_and(|labels| labels.values().any(Value::is_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_annotations() {
        let text = "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\n\
                    injectors: [{preset: linkerd}]\nexcludedNamespaces: [cni]\n";
        let injectors = Injectors::from_yaml("test", text.as_bytes()).unwrap();
        let label = "meshgate.io/requires.linkerd";
        let stale = "meshgate.io/requires.gone";
        let map = |pairs: &[(&str, &str)]| {
            let owned = pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            owned.collect::<BTreeMap<_, _>>()
        };
        let enabled = [("linkerd.io/inject", "enabled")];
        let ingress = [("linkerd.io/inject", "ingress")];
        let disabled = [("linkerd.io/inject", "disabled")];
        // (name, labels, annotations, what is patched)
        type Pairs<'a> = &'a [(&'a str, &'a str)];
        let table: [(&str, Pairs<'_>, Pairs<'_>, Value); 9] = [
            ("orders", &[], &enabled, json!({label: ""})),
            ("orders", &[], &ingress, json!({label: ""})),
            ("orders", &[(label, "")], &enabled, Value::Null),
            ("orders", &[(label, "by hand")], &enabled, Value::Null),
            ("orders", &[(label, "")], &disabled, json!({label: null})),
            ("orders", &[(label, "")], &[], json!({label: null})),
            (
                "orders",
                &[(stale, ""), ("a", "b")],
                &[],
                json!({stale: null}),
            ),
            ("cni", &[(label, "")], &enabled, json!({label: null})),
            ("orders", &[("a", "b")], &[("a", "b")], Value::Null),
        ];
        for (name, labels, annotations, expected) in table {
            let mut seen = Seen {
                name: name.to_owned(),
                resource_version: "7".to_owned(),
                labels: map(labels),
                annotations: map(annotations),
                is_being_deleted: false,
            };
            let found = patch(&seen, &injectors, Extent::Exact).unwrap_or_default();
            assert_eq!(found["metadata"]["labels"], expected, "{seen:?}");
            // Before that nothing is taken away.
            let added = patch(&seen, &injectors, Extent::Added);
            assert_eq!(added.is_some(), adds(&found), "{seen:?}");
            assert!(added.is_none_or(|added| added == found), "{seen:?}");
            if !expected.is_null() {
                assert_eq!(found["metadata"]["resourceVersion"], "7");
            }
            seen.is_being_deleted = true;
            assert_eq!(patch(&seen, &injectors, Extent::Exact), None);
        }
    }
}
