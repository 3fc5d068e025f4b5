//! Webhook entries on their way to being armed. Pure.
//!
//! An entry that is new, or was never armed, fails open until the API server has reached us by the
//! very client configuration it carries. One that is armed stays so, and by the client
//! configuration it was armed with: a new one (another address, another CA) is first proved by the
//! entry that only a dry run of ours meets, and the others follow.

use serde_json::{Value, json};

use crate::break_glass;
use crate::render::{self, ASKED_FOR, FailurePolicy, REACH_ENTRY};

use super::terms::{self, entry_of};

const FAIL: &str = "Fail";
/// Annotation with a hash of whom our entries ask about. Names of entries do not tell: another
/// configuration may give the same name to other namespaces.
const NOTE: &str = "meshgate.io/entries";
/// How the names of our entries end.
const OUR_ENTRIES: &str = ".meshgate.io";

/// Notes in a configuration as it is wanted whom its entries ask about.
pub(super) fn note(object: &mut Value) {
    let entries = entries_mut(object).map(|entry| {
        let fields = ["name", "rules", "namespaceSelector", "matchConditions"];
        json!(fields.map(|field| &entry[field])).to_string()
    });
    let all: Vec<String> = entries.collect();
    if !all.is_empty() {
        object["metadata"]["annotations"][NOTE] = json!(render::hash(&all.join("\n")));
    }
}

/// Whether what is armed was written for another configuration than what is wanted.
pub(super) fn is_of_another(live: &Value, wanted: &Value) -> bool {
    let note = |object: &Value| object["metadata"]["annotations"][NOTE].clone();
    is_any_armed(live) && note(live) != note(wanted)
}

/// Whether an entry of ours is armed.
pub(super) fn is_any_armed(live: &Value) -> bool {
    let mut entries = live["webhooks"].as_array().into_iter().flatten();
    entries.any(|entry| is_ours(entry) && arms(entry))
}

/// Leaves everything as it was armed, but for the entry that proves how we are called: until this
/// configuration can be armed as a whole, no namespace may be asked about less, nor by an entry that
/// is not armed. Of nothing live only that entry is left.
pub(super) fn keep(object: &mut Value, live: &Value) {
    for note in [NOTE, ASKED_FOR, terms::NOTE] {
        let annotations = &mut object["metadata"]["annotations"];
        let kept = &live["metadata"]["annotations"][note];
        if !kept.is_null() {
            annotations[note] = kept.clone();
        } else if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove(note);
        }
    }
    let live = live["webhooks"].as_array().into_iter().flatten();
    let kept = live.filter(|entry| is_ours(entry) && entry["name"] != REACH_ENTRY);
    let kept: Vec<Value> = kept.cloned().collect();
    if let Some(entries) = list_mut(object) {
        entries.retain(|entry| entry["name"] == REACH_ENTRY);
        entries.splice(..0, kept);
    }
}

/// Whether it has the entry that proves how we are called.
pub(super) fn prove_reach(object: &Value) -> bool {
    entry_of(object, &json!(REACH_ENTRY)).is_some()
}

/// Takes back what must not be armed yet in a configuration that was rendered as armed.
pub(super) fn hold_back(object: &mut Value, live: Option<&Value>) {
    for entry in entries_mut(object) {
        if !arms(entry) {
            continue;
        }
        let live = live.and_then(|live| entry_of(live, &entry["name"]));
        match live.filter(|live| live["failurePolicy"] == FAIL) {
            Some(armed) => entry["clientConfig"] = armed["clientConfig"].clone(),
            None => {
                let open = FailurePolicy::Ignore;
                entry["failurePolicy"] = json!(open.as_str());
                entry["timeoutSeconds"] = json!(open.timeout_seconds());
            }
        }
    }
}

/// The entries of a webhook configuration; none of any other object.
pub(super) fn entries_mut(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    list_mut(object).into_iter().flatten()
}

fn list_mut(object: &mut Value) -> Option<&mut Vec<Value>> {
    object.get_mut("webhooks")?.as_array_mut()
}

/// How many entries are armed in the live configuration, of how many that are to be. None of those
/// that ask for another configuration.
pub(super) fn armed(object: &Value, live: Option<&Value>) -> (usize, usize) {
    let mut noted = object.clone();
    note(&mut noted);
    let live = live.filter(|live| !is_of_another(live, &noted));
    let entries = object["webhooks"].as_array().into_iter().flatten();
    let to_arm: Vec<&Value> = entries.filter(|entry| arms(entry)).collect();
    let is_armed = |entry: &&&Value| {
        let live = live.and_then(|live| entry_of(live, &entry["name"]));
        live.is_some_and(|live| live["failurePolicy"] == FAIL && !break_glass::is_off(live))
    };
    (to_arm.iter().filter(is_armed).count(), to_arm.len())
}

fn is_ours(entry: &Value) -> bool {
    let name = entry["name"].as_str().unwrap_or_default();
    name.ends_with(OUR_ENTRIES)
}

/// Whether the entry is one that fails closed once armed.
fn arms(entry: &Value) -> bool {
    entry["failurePolicy"] == FAIL && entry["name"] != REACH_ENTRY
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{armed, hold_back};
    use crate::render::REACH_ENTRY;

    fn entry(name: &str, url: &str, policy: &str) -> Value {
        let seconds = if policy == "Fail" { 5 } else { 2 };
        json!({
            "name": name,
            "clientConfig": {"url": url},
            "failurePolicy": policy,
            "timeoutSeconds": seconds,
        })
    }

    #[test]
    fn an_entry_is_never_armed_by_a_client_configuration_that_was_not_reached() {
        let wanted = json!({"webhooks": [
            entry(REACH_ENTRY, "new", "Fail"),
            entry("pods", "new", "Fail"),
            entry("warn", "new", "Ignore"),
        ]});
        // (what is live, what is written)
        let table = [
            (None, entry("pods", "new", "Ignore")),
            (
                Some(entry("pods", "old", "Ignore")),
                entry("pods", "new", "Ignore"),
            ),
            (
                Some(entry("pods", "old", "Fail")),
                entry("pods", "old", "Fail"),
            ),
            (
                Some(entry("pods", "new", "Fail")),
                entry("pods", "new", "Fail"),
            ),
            (
                Some(entry("other", "new", "Fail")),
                entry("pods", "new", "Ignore"),
            ),
        ];
        for (live, expected) in table {
            let live = live.map(|entry| json!({"webhooks": [entry]}));
            let mut object = wanted.clone();
            hold_back(&mut object, live.as_ref());
            assert_eq!(
                object["webhooks"][0], wanted["webhooks"][0],
                "always new and closed"
            );
            assert_eq!(object["webhooks"][1], expected, "{live:?}");
            assert_eq!(object["webhooks"][2], wanted["webhooks"][2]);
            let closed = expected["failurePolicy"] == "Fail";
            assert_eq!(armed(&wanted, Some(&object)), (usize::from(closed), 1));
        }
        assert_eq!(armed(&wanted, None), (0, 1));
    }
}
