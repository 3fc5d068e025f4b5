//! The mirror: one label on namespaces per injector that their annotations can require.
//!
//! A selector cannot look at annotations, but at a label that always agrees with them. A policy in the
//! API server or a webhook keeps it so, and a controller repairs what slips past: all three by
//! [`wanted`].

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::condition::Expr;
use crate::condition::cel::{self, Scope};
use crate::condition::chain::{Chain, Choice};
use crate::injector::coverage;
use crate::injector::rule::{Outcome, Place, Rule, Term};
use crate::injector::{Injector, Injectors};
use crate::names::{MIRROR, path};
use crate::view::namespace::NamespaceView;

use super::{MirrorForm, Settings, excluded, object, proof};

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

/// Whether a namespace of which this is known should carry the label, if it is one that mirrors.
pub(super) fn is_there(label: &str, namespace: &NamespaceView, injectors: &Injectors) -> bool {
    let keys = injectors.keys();
    let annotation = |name: &str| {
        let slot = keys.slot(Place::NamespaceAnnotation, name)?;
        namespace.values.get(slot)
    };
    let name = label.strip_prefix(LABEL_PREFIX);
    let mut mirrored = injectors
        .iter()
        .filter(|one| Some(&*one.profile.name) == name);
    mirrored.any(|one| wanted(one, &namespace.name, annotation, injectors))
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
    let there = labels.into_iter().map(str::to_owned);
    let there: BTreeSet<String> = there.filter(|key| key.starts_with(LABEL_PREFIX)).collect();
    let wanted = injectors
        .iter()
        .filter(|injector| wanted(injector, namespace, &annotation, injectors));
    let wanted: BTreeSet<String> = wanted.map(label).collect();
    let change = |label: &String| Change {
        label: label.clone(),
        add: wanted.contains(label),
    };
    there.symmetric_difference(&wanted).map(change).collect()
}

/// The objects of the mirror, and its proof where it is a policy. None if no injector needs it.
pub fn objects(injectors: &Injectors, settings: &Settings) -> Vec<Value> {
    if !injectors.iter().any(is_needed) {
        return Vec::new();
    }
    match settings.mirror {
        MirrorForm::Policy => {
            let mirror = policy(injectors, settings);
            let proof = proof::of_mirror(&mirror, settings);
            mirror.into_iter().chain(proof).collect()
        }
        MirrorForm::Webhook => vec![webhook(injectors, settings)],
    }
}

/// A label that an injector needs, and two conditions on a namespace in CEL.
struct Mirrored {
    label: String,
    wanted: String,
    there: String,
}

fn labels(injectors: &Injectors) -> impl Iterator<Item = Mirrored> {
    let needing = injectors.iter().filter(|injector| is_needed(injector));
    needing.map(|injector| {
        let label = label(injector);
        Mirrored {
            wanted: Scope::Namespace.print(&wanted_expr(injector)),
            there: Scope::Namespace.has(Place::NamespaceLabel, &label),
            label,
        }
    })
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
    let except = profile.namespaces.except.iter();
    let never = Expr::namespace(except.chain([&profile.service.namespace]));
    let scope = profile.namespaces.only.iter().map(Expr::namespace);
    let asks = choice.expr(&coverage::samples_of(rules().flat_map(annotation_terms)));
    Expr::all([asks, never.not()].into_iter().chain(scope))
}

/// `(wanted) != (there)` for each label, joined: whether labels and annotations disagree.
fn disagreement(injectors: &Injectors) -> String {
    let differs = |Mirrored { wanted, there, .. }| format!("({wanted}) != ({there})");
    let parts = labels(injectors).map(differs);
    parts.collect::<Vec<_>>().join(" || ")
}

/// The names of [`conditions`].
pub(super) const CONDITIONS: [&str; 3] = [
    "not-being-deleted",
    "not-excluded",
    "labels-disagree-with-annotations",
];

/// A namespace that goes must be finalized whatever its labels are.
const NOT_BEING_DELETED: &str = "!has(object.metadata.deletionTimestamp)";

/// The conditions under which a namespace is touched. Names that are never looked at are no term of the
/// selector: with `generateName`, the API server takes the label with the name from the request, and
/// corrects it only after admission.
fn conditions(injectors: &Injectors, settings: &Settings) -> Value {
    let is_excluded = Expr::namespace(excluded(injectors, settings));
    let [deleted, excluded, disagree] = CONDITIONS;
    json!([
        {"name": deleted, "expression": NOT_BEING_DELETED},
        {"name": excluded, "expression": Scope::Namespace.print(&is_excluded.not())},
        {"name": disagree, "expression": disagreement(injectors)},
    ])
}

/// With the subresources, as an annotation can be written through these as well.
pub(super) fn rules() -> Value {
    let resources = ["namespaces", "namespaces/finalize", "namespaces/status"];
    object::rules("", &["CREATE", "UPDATE"], &resources, "Cluster")
}

fn policy(injectors: &Injectors, settings: &Settings) -> [Value; 2] {
    let mutations: Vec<Value> = labels(injectors)
        .flat_map(|label| [add(&label), remove(&label)])
        .map(
            |expression| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}),
        )
        .collect();
    let spec = json!({
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": object::constraints(json!({}), rules()),
        "matchConditions": conditions(injectors, settings),
        "mutations": mutations,
    });
    object::mutating_policy(MIRROR, spec, settings)
}

/// Adds the label where it is wanted; the map of labels first, if there is none.
fn add(mirrored: &Mirrored) -> String {
    let Mirrored { wanted, there, .. } = mirrored;
    let key = cel::text(&mirrored.label);
    format!(
        "!({there}) && ({wanted})\n? (has(object.metadata.labels)\n  ? [JSONPatch{{op: 'add', path: \
         '/metadata/labels/' + jsonpatch.escapeKey({key}), value: ''}}]\n  : [JSONPatch{{op: 'add', \
         path: '/metadata/labels', value: {{{key}: ''}}}}])\n: []"
    )
}

/// Takes the label away where it is not.
fn remove(mirrored: &Mirrored) -> String {
    let Mirrored { wanted, there, .. } = mirrored;
    let key = cel::text(&mirrored.label);
    format!(
        "{there} && !({wanted})\n? [JSONPatch{{op: 'remove', path: '/metadata/labels/' + \
         jsonpatch.escapeKey({key})}}]\n: []"
    )
}

/// The same as a webhook, for clusters without such policies: in a configuration of its own, so
/// that it can be there before the entries for pods are.
fn webhook(injectors: &Injectors, settings: &Settings) -> Value {
    let policy = settings.failure_policy;
    let mut webhook = object::webhook(MIRROR, path::NAMESPACES, policy, settings);
    webhook["rules"] = rules();
    webhook["namespaceSelector"] = json!({});
    webhook["matchConditions"] = conditions(injectors, settings);
    webhook["reinvocationPolicy"] = "IfNeeded".into();
    let kind = "MutatingWebhookConfiguration";
    object::configuration(kind, MIRROR, vec![webhook], settings)
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
