//! Profiles in which no pod may spare itself (`optOut: forbid`).

use super::coverage;
use super::rule::{Outcome, Rule, Term};

/// Rules where no pod may spare itself. Before each rule that spares a pod for what the pod says stand those by
/// which its namespace decides on pods that say nothing, with the terms of both: where one needs the
/// injector, the pod is refused.
pub(crate) fn forbidding(rules: &[Rule], is_on: impl Fn(&Rule) -> bool) -> Vec<Rule> {
    let mut all: Vec<Rule> = Vec::new();
    for rule in rules {
        let before = rules
            .iter()
            .filter(|silent| spares_pod(rule) && is_on(silent));
        let before = before.filter_map(|silent| {
            let when = of_silent_pods(silent)?.chain(&rule.when);
            let when: Vec<Term> = when.cloned().collect();
            let then = match silent.then {
                Outcome::NotRequired => Outcome::NotRequired,
                Outcome::Required | Outcome::Invalid | Outcome::OptOut => Outcome::OptOut,
            };
            let can_hold = coverage::contradiction(&when).is_none();
            can_hold.then(|| Rule {
                when,
                then,
                ..rule.clone()
            })
        });
        let mut before: Vec<Rule> = before.collect();
        // Behind the last that refuses, the rule itself says the same.
        let refuses = |one: &Rule| one.then == Outcome::OptOut;
        before.truncate(before.iter().rposition(refuses).map_or(0, |last| last + 1));
        all.extend(before);
        all.push(rule.clone());
    }
    all
}

/// Whether a rule spares a pod for what stands on the pod itself, or does not.
fn spares_pod(rule: &Rule) -> bool {
    let mut terms = rule.when.iter();
    rule.then == Outcome::NotRequired && terms.any(|term| term.key.place.is_on_pod())
}

/// The terms of a rule on the namespace, if it decides on pods that say nothing.
fn of_silent_pods(rule: &Rule) -> Option<impl Iterator<Item = &Term>> {
    let mut on_pod = rule.when.iter().filter(|term| term.key.place.is_on_pod());
    let fits = !spares_pod(rule) && on_pod.all(|term| term.test.absent);
    fits.then(|| rule.when.iter().filter(|term| !term.key.place.is_on_pod()))
}
