//! The compiled rules against an evaluator written from the format's description alone: plain
//! maps, every rule tried in order, nothing prepared.

use std::collections::BTreeMap;

use meshgate_core::decision::requirement;
use meshgate_core::injector::rule::Outcome;
use meshgate_core::injector::{Injectors, PRESETS};
use meshgate_core::view::namespace::NamespaceView;
use meshgate_core::view::pod::PodView;
use meshgate_core::yaml::Document;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

type Map = BTreeMap<String, String>;

/// A pod and its namespace, as far as rules see them.
#[derive(Debug, Clone, Default)]
struct World {
    namespace: String,
    /// By the names of the format.
    keys: BTreeMap<&'static str, Map>,
}

const PLACES: [&str; 4] = [
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
fn key(term: &Value) -> (&'static str, &str) {
    let named = |place: &'static str| Some((place, term.get(place)?.as_str()?));
    PLACES.into_iter().find_map(named).unwrap()
}

/// Kubernetes' meaning: an absent key is not `in`, is `notIn`, does not exist.
fn holds(term: &Value, world: &World) -> bool {
    let (place, name) = key(term);
    let value = world.value(place, name);
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

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn terms(rule: &Value) -> impl Iterator<Item = &Value> {
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
struct Said {
    /// Injector, number of the rule, outcome, instance.
    claims: Vec<(String, usize, String, Option<String>)>,
    warnings: Vec<(String, String)>,
    opted_out: bool,
}

fn naive(profiles: &[Value], world: &World) -> Said {
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

fn compiled(injectors: &Injectors, world: &World) -> Said {
    let map = |place| world.keys.get(place).cloned().unwrap_or_default();
    let pod = json!({
        "metadata": {"labels": map("podLabel"), "annotations": map("podAnnotation")},
    })
    .to_string();
    let pod = PodView::read(&pod, injectors.keys()).unwrap();
    let (labels, annotations) = (map("namespaceLabel"), map("namespaceAnnotation"));
    let texts = |map: &Map| -> Vec<(String, String)> {
        map.iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let (labels, annotations) = (texts(&labels), texts(&annotations));
    let view = NamespaceView::new(
        &world.namespace,
        labels.iter().map(|(key, value)| (&**key, &**value)),
        annotations.iter().map(|(key, value)| (&**key, &**value)),
        injectors.keys(),
    );
    let requirement = requirement::of(&pod, &view, injectors);
    let claims = requirement.matches.iter().map(|matched| {
        let then = match matched.rule.then {
            Outcome::Required => "required",
            Outcome::NotRequired => "notRequired",
            Outcome::Invalid => "invalid",
        };
        assert_eq!(matched.is_invalid(), then == "invalid");
        assert_eq!(
            injectors.get(matched.number).unwrap().profile.name,
            matched.name()
        );
        let instance = matched.instance().map(str::to_owned);
        (
            matched.name().to_owned(),
            matched.rule.number,
            then.to_owned(),
            instance,
        )
    });
    let warnings = requirement.warnings.iter().map(|warning| {
        let text = warning.rule.warning(&warning.values).unwrap();
        (warning.injector.profile.name.clone(), text.into_owned())
    });
    Said {
        claims: claims.collect(),
        warnings: warnings.collect(),
        opted_out: requirement.opted_out,
    }
}

fn parse(injectors: &[Value]) -> Result<Injectors, String> {
    let configuration = json!({
        "apiVersion": "meshgate.io/v1alpha1",
        "kind": "Configuration",
        "injectors": injectors,
    });
    // JSON is YAML, and texts are quoted in it.
    Injectors::from_yaml("test.yaml", configuration.to_string().as_bytes())
        .map_err(|error| error.to_string())
}

fn preset(name: &str) -> Value {
    let (_, text) = PRESETS.into_iter().find(|(own, _)| *own == name).unwrap();
    Document::whole(name, text).parse().unwrap()
}

/// What decides about the world: keys of the profiles, with their values in all kinds of cases.
#[derive(Debug, Clone)]
struct Pick {
    key: Index,
    value: Index,
    change: u8,
}

fn picks() -> impl Strategy<Value = Vec<Pick>> {
    let pick = (any::<Index>(), any::<Index>(), any::<u8>());
    prop::collection::vec(
        pick.prop_map(|(key, value, change)| Pick { key, value, change }),
        0..7,
    )
}

fn world(profiles: &[Value], picks: &[Pick], namespace: Index) -> World {
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
fn settings() -> impl Strategy<Value = Value> {
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

fn lay_over(profile: &mut Value, over: &Value) {
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
        any::<bool>(),
    )
        .prop_map(|(place, name, mut term, fold)| {
            term[place] = json!(name);
            if fold && place.ends_with("Annotation") && term.get("exists").is_none() {
                term["fold"] = json!(true);
            }
            term
        })
}

fn rule() -> impl Strategy<Value = Value> {
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

/// A profile of those rules that the parser takes after the ones before them.
fn user_profile(name: &str, rules: Vec<Value>, extra: bool, settings: &Value) -> Option<Value> {
    let mut profile = json!({
        "name": name,
        "service": {"namespace": "own", "name": "own"},
        "instances": {
            "webhookLabels": ["example.com/rev"],
            "fallback": {"namespace": "own", "name": "own-{instance}"},
        },
        "options": {"extra": extra},
        "rules": [],
        "injected": [{"sidecar": "own"}],
    });
    lay_over(&mut profile, settings);
    for rule in rules {
        let mut longer = profile.clone();
        let more = [list(&profile["rules"]), &[rule]].concat();
        longer["rules"] = json!(more);
        if parse(std::slice::from_ref(&longer)).is_ok() {
            profile = longer;
        }
    }
    (!list(&profile["rules"]).is_empty()).then_some(profile)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn presets_agree_with_their_description(
        settings in prop::collection::vec(settings(), PRESETS.len()),
        switches in any::<[bool; 4]>(),
        worlds in prop::collection::vec((picks(), any::<Index>()), 60),
    ) {
        let [istio, first, no_init, consul] = switches;
        let mut entries = Vec::new();
        let mut profiles = Vec::new();
        for ((name, _), mut over) in PRESETS.into_iter().zip(settings) {
            match name {
                "istio" => over["options"] =
                    json!({"byDefault": istio, "podRevisionFirst": first, "noInit": no_init}),
                "consul" => over["options"] = json!({"byDefault": consul}),
                _ => {}
            }
            let mut profile = preset(name);
            lay_over(&mut profile, &over);
            profiles.push(profile);
            over["preset"] = json!(name);
            entries.push(over);
        }
        let injectors = parse(&entries).unwrap();
        for (picks, namespace) in worlds {
            // One preset's keys, or those of all.
            let one = usize::from(picks.first().map_or(0, |pick| pick.change)) % (2 * PRESETS.len());
            let about = profiles.get(one).map_or(&profiles[..], std::slice::from_ref);
            let world = world(about, &picks, namespace);
            prop_assert_eq!(compiled(&injectors, &world), naive(&profiles, &world), "{:?}", world);
        }
    }

    #[test]
    fn profiles_of_users_agree_with_their_description(
        rules in prop::collection::vec(prop::collection::vec(rule(), 1..6), 2),
        extra in any::<[bool; 2]>(),
        settings in prop::collection::vec(settings(), 2),
        worlds in prop::collection::vec((picks(), any::<Index>()), 60),
    ) {
        let names = ["one", "two"].into_iter().zip(rules).zip(extra).zip(settings);
        let profiles: Vec<Value> = names
            .filter_map(|(((name, rules), extra), settings)| {
                user_profile(name, rules, extra, &settings)
            })
            .collect();
        prop_assume!(!profiles.is_empty());
        let injectors = parse(&profiles).unwrap();
        for (picks, namespace) in worlds {
            let world = world(&profiles, &picks, namespace);
            prop_assert_eq!(compiled(&injectors, &world), naive(&profiles, &world), "{:?}", world);
        }
    }
}
