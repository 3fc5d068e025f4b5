//! Webhook entries on their way to being armed. Pure.
//!
//! An entry that is new, or was never armed, fails open until the API server has reached us by the
//! very client configuration it carries. One that is armed stays so, and by the client
//! configuration it was armed with: a new one (another address, another CA) is first proved by the
//! entry that only a dry run of ours meets, and the others follow.

use serde_json::{Value, json};

use crate::render::REACH_ENTRY;

use super::terms::entry_of;

const FAIL: &str = "Fail";
/// How the names of our entries end.
const OUR_ENTRIES: &str = ".meshgate.io";

/// Takes back what must not be armed yet in a configuration that was rendered as armed.
pub(super) fn hold_back(object: &mut Value, live: Option<&Value>) {
    for entry in entries_mut(object) {
        if !arms(entry) {
            continue;
        }
        let live = live.and_then(|live| entry_of(live, &entry["name"]));
        match live.filter(|live| live["failurePolicy"] == FAIL) {
            Some(armed) => entry["clientConfig"] = armed["clientConfig"].clone(),
            None => entry["failurePolicy"] = json!("Ignore"),
        }
    }
    keep_armed(object, live);
}

/// The entries of a webhook configuration; none of any other object.
pub(super) fn entries_mut(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    list_mut(object).into_iter().flatten()
}

fn list_mut(object: &mut Value) -> Option<&mut Vec<Value>> {
    object.get_mut("webhooks")?.as_array_mut()
}

/// Entries of ours that are armed and not wanted any more stay until those that take their place
/// are armed: another configuration gives entries other names, and a restart with it must not open
/// the gate for the time until the API server has reached us.
fn keep_armed(object: &mut Value, live: Option<&Value>) {
    let armed = live.and_then(|live| live["webhooks"].as_array());
    let is_ours = |entry: &&Value| {
        let name = entry["name"].as_str().unwrap_or_default();
        name.ends_with(OUR_ENTRIES) && arms(entry)
    };
    let is_wanted = |entry: &&Value| entry_of(object, &entry["name"]).is_some();
    let armed = armed.into_iter().flatten().filter(is_ours);
    let stay: Vec<Value> = armed.filter(|entry| !is_wanted(entry)).cloned().collect();
    if let Some(entries) = list_mut(object) {
        entries.extend(stay);
    }
}

/// How many entries are armed in the live configuration, of how many that are to be.
pub(super) fn armed(object: &Value, live: Option<&Value>) -> (usize, usize) {
    let entries = object["webhooks"].as_array().into_iter().flatten();
    let to_arm: Vec<&Value> = entries.filter(|entry| arms(entry)).collect();
    let is_armed = |entry: &&&Value| {
        let live = live.and_then(|live| entry_of(live, &entry["name"]));
        live.is_some_and(|live| live["failurePolicy"] == FAIL)
    };
    (to_arm.iter().filter(is_armed).count(), to_arm.len())
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
        json!({"name": name, "clientConfig": {"url": url}, "failurePolicy": policy})
    }

    #[test]
    fn what_is_armed_stays_until_what_takes_its_place_is() {
        let wanted = json!({"webhooks": [entry("new.gate.meshgate.io", "u", "Fail")]});
        let old = entry("old.gate.meshgate.io", "u", "Fail");
        let live = json!({"webhooks": [
            old,
            entry("open.gate.meshgate.io", "u", "Ignore"),
            entry("gate.example.test", "u", "Fail"),
        ]});
        let mut object = wanted;
        hold_back(&mut object, Some(&live));
        let waiting = entry("new.gate.meshgate.io", "u", "Ignore");
        assert_eq!(object["webhooks"], json!([waiting, old]));
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
