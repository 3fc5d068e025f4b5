//! Suspending what refuses pods.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::names::{ALTERNATIVE, ASKED_FOR, POLICIES};

use super::object::{Entry, Object};
use super::{ANNOTATION, Note};

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

impl Suspended {
    fn is_nothing(&self) -> bool {
        self.off.is_empty() && self.others.is_empty() && self.shared.is_empty()
    }
}

/// Suspends the entries of a webhook configuration, as far as they ask for what the note is about.
pub fn configuration(object: &Value, note: &Note) -> Suspended {
    let mut suspended = Suspended::default();
    let Some(seen) = Object::read(object) else {
        return suspended;
    };
    let asked_for = asked_for(&seen);
    let mut entries = seen.webhooks.clone();
    for entry in entries.iter_mut().filter(|entry| entry.is_ours()) {
        let name = entry.name.clone();
        match left(entry, note, asked_for.get(&name)) {
            Left::All => {}
            Left::Unknown => suspended.shared.push(name),
            Left::Some(expression) => {
                entry.restrict(&expression);
                suspended.others.push(name);
            }
            Left::Nothing => {
                entry.restrict("false");
                suspended.off.push(name);
            }
        }
    }
    // Replicas read the note, also where entries cannot be told apart.
    if suspended.is_nothing() {
        return suspended;
    }
    let mut patch = seen.patch(&json!({ANNOTATION: note.to_string()}));
    if seen.webhooks != entries {
        patch["webhooks"] = json!(entries);
    }
    suspended.patch = Some(patch);
    suspended
}

/// Has the binding of an injector's policy warn where it denies.
pub fn binding(object: &Value, note: &Note) -> Suspended {
    let seen = Object::read(object).unwrap_or_default();
    let injector = seen.name().strip_suffix(POLICIES);
    let is_about = injector.is_some_and(|injector| note.is_about(injector));
    let actions = &seen.spec.validation_actions;
    let denies = actions.iter().any(|action| action == "Deny");
    if !is_about || !denies && seen.annotation(BEFORE).is_none() {
        return Suspended::default();
    }
    let mut annotations = json!({ANNOTATION: note.to_string()});
    if denies {
        annotations[BEFORE] = json!(actions).to_string().into();
    }
    let mut patch = seen.patch(&annotations);
    if denies {
        patch["spec"] = json!({"validationActions": ["Warn", "Audit"]});
    }
    Suspended {
        patch: Some(patch),
        off: vec![seen.name().to_owned()],
        ..Suspended::default()
    }
}

/// The injectors that the entries of a configuration ask about.
pub fn injectors(object: &Value) -> Vec<String> {
    let asked_for = Object::read(object).map(|seen| asked_for(&seen));
    let names = asked_for.into_iter().flat_map(BTreeMap::into_values);
    let mut names: Vec<String> = names.flatten().collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn asked_for(seen: &Object) -> BTreeMap<String, Vec<String>> {
    let text = seen.annotation(ASKED_FOR);
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

fn left(entry: &Entry, note: &Note, asked_for: Option<&Vec<String>>) -> Left {
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
    let parts: Vec<&str> = entry.required().split(ALTERNATIVE).collect();
    if parts.len() != stays.len() {
        return Left::Unknown;
    }
    let parts = parts.into_iter().zip(stays).filter(|(_, stays)| *stays);
    let parts: Vec<&str> = parts.map(|(part, _)| part).collect();
    Left::Some(parts.join(ALTERNATIVE))
}
