//! Profiles in which no pod may spare itself (`optOut: forbid`).

use super::coverage;
use super::rule::{Outcome, Rule, Term};

/// Rules where no pod may spare itself. Before each rule that spares a pod for what the pod says stand those by
/// which its namespace decides on pods that say nothing, with the terms of both: where one needs the
/// injector, the pod is refused. Pods that say something by which such a rule passes them by are refused where
/// the next rule, or no rule, spares them.
pub(crate) fn forbidding(rules: &[Rule], is_on: impl Fn(&Rule) -> bool) -> Vec<Rule> {
    let mut all: Vec<Rule> = Vec::new();
    let mut passing: Vec<Rule> = Vec::new();
    for rule in rules {
        if spares_pod(rule) {
            all.extend(sparing(rule, rules.iter().filter(|one| is_on(one))));
        } else if rule.then == Outcome::NotRequired && is_on(rule) {
            all.extend(passing.iter().filter_map(|one| with(one, &rule.when)));
        } else if is_on(rule) {
            passing.extend(passed_by(rule));
        }
        all.push(rule.clone());
    }
    all.extend(passing);
    all
}

/// What stands before a rule that spares a pod for what the pod says.
fn sparing<'r>(rule: &Rule, all: impl Iterator<Item = &'r Rule>) -> Vec<Rule> {
    let before = all.filter_map(|silent| {
        let namespace: Vec<Term> = of_silent_pods(silent)?.cloned().collect();
        let then = match silent.then {
            Outcome::NotRequired => Outcome::NotRequired,
            Outcome::Required | Outcome::Invalid | Outcome::OptOut => Outcome::OptOut,
        };
        let own = Rule {
            then,
            ..rule.clone()
        };
        with(&own, &namespace)
    });
    let mut before: Vec<Rule> = before.collect();
    // Behind the last that refuses, the rule itself says the same.
    let refuses = |one: &Rule| one.then == Outcome::OptOut;
    before.truncate(before.iter().rposition(refuses).map_or(0, |last| last + 1));
    before
}

/// Pods that a rule on silent pods passes by, one rule for each key by which they say something.
fn passed_by(rule: &Rule) -> impl Iterator<Item = Rule> {
    let namespace = of_silent_pods(rule).map(|terms| terms.cloned().collect::<Vec<Term>>());
    let on_pod = rule.when.iter().filter(|term| term.key.place.is_on_pod());
    let terms = namespace.map(|namespace| on_pod.map(move |term| (namespace.clone(), term)));
    terms.into_iter().flatten().map(|(mut when, term)| {
        when.push(Term {
            test: term.test.clone().negated(),
            ..term.clone()
        });
        Rule {
            when,
            then: Outcome::OptOut,
            instance: None,
            warn: None,
            ..rule.clone()
        }
    })
}

/// The rule with more terms, if it can hold with them.
fn with(rule: &Rule, more: &[Term]) -> Option<Rule> {
    let when = [more, &rule.when].concat();
    let can_hold = coverage::contradiction(&when).is_none();
    can_hold.then(|| Rule {
        when,
        ..rule.clone()
    })
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
