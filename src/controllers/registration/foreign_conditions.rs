//! What other clients add to meshgate's objects stays (case 78), and is reported where it narrows which
//! pods meshgate is asked about. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement as Term;
use serde::Serialize;
use serde_json::{Value, json};

use meshgate_core::break_glass::CONDITION;
use meshgate_core::render::is_own_condition;

use super::observed::{Entry, Object};

/// Fields that are ours as a whole: an addition would narrow which pods meshgate is asked about, and
/// the creator of a pod chooses its labels (`objectSelector`).
const WHOLE: [&str; 4] = [
    "objectSelector",
    "rules",
    "matchConstraints",
    "matchResources",
];

/// Terms that AKS' admissions enforcer gives to every webhook, so that none looks at AKS' own namespaces
/// (Azure/AKS#4002): key, operator, value. They are no reason to call an entry narrowed.
const AKS: [(&str, &str, &str); 3] = [
    ("control-plane", "DoesNotExist", ""),
    ("control-plane", "NotIn", "true"),
    ("kubernetes.azure.com/managedby", "NotIn", "aks"),
];

/// Annotation with the selector terms that meshgate wrote, as JSON, each once.
pub(super) const NOTE: &str = "meshgate.io/selector-terms";

/// Whether an object or an entry in the cluster has all that is wanted, whatever other clients have
/// added.
pub(super) fn contains<T: Serialize>(live: &T, wanted: &T) -> bool {
    has(&json!(live), &json!(wanted))
}

/// Lists whose items have names (webhooks, match conditions) or UIDs (owners) are compared item by
/// item, expressions of a selector as a set: additions stay. All other lists are compared as they are.
/// Null and the empty list or map are equal, as the API server drops them.
fn has(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (_, wanted) if is_nothing(wanted) => true,
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, value)| {
            let own = live.get(key).unwrap_or(&Value::Null);
            match key.as_str() {
                "matchExpressions" => has_all(own, value),
                key if WHOLE.contains(&key) => pruned(own) == pruned(value),
                _ => has(own, value),
            }
        }),
        (Value::Array(live), Value::Array(wanted)) => match identity(wanted) {
            Some(key) => wanted.iter().all(|item| {
                let own = live.iter().find(|own| own[key] == item[key]);
                own.is_some_and(|own| has(own, item))
            }),
            None => {
                let mut pairs = live.iter().zip(wanted);
                live.len() == wanted.len() && pairs.all(|(own, item)| has(own, item))
            }
        },
        (live, wanted) => live == wanted,
    }
}

/// The key by which the items of a list are told apart, if they are.
fn identity(list: &[Value]) -> Option<&'static str> {
    let all_have = |key: &str| list.iter().all(|item| item[key].is_string());
    ["uid", "name"].into_iter().find(|key| all_have(key))
}

