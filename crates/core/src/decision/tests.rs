//! What tests share: pods, namespaces and configurations from short texts.

use serde_json::{Value, json};

use crate::injector::Injectors;
use crate::readiness::Readiness;
use crate::view::namespace::NamespaceView;
use crate::view::pod::PodView;

use super::requirement::{self, RuleMatch};
use super::{Decision, check, gate};

/// Texts by key.
pub(crate) type Map<'m> = &'m [(&'m str, &'m str)];

/// A configuration with these `injectors:`.
pub(crate) fn injectors(list: &str) -> Injectors {
    let text = format!("apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n{list}");
    Injectors::from_yaml("test", text.as_bytes()).unwrap()
}

/// A namespace with labels and annotations.
pub(crate) fn namespace(
    name: &str,
    labels: Map<'_>,
    annotations: Map<'_>,
    injectors: &Injectors,
) -> NamespaceView {
    let (labels, annotations) = (labels.iter().copied(), annotations.iter().copied());
    NamespaceView::new(name, labels, annotations, injectors.keys())
}

/// A pod of a ReplicaSet with annotations and these fields in its spec.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers write json!(…) in place"
)]
pub(crate) fn pod(annotations: Map<'_>, spec: Value) -> Value {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    json!({
        "metadata": {
            "generateName": "shop-6c9f-",
            "annotations": annotations,
            "ownerReferences": [{"kind": "ReplicaSet", "name": "shop-6c9f", "controller": true}],
        },
        "spec": spec,
    })
}

/// Which of the two hooks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    Gate,
    Check,
}

/// Decides on a pod.
pub(crate) fn decide<'a>(
    hook: Hook,
    pod: &str,
    namespace: &'a NamespaceView,
    injectors: &'a Injectors,
    readiness: impl Fn(&str) -> Readiness<'a>,
    look: impl FnOnce(&Decision<'_>),
) {
    let pod = PodView::read(pod, injectors.keys()).unwrap();
    let requirement = requirement::of(&pod, namespace, injectors);
    let readiness = |matched: &RuleMatch<'_>| readiness(matched.name());
    look(&match hook {
        Hook::Gate => gate::decide(&pod, &requirement, readiness),
        Hook::Check => check::decide(&pod, &requirement, readiness),
    });
}
