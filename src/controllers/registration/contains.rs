//! Whether a live object has all that we want of it, whatever others have added.

use serde_json::{Map, Value};

/// Fields that are ours as a whole: more in them would narrow whom we are asked about, and by
/// means that are in the hands of whoever creates a pod (`objectSelector`).
const WHOLE: [&str; 4] = [
    "objectSelector",
    "rules",
    "matchConstraints",
    "matchResources",
];

/// True if everything that `wanted` says is so in `live`.
///
/// Lists whose entries have names (webhooks, match conditions) or UIDs (owners) are compared entry
/// by entry, expressions of a selector as a set; in these, what others have added may stay. All
/// other lists are compared as they are. Nothing and the empty list or map are the same, as the
/// API server drops them.
pub(super) fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (_, wanted) if is_nothing(wanted) => true,
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, value)| {
            let own = live.get(key).unwrap_or(&Value::Null);
            match key.as_str() {
                "matchExpressions" => has_all(own, value),
                key if WHOLE.contains(&key) => same(own, value),
                _ => contains(own, value),
            }
        }),
        (Value::Array(live), Value::Array(wanted)) => match identity(wanted) {
            Some(by) => wanted.iter().all(|entry| {
                let own = live.iter().find(|own| own[by] == entry[by]);
                own.is_some_and(|own| contains(own, entry))
            }),
            None => {
                live.len() == wanted.len()
                    && live
                        .iter()
                        .zip(wanted)
                        .all(|(own, entry)| contains(own, entry))
            }
        },
        (live, wanted) => live == wanted,
    }
}

/// The key by which the entries of a list are told apart, if they are.
fn identity(list: &[Value]) -> Option<&'static str> {
    let all_have = |key: &str| list.iter().all(|entry| entry[key].is_string());
    ["uid", "name"].into_iter().find(|key| all_have(key))
}

fn has_all(live: &Value, wanted: &Value) -> bool {
    let live = live.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut wanted = wanted.as_array().into_iter().flatten();
    wanted.all(|one| live.iter().any(|own| same(own, one)))
}

/// Whether two values say the same to the API server.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    let nothing = is_nothing(one) && is_nothing(other);
    nothing || pruned(one) == pruned(other)
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The value without fields that hold nothing.
fn pruned(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| (key.clone(), pruned(value)));
            Value::Object(
                pairs
                    .filter(|(_, value)| !is_nothing(value))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(list) => Value::Array(list.iter().map(pruned).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::contains;

    #[test]
    fn what_others_add_is_no_difference_and_what_they_change_is_one() {
        let wanted = json!({"webhooks": [{
            "name": "a",
            "rules": [{"operations": ["CREATE"]}],
            "objectSelector": {},
            "failurePolicy": "Fail",
            "namespaceSelector": {"matchExpressions": [
                {"key": "k", "operator": "Exists"},
                {"key": "n", "operator": "NotIn", "values": ["x", "y"]},
            ]},
            "matchConditions": [{"name": "c", "expression": "1"}, {"name": "d", "expression": "2"}],
        }]});
        assert!(contains(&wanted, &wanted));
        type Edit = fn(&mut Value);
        let fine: [Edit; 6] = [
            |live| live["metadata"] = json!({"labels": {"x": "y"}}),
            |live| {
                live["webhooks"]
                    .as_array_mut()
                    .unwrap()
                    .insert(0, json!({"name": "z"}))
            },
            |live| {
                let terms = &mut live["webhooks"][0]["namespaceSelector"]["matchExpressions"];
                let terms = terms.as_array_mut().unwrap();
                terms.push(json!({"key": "control-plane", "operator": "DoesNotExist"}));
                terms.reverse();
            },
            |live| {
                let conditions = live["webhooks"][0]["matchConditions"]
                    .as_array_mut()
                    .unwrap();
                conditions.insert(0, json!({"name": "other", "expression": "false"}));
            },
            |live| live["webhooks"][0]["objectSelector"] = Value::Null,
            |live| live["webhooks"][0]["timeoutSeconds"] = json!(9),
        ];
        for (number, edit) in fine.into_iter().enumerate() {
            let mut live = wanted.clone();
            edit(&mut live);
            assert!(contains(&live, &wanted), "{number}: {live}");
        }
        let changed: [Edit; 9] = [
            |live| live["webhooks"] = json!([]),
            |live| live["webhooks"][0]["name"] = json!("b"),
            |live| live["webhooks"][0]["failurePolicy"] = json!("Ignore"),
            |live| live["webhooks"][0]["rules"][0]["operations"] = json!(["CREATE", "UPDATE"]),
            |live| live["webhooks"][0]["rules"] = json!([]),
            |live| live["webhooks"][0]["objectSelector"] = json!({"matchLabels": {"a": "b"}}),
            |live| live["webhooks"][0]["matchConditions"][0]["expression"] = json!("false"),
            |live| {
                let term = &mut live["webhooks"][0]["namespaceSelector"]["matchExpressions"][1];
                term["values"] = json!(["x"]);
            },
            |live| live["webhooks"][0]["namespaceSelector"] = json!({}),
        ];
        for (number, edit) in changed.into_iter().enumerate() {
            let mut live = wanted.clone();
            edit(&mut live);
            assert!(!contains(&live, &wanted), "{number}: {live}");
        }
    }

    /// A binding that holds everywhere says so, so that one that somebody narrowed is put right.
    #[test]
    fn a_binding_that_somebody_narrowed_is_a_difference() {
        let wanted = json!({"spec": {
            "policyName": "a",
            "matchResources":
                {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}},
        }});
        assert!(contains(&wanted, &wanted));
        for (selector, value) in [
            ("namespaceSelector", json!({"matchLabels": {"no": "such"}})),
            (
                "objectSelector",
                json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
            ),
            ("resourceRules", json!([{"operations": ["DELETE"]}])),
            ("excludeResourceRules", json!([{"operations": ["CREATE"]}])),
        ] {
            let mut narrowed = wanted.clone();
            narrowed["spec"]["matchResources"][selector] = value;
            assert!(!contains(&narrowed, &wanted), "{narrowed}");
        }
        let mut unsaid = wanted.clone();
        unsaid["spec"]["matchResources"] = Value::Null;
        assert!(!contains(&unsaid, &wanted), "written once after an update");
    }

    #[test]
    fn nothing_is_what_the_api_server_makes_of_it() {
        assert!(contains(&json!({"rules": null}), &json!({"rules": []})));
        assert!(contains(&json!({}), &json!({"rules": [], "spec": {}})));
        assert!(!contains(
            &json!({"rules": [{"verbs": ["*"]}]}),
            &json!({"rules": []})
        ));
        let owner = |uid| json!({"ownerReferences": [{"uid": uid, "name": "meshgate"}]});
        assert!(!contains(&owner("1"), &owner("2")));
    }
}