fn has_all(live: &Value, wanted: &Value) -> bool {
    let live = live.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut wanted = wanted.as_array().into_iter().flatten();
    wanted.all(|one| live.iter().any(|own| pruned(own) == pruned(one)))
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The value without empty fields; null if nothing is left.
fn pruned(value: &Value) -> Value {
    let pruned = match value {
        Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| (key.clone(), pruned(value)));
            Value::Object(fields.filter(|(_, value)| !value.is_null()).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(pruned).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    };
    if is_nothing(&pruned) {
        Value::Null
    } else {
        pruned
    }
}

/// Adds to the selectors of a wanted webhook configuration the terms that other clients have added in
/// the cluster, and the note of our own. Under server-side apply a selector has one owner as a whole, so
/// a term that meshgate does not apply would be removed. A term that meshgate wrote earlier, by its
/// note, and does not want any more goes.
pub(super) fn adopt(object: &mut Object, live: Option<&Object>) {
    if object.webhooks.is_none() {
        return;
    }
    let mut own: Vec<Term> = Vec::new();
    let before = live.and_then(noted);
    for entry in object.entries_mut() {
        for term in entry.terms() {
            if !has_term(&own, term) {
                own.push(term.clone());
            }
        }
        let live = live.and_then(|live| live.entry(&entry.name));
        if let (Some(live), Some(before)) = (live, &before) {
            adopt_terms(entry, live, before);
        }
    }
    object.annotate(NOTE, Some(json!(own).to_string()));
}

fn adopt_terms(entry: &mut Entry, live: &Entry, before: &[Term]) {
    let is_theirs = |term: &&Term| !has_term(before, term) && !has_term(entry.terms(), term);
    let theirs: Vec<Term> = live.terms().iter().filter(is_theirs).cloned().collect();
    if theirs.is_empty() && live.labels().is_none() {
        return;
    }
    let selector = entry.namespace_selector.get_or_insert_default();
    if selector.match_labels.is_none() {
        selector.match_labels = live.labels().cloned();
    }
    if !theirs.is_empty() {
        let terms = selector.match_expressions.get_or_insert_default();
        terms.extend(theirs);
    }
}

/// What meshgate wrote before. Without a readable note any term may be an outdated one of ours, which
/// would narrow which pods meshgate is asked about: then all go, and other clients add theirs again.
fn noted(live: &Object) -> Option<Vec<Term>> {
    serde_json::from_str(live.annotation(NOTE)?).ok()
}

fn has_term(terms: &[Term], term: &Term) -> bool {
    let values = |term: &Term| term.values.clone().unwrap_or_default();
    let is_same = |own: &Term| {
        own.key == term.key && own.operator == term.operator && values(own) == values(term)
    };
    terms.iter().any(is_same)
}

/// What of an object is asked about fewer pods than wanted, and why: entries of a webhook configuration, or a
/// policy as a whole.
pub(super) fn narrowed(wanted: &Object, live: &Object) -> Vec<String> {
    let specs = wanted.spec.as_ref().zip(live.spec.as_ref());
    let policy = specs.map(|(own, live)| {
        let (own, live) = (&own.match_conditions, &live.match_conditions);
        (
            &wanted.id.name,
            added_conditions(own.as_ref(), live.as_ref()),
        )
    });
    let entries = wanted.entries().iter();
    let entries = entries.filter_map(|own| Some((&own.name, added(own, live.entry(&own.name)?))));
    let all = policy.into_iter().chain(entries);
    let all = all.filter(|(_, added)| !added.is_empty());
    all.map(|(name, added)| format!("{name} (another client added {})", added.join(", ")))
        .collect()
}

/// What of an entry others have added, so that meshgate is asked about fewer pods than wanted.
pub(super) fn added(wanted: &Entry, live: &Entry) -> Vec<String> {
    let conditions = wanted.match_conditions.as_ref();
    let mut added = added_conditions(conditions, live.match_conditions.as_ref());
    added.extend(added_terms(live, wanted.terms(), wanted.labels()));
    added
}

/// The same by what meshgate noted, for those who do not know what is wanted.
pub(crate) fn foreign(live: &Object, entry: &Entry) -> Vec<String> {
    let conditions = entry.match_conditions.iter().flatten();
    let others =
        conditions.filter(|one| one.name != CONDITION && !is_own_condition(&entry.name, &one.name));
    let mut added: Vec<String> = others.map(condition).collect();
    if let Some(own) = noted(live) {
        added.extend(added_terms(entry, &own, None));
    }
    added
}

fn added_terms(
    live: &Entry,
    own: &[Term],
    own_labels: Option<&BTreeMap<String, String>>,
) -> Vec<String> {
    let terms = live.terms().iter();
    let terms = terms.filter(|term| !has_term(own, term) && !is_of_aks(term));
    let terms = terms.map(|Term { key, operator, .. }| format!("{key} {operator}"));
    let labels = live.labels().into_iter().flatten();
    let is_own = |key: &String, value| own_labels.and_then(|own| own.get(key)) == Some(value);
    let labels = labels.filter(|(key, value)| !is_own(key, value));
    let labels = labels.map(|(key, value)| format!("{key}={value}"));
    let all = terms.chain(labels);
    all.map(|one| format!("{one} to its namespaceSelector"))
        .collect()
}

fn is_of_aks(term: &Term) -> bool {
    let values = term.values.as_deref().unwrap_or_default();
    let is_same = |(key, operator, value): &(&str, &str, &str)| {
        let has_value = values
            .iter()
            .map(String::as_str)
            .eq((!value.is_empty()).then_some(*value));
        term.key == *key && term.operator == *operator && has_value
    };
    AKS.iter().any(is_same)
}

fn added_conditions(
    wanted: Option<&Vec<MatchCondition>>,
    live: Option<&Vec<MatchCondition>>,
) -> Vec<String> {
    let is_own = |name: &str| wanted.into_iter().flatten().any(|own| own.name == name);
    let added = live.into_iter().flatten().filter(|one| !is_own(&one.name));
    added.map(condition).collect()
}

fn condition(one: &MatchCondition) -> String {
    format!("the matchCondition {}", one.name)
}
