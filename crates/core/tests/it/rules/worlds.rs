//! Random pods, namespaces, and profiles of users.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::described::{PLACES, World, key, terms};

/// What decides about the world: keys of the profiles, with their values in all kinds of cases.
#[derive(Debug, Clone)]
pub(super) struct Pick {
    key: Index,
    value: Index,
    pub(super) change: u8,
}

pub(super) fn picks() -> impl Strategy<Value = Vec<Pick>> {
    let pick = (any::<Index>(), any::<Index>(), any::<u8>());
    prop::collection::vec(
        pick.prop_map(|(key, value, change)| Pick { key, value, change }),
        0..7,
    )
}

pub(super) fn world(profiles: &[Value], picks: &[Pick], namespace: Index) -> World {
    let rules = profiles
        .iter()
        .flat_map(|profile| profile["rules"].as_array().unwrap());
    let named: Vec<(&Value, &'static str, String)> = rules
        .flat_map(terms)
        .map(|term| (term, key(term).0, key(term).1.to_owned()))
        .collect();
    let mut namespaces = vec!["orders".to_owned(), "other".to_owned()];
    for profile in profiles {
        namespaces.push(profile["service"]["namespace"].as_str().unwrap().to_owned());
        let lists = [
            &profile["namespaces"]["only"],
            &profile["namespaces"]["except"],
        ];
        let lists = lists.into_iter().flat_map(Value::as_array).flatten();
        namespaces.extend(lists.map(|name| name.as_str().unwrap().to_owned()));
    }
    let mut world = World {
        namespace: namespace.get(&namespaces).clone(),
        ..World::default()
    };
    for pick in picks.iter().filter(|_| !named.is_empty()) {
        let (_, place, name) = pick.key.get(&named);
        let values = named
            .iter()
            .filter(|(_, own, key)| (own, key) == (place, name));
        let values: Vec<&str> = values
            .flat_map(|(term, ..)| [&term["in"], &term["notIn"]])
            .flat_map(Value::as_array)
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let value = if values.is_empty() {
            "v1"
        } else {
            pick.value.get(&values)
        };
        let value = match pick.change % 8 {
            0 => value.to_uppercase(),
            1 => value.chars().rev().collect(),
            2 => String::new(),
            _ => value.to_owned(),
        };
        world
            .keys
            .entry(place)
            .or_default()
            .insert(name.clone(), value);
    }
    for place in PLACES {
        let noise = world.keys.entry(place).or_default();
        noise.insert("app.kubernetes.io/name".to_owned(), "shop".to_owned());
    }
    world
}

/// Mode and scope over a profile.
pub(super) fn settings() -> impl Strategy<Value = Value> {
    let names = || {
        prop::collection::hash_set(
            select(&["orders", "other", "own", "istio-system"][..]),
            1..3,
        )
    };
    let scope = prop_oneof![
        2 => Just(json!(null)),
        1 => names().prop_map(|names| json!({"only": names})),
        1 => names().prop_map(|names| json!({"except": names})),
    ];
    let mode = select(&["enforce", "enforce", "enforce", "warn", "disabled"][..]);
    (mode, scope).prop_map(|(mode, scope)| {
        if scope.is_null() {
            json!({"mode": mode})
        } else {
            json!({"mode": mode, "namespaces": scope})
        }
    })
}

pub(super) fn lay_over(profile: &mut Value, over: &Value) {
    for (key, value) in over.as_object().unwrap() {
        match (profile.get_mut(key), key.as_str()) {
            (Some(Value::Object(options)), "options") => {
                options.extend(value.as_object().unwrap().clone());
            }
            _ => profile[key] = value.clone(),
        }
    }
}

fn term() -> impl Strategy<Value = Value> {
    let value = select(&["", "on", "On", "off", "y", "maybe"][..]);
    let values = prop::collection::btree_set(value, 1..3);
    let test = prop_oneof![
        3 => values.clone().prop_map(|values| json!({"in": values})),
        2 => values.prop_map(|values| json!({"notIn": values})),
        1 => any::<bool>().prop_map(|exists| json!({"exists": exists})),
    ];
    (
        select(&PLACES[..]),
        select(&["k", "example.com/k"][..]),
        test,
        any::<[bool; 2]>(),
    )
        .prop_map(|(place, name, mut term, ways)| {
            term[place] = json!(name);
            for (way, is_on) in ["fold", "trim"].into_iter().zip(ways) {
                if is_on && place.ends_with("Annotation") && term.get("exists").is_none() {
                    term[way] = json!(true);
                }
            }
            term
        })
}

pub(super) fn rule() -> impl Strategy<Value = Value> {
    let then = select(&["required", "required", "notRequired", "invalid"][..]);
    let instance = select(&["constant", "key"][..]);
    let warn = prop::option::of(select(&["careful", "found {value} here"][..]));
    let option = prop::option::weighted(0.3, Just("extra"));
    (
        prop::collection::vec(term(), 0..4),
        then,
        instance,
        warn,
        option,
    )
        .prop_map(|(when, then, instance, warn, option)| {
            let mut rule = json!({"when": when, "then": then});
            if then == "required" {
                rule["instance"] = match (instance, when.first()) {
                    ("key", Some(term)) => {
                        let (place, name) = key(term);
                        json!({place: name})
                    }
                    _ => json!("default"),
                };
            }
            if let Some(warn) = warn {
                rule["warn"] = json!(warn);
            }
            if let Some(option) = option {
                rule["option"] = json!(option);
            }
            rule
        })
}
