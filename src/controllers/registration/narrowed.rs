//! What others have added stays (case 78), but may narrow whom we are asked about: which entries, and
//! by what. Pure.

use std::fmt;

use serde_json::{Map, Value};

use super::contains::same;
use super::terms::entry_of;

/// A webhook entry, or a policy, that is asked about fewer pods than wanted, or may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Narrowed {
    /// Its name.
    name: String,
    /// What was added.
    by: Vec<String>,
}

impl fmt::Display for Narrowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (somebody added {})", self.name, self.by.join(", "))
    }
}

/// What of an object is narrowed: entries of a webhook configuration, or a policy as a whole.
pub(super) fn narrowed(wanted: &Value, live: &Value) -> Vec<Narrowed> {
    let Some(entries) = wanted["webhooks"].as_array() else {
        let one = one(&wanted["metadata"]["name"], &wanted["spec"], &live["spec"]);
        return one.into_iter().collect();
    };
    let entries = entries.iter().filter_map(|entry| {
        let name = &entry["name"];
        one(name, entry, entry_of(live, name)?)
    });
    entries.collect()
}

fn one(name: &Value, wanted: &Value, live: &Value) -> Option<Narrowed> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let has = |place: &str, one: &Value| list(wanted, place).any(|own| same(own, one));
    let conditions = list(live, "/matchConditions")
        .filter(|one| !list(wanted, "/matchConditions").any(|own| own["name"] == one["name"]))
        .map(|one| format!("the matchCondition {}", text(&one["name"])));
    let place = "/namespaceSelector/matchExpressions";
    let terms = list(live, place).filter(|one| !has(place, one)).map(|one| {
        format!(
            "{} {} to its namespaceSelector",
            text(&one["key"]),
            text(&one["operator"])
        )
    });
    let labels = |value: &'_ Value| -> Map<String, Value> {
        let labels = value["namespaceSelector"]["matchLabels"].as_object();
        labels.cloned().unwrap_or_default()
    };
    let own = labels(wanted);
    let labels = labels(live).into_iter();
    let labels = labels
        .filter(|(key, value)| own.get(key) != Some(value))
        .map(|(key, value)| format!("{key}={} to its namespaceSelector", text(&value)));
    let by: Vec<String> = conditions.chain(terms).chain(labels).collect();
    (!by.is_empty()).then(|| Narrowed {
        name: text(name),
        by,
    })
}

fn list<'v>(value: &'v Value, place: &str) -> impl Iterator<Item = &'v Value> {
    let list = value.pointer(place).and_then(Value::as_array);
    list.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::narrowed;

    fn told(wanted: &Value, live: &Value) -> Vec<String> {
        let narrowed = narrowed(wanted, live);
        narrowed.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_somebody_added_is_named_with_the_entry() {
        let conditions = json!([{"name": "c", "expression": "1"}]);
        let terms = json!([{"key": "k", "operator": "In", "values": ["a"]}]);
        let entry = |name: &str| {
            json!({
                "name": name,
                "matchConditions": conditions,
                "namespaceSelector": {"matchExpressions": terms},
            })
        };
        let wanted = json!({"metadata": {"name": "x"}, "webhooks": [entry("a"), entry("b")]});
        assert_eq!(told(&wanted, &wanted), [""; 0]);
        let mut live = wanted.clone();
        live["webhooks"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "theirs"}));
        live["webhooks"][0]["failurePolicy"] = json!("Ignore");
        assert_eq!(
            told(&wanted, &live),
            [""; 0],
            "no matter of whom it asks about"
        );
        let add = |list: &mut Value, one: Value| list.as_array_mut().unwrap().push(one);
        let condition = json!({"name": "off", "expression": "false"});
        add(&mut live["webhooks"][0]["matchConditions"], condition);
        let selector = &mut live["webhooks"][1]["namespaceSelector"];
        let term = json!({"key": "control-plane", "operator": "DoesNotExist"});
        add(&mut selector["matchExpressions"], term);
        selector["matchLabels"] = json!({"team": "a"});
        assert_eq!(
            told(&wanted, &live),
            [
                "a (somebody added the matchCondition off)",
                "b (somebody added control-plane DoesNotExist to its namespaceSelector, team=a to its \
                 namespaceSelector)",
            ]
        );
    }

    #[test]
    fn a_policy_is_one_entry() {
        let wanted = json!({"metadata": {"name": "p"}, "spec": {"matchConditions": []}});
        let mut live = wanted.clone();
        assert_eq!(told(&wanted, &live), [""; 0]);
        live["spec"]["matchConditions"] = json!([{"name": "off", "expression": "false"}]);
        assert_eq!(
            told(&wanted, &live),
            ["p (somebody added the matchCondition off)"]
        );
    }
}
