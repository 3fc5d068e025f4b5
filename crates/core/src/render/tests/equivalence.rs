//! Never narrower than the requirement, one entry at most, and exact where that is promised.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;

use super::world::{World, worlds};
use super::{injectors, settings};
use crate::condition::Expr;
use crate::condition::chain::{Chain, Choice};
use crate::decision::{check, replaced, requirement};
use crate::injector::coverage;
use crate::injector::rule::{Key, Outcome, Place};
use crate::injector::{Injector, Injectors, PRESETS};
use crate::readiness::{Looked, Readiness};
use crate::render::entries::{self, Entry, Limits};
use crate::render::policy::Plan;
use crate::render::{self, mirror};
use crate::view::pod::PodView;

/// Whether the namespace is selected, as the API server reads the printed selector.
pub(super) fn selects(entry: &Entry, world: &World) -> bool {
    entry.selector.iter().all(|term| {
        let key = Key {
            place: Place::NamespaceLabel,
            name: term.label.clone(),
        };
        let value = world.value(&key);
        let is_in = value.is_some_and(|value| term.values.iter().any(|one| one == value));
        match term.operator {
            "In" => is_in,
            "NotIn" => !is_in,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            other => panic!("{other}"),
        }
    })
}

pub(super) fn entries(
    injectors: &Injectors,
    settings: &render::Settings,
    limits: Limits,
) -> Vec<Entry> {
    let list: Vec<&Injector> = injectors.iter().collect();
    entries::of(&list, &render::excluded(injectors, settings), limits).0
}

fn required(injectors: &Injectors, world: &World) -> Vec<String> {
    if injectors.excludes(&world.namespace) {
        return Vec::new();
    }
    let (json, namespace) = (world.pod(), world.view(injectors));
    let pod = PodView::read(&json, injectors.keys()).unwrap();
    let found = requirement::of(&pod, &namespace, injectors);
    found
        .matches
        .iter()
        .map(|claim| claim.name().to_owned())
        .collect()
}

/// How often a pod is sent.
fn sent(entries: &[Entry], excluded: &[&str], world: &World) -> usize {
    if excluded.contains(&world.namespace.as_str()) {
        return 0;
    }
    let meets = |entry: &&Entry| {
        let mut conditions = entry.asked_for.iter();
        selects(entry, world) && conditions.any(|(_, expr)| world.holds(expr))
    };
    entries.iter().filter(meets).count()
}

fn check_worlds(injectors: &Injectors, is_exact: bool, limits: Limits, cases: u32) {
    let settings = settings();
    let injectors_excluding = render::excluded(injectors, &settings);
    let entries = entries(injectors, &settings, limits);
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    });
    let done = runner.run(&worlds(injectors), |world| {
        let world = world.mirrored(injectors);
        let required = required(injectors, &world);
        let sent = sent(&entries, &injectors_excluding, &world);
        prop_assert!(sent <= 1, "sent {} times", sent);
        prop_assert!(
            sent == 1 || required.is_empty(),
            "not sent, and requires {:?}",
            required
        );
        prop_assert!(
            !is_exact || (sent == 1) != required.is_empty(),
            "sent for nothing"
        );
        Ok(())
    });
    done.unwrap();
}

/// The presets with all of their switches, in every setting.
pub(super) fn presets_in_every_setting() -> Vec<(String, Injectors)> {
    let mut all = Vec::new();
    for (name, _) in PRESETS {
        let plain = injectors(&format!("- preset: {name}\n"));
        let options: Vec<String> = plain
            .iter()
            .flat_map(|one| one.profile.options.keys().cloned())
            .collect();
        for bits in 0..1_usize << options.len() {
            let on = options
                .iter()
                .enumerate()
                .map(|(n, option)| format!("{option}: {}", bits & (1 << n) != 0));
            let on: Vec<String> = on.collect();
            for opt_out in ["allow", "forbid"] {
                let on = on.join(", ");
                let list = format!("- preset: {name}\n  options: {{{on}}}\n  optOut: {opt_out}\n");
                all.push((list.clone(), injectors(&list)));
            }
        }
    }
    all
}

#[test]
fn every_preset_is_asked_about_exactly_where_it_is_required() {
    for (list, injectors) in presets_in_every_setting() {
        assert!(!list.is_empty());
        check_worlds(&injectors, true, Limits::USUAL, 500);
    }
}

#[test]
fn two_meshes_are_asked_about_exactly() {
    check_worlds(
        &injectors("- preset: linkerd\n- preset: istio\n- preset: vault\n"),
        true,
        Limits::USUAL,
        700,
    );
    check_worlds(
        &injectors("- preset: opentelemetry\n- preset: linkerd\n- preset: kuma\n"),
        true,
        Limits::USUAL,
        700,
    );
}

