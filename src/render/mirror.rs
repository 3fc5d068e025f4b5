//! The mirror: one label on namespaces per injector that their annotations can require.
//!
//! A selector cannot look at annotations. A label that always agrees with them can be selected
//! on, and is kept so by a policy in the API server, by a webhook, and by a controller that
//! repairs what slips past: all three by [`wanted`].

use serde_json::Value;

use crate::injector::rule::{Place, Rule, Term};
use crate::injector::spec::Outcome;
use crate::injector::{Injector, Injectors};

use super::Settings;

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

/// The objects of the mirror: none if no injector needs it.
pub fn objects(injectors: &Injectors, _settings: &Settings) -> Vec<Value> {
    if !injectors.iter().any(is_needed) {
        return Vec::new();
    }
    Vec::new()
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
