//! Rules by the format's description alone: plain maps, every rule tried in order, nothing prepared.

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub(super) type Map = BTreeMap<String, String>;

/// A pod and its namespace, as far as rules see them.
#[derive(Debug, Clone, Default)]
pub(super) struct World {
    pub(super) namespace: String,
    /// By the names of the format.
    pub(super) keys: BTreeMap<&'static str, Map>,
}

pub(super) const PLACES: [&str; 4] = [
    "podLabel",
    "podAnnotation",
    "namespaceLabel",
    "namespaceAnnotation",
];

impl World {
    fn value(&self, place: &str, key: &str) -> Option<&str> {
        self.keys.get(place)?.get(key).map(String::as_str)
    }

    /// The same without what is on the pod, or on the namespace.
    fn without(&self, side: &str) -> Self {
        let mut world = self.clone();
        world.keys.retain(|place, _| !place.starts_with(side));
        world
    }
}

/// The place and name of the key that a term, or an instance, names.
pub(super) fn key(term: &Value) -> (&'static str, &str) {
    let named = |place: &'static str| Some((place, term.get(place)?.as_str()?));
    PLACES.into_iter().find_map(named).unwrap()
}

/// Kubernetes' meaning: an absent key is not `in`, is `notIn`, does not exist.
fn holds(term: &Value, world: &World) -> bool {
    let (place, name) = key(term);
    let value = world.value(place, name);
    let trim = term["trim"] == true;
    let value = value.map(|value| if trim { value.trim() } else { value });
    let fold = term["fold"] == true;
    let is_in = |list: &Value| {
        let list = list
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one.as_str().unwrap());
        value.is_some_and(|value| {
            list.into_iter()
                .any(|one| one == value || fold && one.eq_ignore_ascii_case(value))
        })
    };
    if let Some(list) = term.get("in") {
        is_in(list)
    } else if let Some(list) = term.get("notIn") {
        !is_in(list)
    } else {
        value.is_some() == (term["exists"] == true)
    }
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

pub(super) fn terms(rule: &Value) -> impl Iterator<Item = &Value> {
    rule["when"].as_array().unwrap().iter()
}

/// The first rule whose terms hold, and its number.
fn first<'p>(profile: &'p Value, world: &World) -> Option<(usize, &'p Value)> {
    let is_on = |rule: &Value| match rule["option"].as_str() {
        Some(option) => profile["options"][option] == true,
        None => true,
    };
    let rules = (1..).zip(list(&profile["rules"]));
    rules
        .into_iter()
        .find(|(_, rule)| is_on(rule) && terms(rule).all(|term| holds(term, world)))
}

/// Whether a rule wants a key of the pod to be there.
fn asked_by_pod(rule: &Value) -> bool {
    terms(rule).any(|term| {
        key(term).0.starts_with("pod") && (term.get("in").is_some() || term["exists"] == true)
    })
}

/// The rule that decides.
fn decide<'p>(profile: &'p Value, world: &World) -> Option<(usize, &'p Value)> {
    let listed = |list: &Value| {
        list.as_array()
            .is_some_and(|l| l.contains(&json!(world.namespace)))
    };
    let scope = &profile["namespaces"];
    let is_outside =
        listed(&scope["except"]) || scope.get("only").is_some_and(|only| !listed(only));
    if profile["mode"] == "disabled" || is_outside {
        return None;
    }
    if profile["service"]["namespace"] != json!(world.namespace) {
        return first(profile, world);
    }
    // In the injector's own namespace only pod-level opt-in counts (design sections 5 and 7), if
    // the injector itself would act there (profiles.md).
    let (number, rule) = first(profile, &world.without("namespace"))?;
    if rule["then"] == "notRequired" {
        return Some((number, rule));
    }
    match first(profile, world) {
        Some((number, off)) if off["then"] == "notRequired" => Some((number, off)),
        _ if !asked_by_pod(rule) => None,
        // The pod asks; the namespace may still say which instance it gets.
        Some((number, marked)) if marked["then"] == "required" && rule["then"] == "required" => {
            Some((number, marked))
        }
        _ => Some((number, rule)),
    }
}

/// What is said of a pod, in one form for both evaluators.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Said {
    /// Injector, number of the rule, outcome, instance.
    pub(super) claims: Vec<(String, usize, String, Option<String>)>,
    pub(super) warnings: Vec<(String, String)>,
    pub(super) opted_out: bool,
}

pub(super) fn naive(profiles: &[Value], world: &World) -> Said {
    let mut said = Said::default();
    for profile in profiles {
        let Some((number, rule)) = decide(profile, world) else {
            continue;
        };
        let name = profile["name"].as_str().unwrap().to_owned();
        if let Some(warn) = rule["warn"].as_str() {
            let (place, key) = terms(rule).last().map(key).unwrap_or_default();
            let value = world.value(place, key).unwrap_or_default();
            said.warnings
                .push((name.clone(), warn.replace("{value}", value)));
        }
        let then = rule["then"].as_str().unwrap();
        if then != "notRequired" {
            let instance = rule
                .get("instance")
                .map(|instance| match instance.as_str() {
                    Some(constant) => constant.to_owned(),
                    None => {
                        let (place, key) = key(instance);
                        world.value(place, key).unwrap().to_owned()
                    }
                });
            said.claims.push((name, number, then.to_owned(), instance));
            continue;
        }
        let silent = decide(profile, &world.without("pod"));
        said.opted_out |=
            asked_by_pod(rule) && silent.is_some_and(|(_, rule)| rule["then"] == "required");
    }
    said
}
