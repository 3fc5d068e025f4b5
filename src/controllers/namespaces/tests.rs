use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use super::plan::{Extent, Labelling};
use meshgate_core::injector::Injectors;

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
        let mut seen = ObjectMeta {
            name: Some(name.to_owned()),
            resource_version: Some("7".to_owned()),
            labels: Some(map(labels)),
            annotations: Some(map(annotations)),
            ..ObjectMeta::default()
        };
        let found = Labelling::of(&seen, &injectors, Extent::Exact);
        let patch = found.as_ref().map(Labelling::patch).unwrap_or_default();
        assert_eq!(patch["metadata"]["labels"], expected, "{seen:?}");
        // Before that nothing is taken away.
        let added = Labelling::of(&seen, &injectors, Extent::Added);
        let adds = found.as_ref().is_some_and(Labelling::adds);
        assert_eq!(added.is_some(), adds, "{seen:?}");
        assert!(added.is_none() || added == found, "{seen:?}");
        if !expected.is_null() {
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
        }
        seen.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(Labelling::of(&seen, &injectors, Extent::Exact), None);
    }
}