#[test]
fn all_presets_together_are_asked_about_exactly() {
    check_worlds(&Injectors::all_presets().unwrap(), true, Limits::USUAL, 700);
}

/// So few that nothing is tried value by value.
pub(super) const TIGHT: Limits = Limits {
    entries: 1,
    tried: 1,
};

#[test]
fn presets_are_never_asked_about_too_little_where_nothing_is_tried() {
    for (_, injectors) in presets_in_every_setting() {
        check_worlds(&injectors, false, TIGHT, 500);
    }
    check_worlds(&Injectors::all_presets().unwrap(), false, TIGHT, 700);
}

/// The policy's verdict is the check's.
fn check_policy(injectors: &Injectors, cases: u32) {
    let settings = settings();
    let excluded = render::excluded(injectors, &settings);
    let plans: Vec<(&Injector, Plan)> = injectors
        .iter()
        .filter(|injector| injector.is_looked_at())
        .map(|injector| (injector, Plan::new(injector, &excluded)))
        .collect();
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    };
    let done = TestRunner::new(config).run(&worlds(injectors), |world| {
        let by_policy = !excluded.contains(&world.namespace.as_str())
            && plans
                .iter()
                .any(|(injector, plan)| refuses(injector, plan, &world));
        let by_check = !injectors.excludes(&world.namespace) && {
            let (json, namespace) = (world.pod(), world.view(injectors));
            let pod = PodView::read(&json, injectors.keys()).unwrap();
            let found = requirement::of(&pod, &namespace, injectors);
            check_updates(injectors, &world);
            !check::decide(&pod, &found, |_| Readiness::Usable(Looked::Assumed))
                .verdict
                .allows()
        };
        prop_assert_eq!(by_policy, by_check);
        Ok(())
    });
    done.unwrap();
}

fn refuses(injector: &Injector, plan: &Plan, world: &World) -> bool {
    let name = world.namespace.as_str();
    if !injector.profile.namespaces.contains(name) {
        return false;
    }
    let first = |rules: &[(usize, Expr)]| {
        rules
            .iter()
            .find(|(_, expr)| world.holds(expr))
            .map_or(0, |(number, _)| *number)
    };
    let mut rule = first(&plan.ordinary);
    if let Some(home) = plan.home.as_ref().filter(|home| home.namespace == name) {
        let asked = first(&home.asked);
        let stands = home.asking.contains(&asked) && !home.off.contains(&rule);
        rule = if stands { asked } else { 0 };
    }
    let is_firm = plan.invalid.contains(&rule) || plan.opt_outs.contains(&rule);
    // A policy that takes itself for not concerned lets a bare pod in.
    let needs = is_firm || plan.required.contains(&rule);
    assert!(!needs || world.holds(&plan.concerned), "{world:?}");
    is_firm || plan.required.contains(&rule) && !world.holds(&plan.injected)
}

/// Whether an update is refused: by each policy's condition, and by the decision.
fn check_updates(injectors: &Injectors, world: &World) {
    let (old, new) = (world.updated().pod(), world.pod());
    let [old, new] = [&old, &new].map(|json| PodView::read(json, injectors.keys()).unwrap());
    let decision = replaced::decide((&old, &new), &world.namespace, injectors, |_| false);
    let is_replaced = injectors.iter().any(|one| {
        let acts = one.profile.namespaces.contains(&world.namespace);
        acts && world.holds(&Expr::replaced(&one.profile))
    });
    assert_eq!(!decision.verdict.allows(), is_replaced, "{world:?}");
}

#[test]
fn policies_refuse_what_the_check_refuses() {
    for (_, injectors) in presets_in_every_setting() {
        check_policy(&injectors, 500);
    }
    check_policy(&Injectors::all_presets().unwrap(), 700);
    let limited = "- preset: linkerd\n  injected: [{sidecar: linkerd-proxy, images: [ok.example/]}]\n\
                   - preset: consul\n  injected:\n  - {sidecar: consul-dataplane, images: [ok.example/]}\n  \
                   - {sidecar: {prefix: consul-dataplane-}, images: [\"ok.example/proxy:\"]}\n";
    check_policy(&injectors(limited), 2_000);
    // At home an opt-out that is forbidden elsewhere stands behind all rules.
    let own = "- name: own\n  webhook: own.example.com\n  service: {namespace: home, name: injector}\n  \
               optOut: forbid\n  injected: [{sidecar: proxy}]\n  rules:\n  - {when: [{namespaceLabel: x, \
               exists: true}, {podLabel: k, exists: false}], then: required}\n  - {when: [{namespaceLabel: other, \
               exists: false}, {podLabel: k, in: [a]}], then: required}\n";
    check_policy(&injectors(own), 2_000);
}

