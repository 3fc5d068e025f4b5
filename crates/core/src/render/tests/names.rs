//! What the name of an entry says of a view: the right one agrees, and one that agrees requires no less than
//! the namespace that the API server knew.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseResult, TestRunner};

use super::equivalence::{TIGHT, entries, presets_in_every_setting, profiles, selects};
use super::settings;
use super::world::{World, worlds};
use crate::decision::requirement;
use crate::injector::Injectors;
use crate::injector::profile::Mode;
use crate::render::entries::{Entry, Limits};
use crate::render::webhooks::{EntryNames, GATE};
use crate::view::pod::PodView;

/// Entries of gate and check, as both sides know them.
struct Sides {
    injectors: Arc<Injectors>,
    /// As the API server has them.
    entries: Vec<(Entry, Mode)>,
    names: EntryNames,
}

impl Sides {
    fn new(injectors: Arc<Injectors>, limits: Limits) -> Self {
        let list = entries(&injectors, &settings(), limits).into_iter();
        let entries: Vec<_> = list.map(|entry| (entry, Mode::Enforce)).collect();
        let names = EntryNames::of(&entries, &injectors);
        Self {
            injectors,
            entries,
            names,
        }
    }

    /// The names of the entries by which the API server asks about the pod.
    fn asking(&self, world: &World) -> Vec<String> {
        let asks = |entry: &Entry| {
            let mut conditions = entry.asked_for.iter();
            !self.injectors.excludes(&world.namespace)
                && selects(entry, world)
                && conditions.any(|(_, expr)| world.holds(expr))
        };
        let asking = self.entries.iter().filter(|(entry, _)| asks(entry));
        let asking = asking.map(|(entry, mode)| GATE.entry_name(entry, *mode));
        asking.collect()
    }

    /// What the view requires, and whether it agrees with the entry.
    fn view(&self, entry: &str, world: &World) -> (BTreeSet<String>, Option<bool>) {
        let (json, namespace) = (world.pod(), world.view(&self.injectors));
        let pod = PodView::read(&json, self.injectors.keys()).unwrap();
        let found = requirement::of(&pod, &namespace, &self.injectors);
        let agrees = self
            .names
            .agrees(entry, &pod, &namespace, &found, &self.injectors);
        let names = found.matches.iter().map(|one| one.name().to_owned());
        (names.collect(), agrees)
    }

    /// `known` is the namespace as the API server knows it, `held` as the view holds it.
    fn hold(&self, known: &World, held: &World, is_exact: bool) -> TestCaseResult {
        let known = known.clone().mirrored(&self.injectors);
        let held = known
            .clone()
            .in_namespace_of(held)
            .mirrored(&self.injectors);
        for entry in self.asking(&known) {
            let (wanted, agrees) = self.view(&entry, &known);
            prop_assert!(
                !is_exact || agrees == Some(true),
                "{entry}: a look-up for nothing"
            );
            let (found, agrees) = self.view(&entry, &held);
            if agrees == Some(true) {
                prop_assert!(
                    found.is_superset(&wanted),
                    "{entry}: {found:?}, not {wanted:?}"
                );
                prop_assert!(
                    !is_exact || found == wanted,
                    "{entry}: {found:?}, not {wanted:?}"
                );
            }
        }
        Ok(())
    }
}

fn check(injectors: Injectors, cases: u32) {
    let sides = Sides::new(Arc::new(injectors), Limits::USUAL);
    let pairs = (worlds(&sides.injectors), worlds(&sides.injectors));
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    };
    let done = TestRunner::new(config).run(&pairs, |(known, held)| sides.hold(&known, &held, true));
    done.unwrap();
}

#[test]
fn a_view_of_presets_that_agrees_requires_the_same() {
    for (_, injectors) in presets_in_every_setting() {
        check(injectors, 500);
    }
    check(Injectors::all_presets().unwrap(), 2_000);
}

#[test]
fn an_unknown_entry_says_nothing() {
    let injectors = Injectors::all_presets().unwrap();
    let sides = Sides::new(Arc::new(injectors), Limits::USUAL);
    let runner = &mut TestRunner::deterministic();
    let world = worlds(&sides.injectors).new_tree(runner).unwrap().current();
    assert_eq!(sides.view("aurora.gate.meshgate.io", &world).1, None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(120) })]

    #[test]
    fn a_view_that_agrees_requires_no_less(
        limits in select(vec![Limits::USUAL, TIGHT]),
        (injectors, pairs) in profiles(&["allow", "forbid"]).prop_flat_map(|injectors| {
            let pair = (worlds(&injectors), worlds(&injectors));
            (Just(Arc::new(injectors)), prop::collection::vec(pair, 40))
        })
    ) {
        let sides = Sides::new(injectors, limits);
        for (known, held) in pairs {
            sides.hold(&known, &held, false)?;
        }
    }
}
