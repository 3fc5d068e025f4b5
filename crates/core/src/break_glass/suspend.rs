//! Suspending what refuses pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::names::{ALTERNATIVE, ASKED_FOR, POLICIES};

use super::object::{self, annotation, our_name};
use super::{ANNOTATION, Note, OFF};

/// Annotation of a binding with what it did before.
pub(super) const BEFORE: &str = "meshgate.io/break-glass-before";

/// The change to one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Suspended {
    /// The merge patch; `None` if the note is about nothing on the object.
    pub patch: Option<Value>,
    /// The entries, or the binding, that refuse no pod then.
    pub off: Vec<String>,
    /// Entries that go on asking, for other injectors alone.
    pub others: Vec<String>,
    /// Entries that go on asking for the note's injectors too: their conditions cannot be told apart.
    pub shared: Vec<String>,
}

/// Suspends the entries of a webhook configuration, as far as they ask for what the note is about.
pub fn configuration(object: &Value, note: &Note) -> Suspended {
    let mut suspended = Suspended::default();
    let asked_for = asked_for(object);
    let mut entries = object["webhooks"].clone();
    for entry in entries.as_array_mut().into_iter().flatten() {
        let Some(name) = our_name(entry).map(str::to_owned) else {
            continue;
        };
        match left(entry, note, asked_for.get(&name)) {
            Left::All => {}
            Left::Unknown => suspended.shared.push(name),
            Left::Some(expression) => {
                object::restrict(entry, &expression);
                suspended.others.push(name);
            }
            Left::Nothing => {
                object::restrict(entry, OFF);
                suspended.off.push(name);
            }
        }
    }
    // Replicas read the note, also where entries cannot be told apart.
    if suspended == Suspended::default() {
        return suspended;
    }
    let mut patch = object::patch(object, &json!({ANNOTATION: note.to_string()}));
    if object["webhooks"] != entries {
        patch["webhooks"] = entries;
    }
    suspended.patch = Some(patch);
    suspended
}

/// Has the binding of an injector's policy warn where it denies.
pub fn binding(object: &Value, note: &Note) -> Suspended {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let injector = name.strip_suffix(POLICIES);
    let is_about = injector.is_some_and(|injector| note.is_about(injector));
    let actions = &object["spec"]["validationActions"];
    let denies = actions
        .as_array()
        .is_some_and(|all| all.contains(&json!("Deny")));
    if !is_about || !denies && annotation(object, BEFORE).is_none() {
        return Suspended::default();
    }
    let mut annotations = json!({ANNOTATION: note.to_string()});
    if denies {
        annotations[BEFORE] = actions.to_string().into();
    }
    let mut patch = object::patch(object, &annotations);
    if denies {
        patch["spec"] = json!({"validationActions": ["Warn", "Audit"]});
    }
    Suspended {
        patch: Some(patch),
        off: vec![name.to_owned()],
        ..Suspended::default()
    }
}

/// The injectors that the entries of a configuration ask about.
pub fn injectors(object: &Value) -> Vec<String> {
    let names = asked_for(object).into_values().flatten();
    let distinct: BTreeSet<String> = names.collect();
    distinct.into_iter().collect()
}

/// From the names of entries to the injectors that each asks about.
fn asked_for(object: &Value) -> BTreeMap<String, Vec<String>> {
    let text = annotation(object, ASKED_FOR);
    let read = text.and_then(|text| serde_json::from_str(text).ok());
    read.unwrap_or_default()
}

/// What an entry goes on asking for.
enum Left {
    All,
    /// Where this condition holds.
    Some(String),
    Nothing,
    /// Not all, but its condition does not tell what.
    Unknown,
}

fn left(entry: &Value, note: &Note, asked_for: Option<&Vec<String>>) -> Left {
    if note.injectors.is_empty() {
        return Left::Nothing;
    }
    let all = asked_for.map(Vec::as_slice).unwrap_or_default();
    let stays: Vec<bool> = all.iter().map(|one| !note.is_about(one)).collect();
    if !stays.contains(&false) {
        return Left::All;
    }
    if !stays.contains(&true) {
        return Left::Nothing;
    }
    let parts: Vec<&str> = object::required(entry).split(ALTERNATIVE).collect();
    if parts.len() != stays.len() {
        return Left::Unknown;
    }
    let parts = parts.into_iter().zip(stays).filter(|(_, stays)| *stays);
    let parts: Vec<&str> = parts.map(|(part, _)| part).collect();
    Left::Some(parts.join(ALTERNATIVE))
}