/// A random rule of few keys and values, so that rules meet.
fn rule() -> impl Strategy<Value = String> {
    let place = select(vec![
        "podLabel",
        "podAnnotation",
        "namespaceLabel",
        "namespaceAnnotation",
    ]);
    let test = select(vec![
        "exists: true",
        "exists: false",
        "in: [\"a\"]",
        "in: [\"a\", \"B\"]",
        "in: [\"\"]",
        "notIn: [\"a\"]",
        "notIn: [\"\", \"a\"]",
        "fold: true, in: [\"A\"]",
        "fold: true, notIn: [\"b\"]",
        "trim: true, in: [\"a\"]",
        "trim: true, notIn: [\"\"]",
        "fold: true, trim: true, in: [\"A\", \"b\"]",
        "in: [\" a\"]",
    ]);
    let term = (place, select(vec!["k1", "k2"]), test).prop_map(|(place, key, test)| {
        let test = if place.ends_with("Label") {
            let test = test.replace("fold: true, ", "").replace("trim: true, ", "");
            test.replace("\" a\"", "\"c\"")
        } else {
            test.to_owned()
        };
        format!("{{{place}: {key}, {test}}}")
    });
    let then = select(vec!["required", "notRequired", "invalid"]);
    let option = select(vec!["", "", "", "option: strict, "]);
    (prop::collection::vec(term, 1..4), then, option).prop_map(|(terms, then, option)| {
        let terms = terms.join(", ");
        format!("  - {{{option}when: [{terms}], then: {then}}}\n")
    })
}

/// A random profile that allows opt-outs, and one of the same rules that forbids them; if no rule is dead.
pub(super) fn pairs() -> impl Strategy<Value = [Injectors; 2]> {
    let scope = select(vec![
        "",
        "  namespaces: {except: [home]}\n",
        "  namespaces: {only: [home, orders]}\n",
    ]);
    let rules = prop::collection::vec(rule(), 1..7);
    (rules, scope, any::<bool>()).prop_filter_map("dead rules", |(rules, scope, on)| {
        let rules = rules.concat();
        let options = if rules.contains("option:") {
            format!("  options: {{strict: {on}}}\n")
        } else {
            String::new()
        };
        let read = |opt_out: &str| {
            let text = format!(
                "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n- name: aurora\n  webhook: \
                 aurora.example.com\n  service: {{namespace: home, name: injector}}\n{scope}{options}  optOut: \
                 {opt_out}\n  rules:\n{rules}  injected: [{{sidecar: proxy}}]\n"
            );
            Injectors::from_yaml("test", text.as_bytes()).ok()
        };
        Some([read("allow")?, read("forbid")?])
    })
}

pub(super) fn profiles() -> impl Strategy<Value = Injectors> {
    let pair = (pairs(), any::<bool>());
    pair.prop_map(|([allow, forbid], is_strict)| if is_strict { forbid } else { allow })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(120) })]

    #[test]
    fn random_profiles_are_never_asked_about_too_little(
        limits in select(vec![Limits::USUAL, TIGHT]),
        (injectors, worlds) in profiles().prop_flat_map(|injectors| {
            let worlds = prop::collection::vec(worlds(&injectors), 40);
            (Just(std::sync::Arc::new(injectors)), worlds)
        })
    ) {
        let settings = settings();
        let excluded = render::excluded(&injectors, &settings);
        let entries = entries(&injectors, &settings, limits);
        // The label of each mirror, with the condition that keeps it.
        let mirrors: Vec<(Key, Expr)> = injectors
            .iter()
            .filter(|one| mirror::is_needed(one))
            .map(|one| {
                let key = Key { place: Place::NamespaceLabel, name: mirror::label(one) };
                (key, mirror::wanted_expr(one))
            })
            .collect();
        // The rules of each injector, folded in both ways.
        let folded: Vec<(Expr, Expr)> = injectors
            .iter()
            .map(|one| {
                let rules = || one.active_rules();
                let chain = Chain::new(rules(), |rule| rule.then != Outcome::NotRequired, false);
                let mut choice = Choice::default();
                choice.add(vec![chain]);
                let samples = coverage::samples_of(rules().flat_map(|rule| &rule.when));
                (choice.expr(&samples), choice.folded())
            })
            .collect();
        check_policy(&injectors, 20);
        for world in worlds {
            let bare = world.clone();
            let world = world.mirrored(&injectors);
            let required = required(&injectors, &world);
            let sent = sent(&entries, &excluded, &world);
            prop_assert!(sent <= 1);
            prop_assert!(sent == 1 || required.is_empty(), "{world:?}");
            // The condition agrees with the function that keeps the label.
            for (key, wanted) in &mirrors {
                prop_assert_eq!(bare.holds(wanted), world.value(key).is_some());
            }
            for (tried, nested) in &folded {
                prop_assert_eq!(world.holds(tried), world.holds(nested));
            }
        }
    }
}
