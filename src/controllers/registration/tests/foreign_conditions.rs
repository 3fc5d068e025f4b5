use serde_json::{Value, json};

use super::parsed;
use crate::controllers::registration::foreign_conditions::{NOTE, adopt, contains, narrowed};

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

/// A binding that holds everywhere says so, so that a narrowed one is put right.
#[test]
fn a_narrowed_binding_is_a_difference() {
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
/// What is written where this is wanted.
fn adopted(wanted: &Value, live: Option<&Value>) -> Value {
    let mut object = parsed(wanted);
    adopt(&mut object, live.map(parsed).as_ref());
    object.to_value()
}

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
    let first = adopted(&configuration(&["one", "two"]), None);
    assert_eq!(keys(&first, 0), ["one", "two"]);
    // Another client adds a term.
    let mut live = first;
    let terms = &mut live["webhooks"][0]["namespaceSelector"]["matchExpressions"];
    terms.as_array_mut().unwrap().push(term("control-plane"));
    let next = adopted(&configuration(&["two", "three"]), Some(&live));
    assert_eq!(keys(&next, 0), ["two", "three", "control-plane"]);
    assert_eq!(keys(&next, 1), ["b"]);
    // Ours are noted, theirs are not: they stay as long as they are there.
    let note = next["metadata"]["annotations"][NOTE].as_str().unwrap();
    assert!(note.contains("three") && !note.contains("one") && !note.contains("control"));
    let again = adopted(&configuration(&["two", "three"]), Some(&next));
    assert_eq!(again, next);
}

#[test]
fn without_a_note_only_wanted_terms_stay() {
    for annotations in [json!({}), json!({NOTE: "x"}), json!({NOTE: "{}"})] {
        let mut live = configuration(&["one"]);
        live["metadata"]["annotations"] = annotations;
        let next = adopted(&configuration(&["two"]), Some(&live));
        assert_eq!(keys(&next, 0), ["two"]);
    }
}

#[test]
fn other_kinds_are_left_alone() {
    let kind = "ValidatingAdmissionPolicy";
    let policy = json!({"kind": kind, "metadata": {"name": "x"}, "spec": {}});
    assert_eq!(adopted(&policy, None), policy);
}
fn told(wanted: &Value, live: &Value) -> Vec<String> {
    let narrowed = narrowed(&parsed(wanted), &parsed(live));
    narrowed.iter().map(ToString::to_string).collect()
}

#[test]
fn what_another_client_added_is_named_with_the_entry() {
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
    let term = json!({"key": "control-plane", "operator": "Exists"});
    add(&mut selector["matchExpressions"], term);
    // AKS gives these to every webhook.
    for (key, operator, values) in [
        ("control-plane", "DoesNotExist", json!(null)),
        ("control-plane", "NotIn", json!(["true"])),
        ("kubernetes.azure.com/managedby", "NotIn", json!(["aks"])),
    ] {
        let term = json!({"key": key, "operator": operator, "values": values});
        add(&mut selector["matchExpressions"], term);
    }
    selector["matchLabels"] = json!({"team": "a"});
    assert_eq!(
        told(&wanted, &live),
        [
            "a (another client added the matchCondition off)",
            "b (another client added control-plane Exists to its namespaceSelector, team=a to its \
             namespaceSelector)",
        ]
    );
}

/// A term that only looks like one of AKS' may spare any namespace.
#[test]
fn no_other_term_is_taken_for_one_of_aks() {
    let wanted = configuration(&["one"]);
    for term in [
        json!({"key": "control-plane", "operator": "NotIn", "values": ["true", "orders"]}),
        json!({"key": "kubernetes.azure.com/managedby", "operator": "In", "values": ["aks"]}),
        json!({"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["me"]}),
    ] {
        let mut live = wanted.clone();
        let terms = &mut live["webhooks"][0]["namespaceSelector"]["matchExpressions"];
        terms.as_array_mut().unwrap().push(term.clone());
        assert_eq!(told(&wanted, &live).len(), 1, "{term}");
    }
}

#[test]
fn a_policy_is_one_entry() {
    let kind = "ValidatingAdmissionPolicy";
    let spec = json!({"matchConditions": []});
    let wanted = json!({"kind": kind, "metadata": {"name": "p"}, "spec": spec});
    let mut live = wanted.clone();
    assert_eq!(told(&wanted, &live), [""; 0]);
    live["spec"]["matchConditions"] = json!([{"name": "off", "expression": "false"}]);
    assert_eq!(
        told(&wanted, &live),
        ["p (another client added the matchCondition off)"]
    );
}
