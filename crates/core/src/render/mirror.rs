//! The mirror: one label on namespaces per injector that their annotations can require.
//!
//! A selector cannot look at annotations. A label that always agrees with them can be selected
//! on, and is kept so by a policy in the API server, by a webhook, and by a controller that
//! repairs what slips past: all three by [`wanted`].

use serde_json::{Value, json};

use crate::injector::coverage;
use crate::injector::rule::Outcome;
use crate::injector::rule::{Place, Rule, Term};
use crate::injector::{Injector, Injectors};

use super::condition::Expr;
use super::condition::cel::{self, Scope};
use super::condition::chain::{Chain, Choice};
use super::webhooks::{NAMESPACE_NAME, client_config};
use super::{MIRROR, MirrorForm, Settings, excluded, in_force, metadata, path, webhooks_metadata};

/// How every mirrored label begins.
pub const LABEL_PREFIX: &str = "meshgate.io/requires.";

/// The label that mirrors the annotations that `injector` reads on namespaces.
pub fn label(injector: &Injector) -> String {
    format!("{LABEL_PREFIX}{}", injector.profile.name)
}

/// Whether annotations of a namespace alone can require the injector, so that it needs a label.
pub fn is_needed(injector: &Injector) -> bool {
    injector.is_looked_at() && injector.active_rules().any(requires_by_annotation)
}

/// Whether the namespace should carry the [`label`]: its annotations require the injector of pods
/// that say nothing. `annotation` looks one up by its key.
///
/// Never in a namespace that is excluded, out of the injector's scope, or its own (design
/// section 7: there only what the pod says counts).
pub fn wanted<'a>(
    injector: &Injector,
    namespace: &str,
    annotation: impl Fn(&str) -> Option<&'a str>,
    injectors: &Injectors,
) -> bool {
    let profile = &injector.profile;
    if !is_needed(injector)
        || injectors.excludes(namespace)
        || profile.service.namespace == namespace
        || !profile.namespaces.contains(namespace)
    {
        return false;
    }
    asks(injector, annotation)
}

/// Whether annotations alone can require the injector of pods that say nothing, wherever it is.
pub(super) fn asks<'a>(injector: &Injector, annotation: impl Fn(&str) -> Option<&'a str>) -> bool {
    let holds = |rule: &Rule| {
        annotation_terms(rule).all(|term| term.test.passes(annotation(&term.key.name)))
    };
    for rule in injector.active_rules() {
        if requires_by_annotation(rule) && holds(rule) {
            return true;
        }
        if forbids_by_annotation(rule) && holds(rule) {
            return false;
        }
    }
    false
}

/// One label that a namespace should gain or lose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The label's key; its value is empty.
    pub label: String,
    /// True to add it, false to take it away.
    pub add: bool,
}

/// What has to change on a namespace for its labels to agree with its annotations; labels of
/// injectors that are not in the configuration go away. In the order of the labels.
pub fn changes<'a>(
    injectors: &Injectors,
    namespace: &str,
    labels: impl IntoIterator<Item = &'a str>,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> Vec<Change> {
    let there: Vec<&str> = labels
        .into_iter()
        .filter(|key| key.starts_with(LABEL_PREFIX))
        .collect();
    let wanted: Vec<String> = injectors
        .iter()
        .filter(|injector| wanted(injector, namespace, &annotation, injectors))
        .map(label)
        .collect();
    let missing = wanted
        .iter()
        .filter(|label| !there.contains(&label.as_str()));
    let stale = there
        .iter()
        .filter(|key| !wanted.iter().any(|label| label == *key));
    let mut changes: Vec<Change> = missing
        .map(|label| Change {
            label: label.clone(),
            add: true,
        })
        .chain(stale.map(|key| Change {
            label: (*key).to_owned(),
            add: false,
        }))
        .collect();
    changes.sort_by(|a, b| a.label.cmp(&b.label));
    changes
}

/// The objects of the mirror, and what proves that it is in force where it is a policy: none if no
/// injector needs it.
pub fn objects(injectors: &Injectors, settings: &Settings) -> Vec<Value> {
    if !injectors.iter().any(is_needed) {
        return Vec::new();
    }
    match settings.mirror {
        MirrorForm::Policy => {
            let mirror = [policy(injectors, settings), binding(MIRROR, settings)];
            let proof = in_force::of_mirror(&mirror, settings);
            mirror.into_iter().chain(proof).collect()
        }
        MirrorForm::Webhook => vec![webhook(injectors, settings)],
    }
}

/// What needs a label, with the label and the condition under which it is wanted.
fn labels(injectors: &Injectors) -> impl Iterator<Item = (String, Expr)> {
    let needing = injectors.iter().filter(|injector| is_needed(injector));
    needing.map(|injector| (label(injector), wanted_expr(injector)))
}

