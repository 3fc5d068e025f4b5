//! Switching off.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::render::{ALTERNATIVE, ASKED_FOR, REACH_ENTRY, REQUIRED, policy};

use super::{ANNOTATION, BEFORE, CONDITION, Note, is_added, patch_of};

/// How the names of our entries end.
const OUR_ENTRIES: &str = ".meshgate.io";

/// What is to be written to one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// The merge patch; `None` if nothing of the object is what the note is about.
    pub patch: Option<Value>,
    /// What is off then: entries, or the binding.
    pub off: Vec<String>,
    /// Entries that go on asking, for other injectors alone.
    pub others: Vec<String>,
    /// Entries that go on asking for the note's injectors too, as nobody can tell them apart.
    pub shared: Vec<String>,
}

impl Opened {
    fn is_nothing(&self) -> bool {
        self.off.is_empty() && self.others.is_empty() && self.shared.is_empty()
    }
}

/// Switches off the entries of a webhook configuration, as far as they ask for what the note is
/// about. The entry by which meshgate is reached stays: only meshgate meets it.
pub fn configuration(object: &Value, note: &Note) -> Opened {
    let asked_for = asked_for(object);
    let mut opened = Opened::default();
    let mut entries = object["webhooks"].as_array().cloned().unwrap_or_default();
    for entry in entries.iter_mut().filter(|entry| is_ours(entry)) {
        let name = entry["name"].as_str().unwrap_or_default().to_owned();
        match left(entry, note, asked_for.get(&name)) {
            Left::All => {}
            Left::Unknown => opened.shared.push(name),
            Left::Some(expression) => {
                condition(entry, &expression);
                opened.others.push(name);
            }
            Left::Nothing => {
                condition(entry, "false");
                opened.off.push(name);
            }
        }
    }
    // The note tells replicas, also where nobody can tell entries apart.
    if opened.is_nothing() {
        return opened;
    }
    let mut patch = patch_of(object, &json!({ANNOTATION: note.to_string()}));
    if object["webhooks"].as_array() != Some(&entries) {
        patch["webhooks"] = Value::Array(entries);
    }
    opened.patch = Some(patch);
    opened
}

/// Has the binding of an injector's policy warn where it denies.
pub fn binding(object: &Value, note: &Note) -> Opened {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let injector = name.strip_suffix(policy::SUFFIX);
    let is_about = injector.is_some_and(|injector| note.is_about(injector));
    let actions = &object["spec"]["validationActions"];
    let denies = actions
        .as_array()
        .is_some_and(|all| all.contains(&json!("Deny")));
    let before = &object["metadata"]["annotations"][BEFORE];
    if !is_about || !denies && before.is_null() {
        return Opened::default();
    }
    let mut annotations = json!({ANNOTATION: note.to_string()});
    if denies {
        annotations[BEFORE] = json!(actions.to_string());
    }
    let mut patch = patch_of(object, &annotations);
    if denies {
        patch["spec"] = json!({"validationActions": ["Warn", "Audit"]});
    }
    Opened {
        patch: Some(patch),
        off: vec![name.to_owned()],
        ..Opened::default()
    }
}

/// The injectors that a configuration's entries ask about: for the choice of one.
pub fn injectors(object: &Value) -> Vec<String> {
    let mut names: Vec<String> = asked_for(object).into_values().flatten().collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn asked_for(object: &Value) -> BTreeMap<String, Vec<String>> {
    let text = object["metadata"]["annotations"][ASKED_FOR].as_str();
    let read = text.and_then(|text| serde_json::from_str(text).ok());
    read.unwrap_or_default()
}

fn is_ours(entry: &Value) -> bool {
    let name = entry["name"].as_str().unwrap_or_default();
    name.ends_with(OUR_ENTRIES) && name != REACH_ENTRY
}

/// What an entry goes on asking for.
enum Left {
    /// Everything.
    All,
    /// What this condition says.
    Some(String),
    /// Nothing.
    Nothing,
    /// Not all, but nobody can tell what.
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
    let parts: Vec<&str> = required(entry).split(ALTERNATIVE).collect();
    if parts.len() != stays.len() {
        return Left::Unknown;
    }
    let parts = parts.into_iter().zip(stays).filter(|(_, stays)| *stays);
    let parts: Vec<&str> = parts.map(|(part, _)| part).collect();
    Left::Some(parts.join(ALTERNATIVE))
}

/// The condition that says which pods are asked about.
fn required(entry: &Value) -> &str {
    let mut conditions = entry["matchConditions"].as_array().into_iter().flatten();
    let found = conditions.find(|one| one["name"] == REQUIRED);
    let expression = found.and_then(|one| one["expression"].as_str());
    expression.unwrap_or_default()
}

/// Adds the condition to an entry, or changes it.
fn condition(entry: &mut Value, expression: &str) {
    let new = json!({"name": CONDITION, "expression": expression});
    let mut all = entry["matchConditions"].as_array().cloned();
    let all = all.get_or_insert_default();
    match all.iter_mut().find(|one| is_added(one)) {
        Some(own) => *own = new,
        None => all.push(new),
    }
    entry["matchConditions"] = json!(all);
}
