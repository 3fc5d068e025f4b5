//! Terms that others add to our namespaceSelectors stay (case 78). Pure.
//!
//! Under server-side apply a selector has one owner as a whole: what we apply must hold what
//! others have added, or it would be gone. Which of the live terms are theirs is told by what we
//! wrote before, noted in an annotation of the object: a term of ours that we do not want any more
//! goes, whoever else has written it too.

use serde_json::{Value, json};

use super::contains::same;
use super::entries::entries_mut;

/// Annotation with the terms that we wrote, as JSON, each once.
pub(super) const NOTE: &str = "meshgate.io/selector-terms";

/// Adds to the selectors of a webhook configuration the terms that others have added to the live
/// one, and the note of what is ours.
pub(super) fn adopt(object: &mut Value, live: Option<&Value>) {
    if !object["webhooks"].is_array() {
        return;
    }
    let mut own: Vec<Value> = Vec::new();
    let before = live.and_then(noted);
    for entry in entries_mut(object) {
        let wanted = terms(entry);
        own.extend(
            wanted
                .iter()
                .filter(|term| !has(&own, term))
                .cloned()
                .collect::<Vec<_>>(),
        );
        let live = live.and_then(|live| entry_of(live, &entry["name"]));
        let (Some(live), Some(before)) = (live, &before) else {
            continue;
        };
        let is_theirs = |term: &Value| !has(before, term) && !has(&wanted, term);
        let theirs: Vec<Value> = terms(live).into_iter().filter(is_theirs).collect();
        let labels = &live["namespaceSelector"]["matchLabels"];
        if entry["namespaceSelector"]["matchLabels"].is_null() && labels.is_object() {
            entry["namespaceSelector"]["matchLabels"] = labels.clone();
        }
        if !theirs.is_empty() {
            let all: Vec<Value> = wanted.into_iter().chain(theirs).collect();
            entry["namespaceSelector"]["matchExpressions"] = Value::Array(all);
        }
    }
    object["metadata"]["annotations"][NOTE] = json!(Value::Array(own).to_string());
}

/// The entry of a configuration with this name.
pub(super) fn entry_of<'v>(configuration: &'v Value, name: &Value) -> Option<&'v Value> {
    let mut entries = configuration["webhooks"].as_array()?.iter();
    entries.find(|entry| entry["name"] == *name)
}

/// What we wrote before, `None` if nobody can tell: then every term may be one of ours that is
/// out of date, and would narrow whom we are asked about. Whoever adds theirs adds them again.
fn noted(live: &Value) -> Option<Vec<Value>> {
    let note = live["metadata"]["annotations"][NOTE].as_str()?;
    serde_json::from_str(note).ok()
}

fn terms(entry: &Value) -> Vec<Value> {
    let terms = entry["namespaceSelector"]["matchExpressions"].as_array();
    terms.cloned().unwrap_or_default()
}

fn has(terms: &[Value], term: &Value) -> bool {
    terms.iter().any(|own| same(own, term))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{NOTE, adopt};

    fn term(key: &str) -> Value {
        json!({"key": key, "operator": "Exists"})
    }

    fn configuration(keys: &[&str]) -> Value {
        let terms: Vec<Value> = keys.iter().map(|key| term(key)).collect();
        let selector = json!({"matchExpressions": terms});
        json!({"metadata": {"name": "x"}, "webhooks": [
            {"name": "a", "namespaceSelector": selector},
            {"name": "b", "namespaceSelector": {"matchExpressions": [term("b")]}},
        ]})
    }

    fn keys(object: &Value, entry: usize) -> Vec<&str> {
        let terms = &object["webhooks"][entry]["namespaceSelector"]["matchExpressions"];
        let terms = terms.as_array().into_iter().flatten();
        terms.map(|term| term["key"].as_str().unwrap()).collect()
    }

    #[test]
    fn what_others_added_stays_and_what_we_no_longer_want_goes() {
        let mut first = configuration(&["one", "two"]);
        adopt(&mut first, None);
        assert_eq!(keys(&first, 0), ["one", "two"]);
        // Somebody adds a term, and one that we have elsewhere.
        let mut live = first;
        let terms = &mut live["webhooks"][0]["namespaceSelector"]["matchExpressions"];
        terms.as_array_mut().unwrap().push(term("control-plane"));
        let mut next = configuration(&["two", "three"]);
        adopt(&mut next, Some(&live));
        assert_eq!(keys(&next, 0), ["two", "three", "control-plane"]);
        assert_eq!(keys(&next, 1), ["b"]);
        // Ours are noted, theirs are not: they stay as long as they are there.
        let note = next["metadata"]["annotations"][NOTE].as_str().unwrap();
        assert!(note.contains("three") && !note.contains("one") && !note.contains("control"));
        let mut again = configuration(&["two", "three"]);
        adopt(&mut again, Some(&next));
        assert_eq!(again, next);
    }

    #[test]
    fn without_a_note_nothing_stays_that_nobody_can_attribute() {
        for note in [Value::Null, json!("x"), json!("{}")] {
            let mut live = configuration(&["one"]);
            live["metadata"]["annotations"] = json!({NOTE: note});
            let mut next = configuration(&["two"]);
            adopt(&mut next, Some(&live));
            assert_eq!(keys(&next, 0), ["two"]);
        }
    }

    #[test]
    fn other_kinds_are_left_alone() {
        let mut policy = json!({"metadata": {"name": "x"}, "spec": {}});
        adopt(&mut policy, None);
        assert_eq!(policy, json!({"metadata": {"name": "x"}, "spec": {}}));
    }
}