/// [`wanted`] as a condition on the namespace, but for excluded names.
pub(super) fn wanted_expr(injector: &Injector) -> Expr {
    let decides = |rule: &&Rule| requires_by_annotation(rule) || forbids_by_annotation(rule);
    let rules = || injector.active_rules().filter(decides);
    let chain = Chain::new(rules(), |rule| rule.then != Outcome::NotRequired, false);
    let chain = chain.only(Place::NamespaceAnnotation);
    let mut choice = Choice::default();
    choice.add(vec![chain]);
    let profile = &injector.profile;
    let own = std::iter::once(profile.service.namespace.as_str());
    let never = profile
        .namespaces
        .except
        .iter()
        .map(String::as_str)
        .chain(own);
    let only = profile.namespaces.only.iter();
    let scope = only.map(|names| Expr::namespace(names.iter().map(String::as_str)));
    let asks = choice.expr(&coverage::samples_of(rules().flat_map(annotation_terms)));
    Expr::all(
        [asks, Expr::namespace(never).not()]
            .into_iter()
            .chain(scope),
    )
}

/// `(wanted) != (there)` for each label, joined: whether labels and annotations disagree.
fn disagreement(injectors: &Injectors) -> String {
    let parts = labels(injectors).map(|(label, wanted)| {
        let wanted = Scope::Namespace.print(&wanted);
        let there = Scope::Namespace.has(Place::NamespaceLabel, &label);
        format!("({wanted}) != ({there})")
    });
    parts.collect::<Vec<_>>().join(" || ")
}

/// A namespace that goes must be finalized whatever its labels are.
const NOT_BEING_DELETED: &str = "!has(object.metadata.deletionTimestamp)";

/// The conditions under which a namespace is touched.
fn conditions(injectors: &Injectors) -> Value {
    json!([
        {"name": "not-being-deleted", "expression": NOT_BEING_DELETED},
        {"name": "labels-disagree-with-annotations", "expression": disagreement(injectors)},
    ])
}

/// With the subresources, as an annotation can be written through these as well.
fn rules() -> Value {
    json!([{
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["namespaces", "namespaces/finalize", "namespaces/status"],
        "scope": "Cluster",
    }])
}

/// For the namespace itself: names that are never looked at.
fn selector(injectors: &Injectors, settings: &Settings) -> Value {
    json!({"matchExpressions": [{
        "key": NAMESPACE_NAME,
        "operator": "NotIn",
        "values": excluded(injectors, settings),
    }]})
}

fn policy(injectors: &Injectors, settings: &Settings) -> Value {
    let mutations: Vec<Value> = labels(injectors)
        .flat_map(|(label, wanted)| [add(&label, &wanted), remove(&label, &wanted)])
        .map(
            |expression| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}),
        )
        .collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": metadata(MIRROR, settings),
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": selector(injectors, settings),
                "objectSelector": {},
                "resourceRules": rules(),
            },
            "matchConditions": conditions(injectors),
            "mutations": mutations,
        },
    })
}

/// Adds the label where it is wanted; the map of labels first, if there is none.
fn add(label: &str, wanted: &Expr) -> String {
    let (key, wanted) = (cel::text(label), Scope::Namespace.print(wanted));
    let there = Scope::Namespace.has(Place::NamespaceLabel, label);
    format!(
        "!({there}) && ({wanted})\n? (has(object.metadata.labels)\n  ? [JSONPatch{{op: 'add', path: \
         '/metadata/labels/' + jsonpatch.escapeKey({key}), value: ''}}]\n  : [JSONPatch{{op: 'add', \
         path: '/metadata/labels', value: {{{key}: ''}}}}])\n: []"
    )
}

/// Takes the label away where it is not.
fn remove(label: &str, wanted: &Expr) -> String {
    let (key, wanted) = (cel::text(label), Scope::Namespace.print(wanted));
    let there = Scope::Namespace.has(Place::NamespaceLabel, label);
    format!(
        "{there} && !({wanted})\n? [JSONPatch{{op: 'remove', path: '/metadata/labels/' + \
         jsonpatch.escapeKey({key})}}]\n: []"
    )
}

/// A binding of the mutating policy of the same name.
pub(super) fn binding(name: &str, settings: &Settings) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": metadata(name, settings),
        "spec": {"policyName": name, "matchResources": super::policy::everywhere()},
    })
}

/// The same as a webhook, for clusters without such policies: in a configuration of its own, so
/// that it can be there before the pods' entries are.
fn webhook(injectors: &Injectors, settings: &Settings) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": webhooks_metadata(MIRROR, settings),
        "webhooks": [{
            "name": MIRROR,
            "clientConfig": client_config(path::NAMESPACES, settings),
            "rules": rules(),
            "namespaceSelector": selector(injectors, settings),
            "objectSelector": {},
            "matchConditions": conditions(injectors),
            "failurePolicy": settings.failure_policy.as_str(),
            "matchPolicy": "Equivalent",
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "None",
            "timeoutSeconds": settings.failure_policy.timeout_seconds(),
            "admissionReviewVersions": ["v1"],
        }],
    })
}

fn annotation_terms(rule: &Rule) -> impl Iterator<Item = &Term> {
    rule.when
        .iter()
        .filter(|term| term.key.place == Place::NamespaceAnnotation)
}

/// Whether it asks for the injector because of annotations of the namespace, not of the pod.
fn requires_by_annotation(rule: &Rule) -> bool {
    rule.then != Outcome::NotRequired
        && !rule.is_asked_by_pod()
        && annotation_terms(rule).next().is_some()
}

/// Whether it is made of annotations of the namespace alone, and says no.
fn forbids_by_annotation(rule: &Rule) -> bool {
    rule.then == Outcome::NotRequired
        && !rule.when.is_empty()
        && annotation_terms(rule).count() == rule.when.len()
}
