//! Dead rules, by brute force: a rule is dead exactly if no combination of values reaches it.

use proptest::prelude::*;

use super::{Flaw, first_flaw};
use crate::injector::Injectors;
use crate::injector::keys::Keys;
use crate::injector::rule::{InstanceSource, Key, Outcome, Place, Rule, Term, Test};
use crate::injector::values::{KeyValues, NO_NAMESPACE_VALUES, PodValues};

const KEYS: [&str; 2] = ["a", "b"];
/// Every spelling of the texts that rules below can name, and some that they cannot.
const VALUES: [&str; 25] = [
    "", "y", "Y", "on", "On", "oN", "ON", "1", "a1", "A1", " y", " Y", "?", "other", "\0", "\t",
    "\ty", "\tY", "\ton", "\tOn", "\toN", "\tON", "\t1", "\ta1", "\tA1",
];
/// How many rules can name.
const NAMED: usize = 12;

fn keys() -> Keys {
    let mut keys = Keys::default();
    for name in KEYS {
        keys.intern(&key(name), 0);
    }
    keys
}

fn key(name: &str) -> Key {
    Key {
        place: Place::PodAnnotation,
        name: name.to_owned(),
    }
}

fn test() -> impl Strategy<Value = Test> {
    let value = prop::sample::select(&VALUES[..NAMED]).prop_map(str::to_owned);
    let values = (prop::collection::vec(value, 1..4), any::<[bool; 2]>());
    let one_of = values.prop_map(|(mut list, [fold, trim])| {
        // As the parser wants it.
        if trim {
            list = list.iter().map(|value| value.trim().to_owned()).collect();
        }
        Test::one_of(list, fold, trim)
    });
    prop_oneof![
        3 => one_of.clone(),
        2 => one_of.prop_map(Test::negated),
        1 => Just(Test::exists()),
        1 => Just(Test::exists().negated()),
    ]
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let term = (prop::sample::select(&KEYS[..]), test());
    let when = prop::collection::vec(term, 0..4);
    let option = prop::option::weighted(0.3, prop::sample::select(&["p", "q"][..]));
    let rule = (
        when,
        option,
        prop::option::weighted(0.1, prop::sample::select(&KEYS[..])),
    );
    prop::collection::vec(rule, 1..5).prop_map(|rules| {
        let keys = keys();
        let slot = |name: &str| keys.slot(Place::PodAnnotation, name).unwrap();
        let term = |(name, test): (&str, Test)| Term {
            key: key(name),
            test,
            slot: slot(name),
        };
        (1..)
            .zip(rules)
            .map(|(number, (when, option, instance))| Rule {
                number,
                position: number,
                option: option.map(str::to_owned),
                when: when.into_iter().map(term).collect(),
                then: Outcome::Required,
                instance: instance.map(|name| InstanceSource::Key {
                    key: key(name),
                    slot: slot(name),
                }),
                warn: None,
            })
            .collect()
    })
}

/// All combinations of values, absent included.
fn worlds() -> Vec<PodValues<'static>> {
    let keys = keys();
    let samples = || std::iter::once(None).chain(VALUES.into_iter().map(Some));
    let mut worlds = Vec::new();
    for (a, b) in samples().flat_map(|a| samples().map(move |b| (a, b))) {
        let mut world = keys.pod_values();
        for (name, value) in KEYS.into_iter().zip([a, b]) {
            if let Some(value) = value {
                world.set(keys.slot(Place::PodAnnotation, name).unwrap(), value.into());
            }
        }
        worlds.push(world);
    }
    worlds
}

fn holds(rule: &Rule, world: &PodValues<'_>) -> bool {
    rule.matches(&KeyValues {
        pod: world,
        namespace: &NO_NAMESPACE_VALUES,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// What is called a flaw is one, and the rules before it have none.
    #[test]
    fn flaws_are_exactly_what_trying_all_values_finds(rules in rules()) {
        let worlds = worlds();
        let never = |rule: &Rule| worlds.iter().all(|world| !holds(rule, world));
        let covered_by = |rule: &Rule, earlier: &Rule| {
            (earlier.option.is_none() || earlier.option == rule.option)
                && worlds.iter().all(|world| !holds(rule, world) || holds(earlier, world))
        };
        let may_be_absent = |rule: &Rule| match &rule.instance {
            Some(InstanceSource::Key { slot, .. }) => worlds
                .iter()
                .any(|world| holds(rule, world) && world.get(*slot).is_none()),
            Some(InstanceSource::Constant(_)) | None => false,
        };
        let expected = rules.iter().enumerate().find_map(|(index, rule)| {
            let earlier = rules[..index].iter().find(|earlier| covered_by(rule, earlier));
            let word = if never(rule) {
                "contradiction".to_owned()
            } else if may_be_absent(rule) {
                "absent instance".to_owned()
            } else {
                format!("covered by {}", earlier?.number)
            };
            Some((index, word))
        });
        let found = first_flaw(&rules).map(|(index, flaw)| (index, match flaw {
            Flaw::Contradiction(_) => "contradiction".to_owned(),
            Flaw::InstanceMayBeAbsent(_) => "absent instance".to_owned(),
            Flaw::Covered(number) => format!("covered by {number}"),
        }));
        prop_assert_eq!(found, expected);
    }
}

/// Writes a profile with these rules and parses it.
fn parse(rules: &str) -> Result<(), String> {
    let head = "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n- name: x\n  \
                webhook: x.example.com\n  service: {namespace: x, name: x}\n  options: {extra: true}\n  \
                injected: [{sidecar: x}]\n  rules:\n";
    let text = format!("{head}{rules}");
    let read = Injectors::from_yaml("c.yaml", text.as_bytes());
    read.map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn other_cases_of_a_short_text_are_not_forgotten() {
    let exact = "  - {when: [{podAnnotation: k, in: [\"y\"]}], then: required}\n";
    let folded = "  - {when: [{podAnnotation: k, fold: true, in: [\"y\"]}], then: notRequired}\n";
    assert_eq!(parse(&format!("{exact}{folded}")), Ok(()));
    let both = "  - {when: [{podAnnotation: k, in: [\"y\", \"Y\"]}], then: required}\n";
    let dead = "c.yaml:11:5: rule 2 can never decide: rule 1 before it matches all that it matches";
    assert_eq!(parse(&format!("{both}{folded}")), Err(dead.to_owned()));
    assert_eq!(parse(&format!("{folded}{exact}")), Err(dead.to_owned()));
}

#[test]
fn a_switch_that_may_be_off_covers_only_rules_behind_the_same_switch() {
    let switched = "  - {option: extra, when: [{podLabel: k, exists: true}], then: required}\n";
    let plain = "  - {when: [{podLabel: k, in: [a]}], then: required}\n";
    let behind = "  - {option: extra, when: [{podLabel: k, in: [a]}], then: required}\n";
    assert_eq!(parse(&format!("{switched}{plain}")), Ok(()));
    let dead = "c.yaml:11:5: rule 2 can never decide: rule 1 before it matches all that it matches";
    assert_eq!(parse(&format!("{switched}{behind}")), Err(dead.to_owned()));
    assert_eq!(parse(&format!("{plain}{behind}")), Err(dead.to_owned()));
}
