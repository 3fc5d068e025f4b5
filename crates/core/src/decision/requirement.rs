//! Which injectors a pod needs, and by which rule: one total function for the gate, the check,
//! the auditor and the tools. There is no second copy of the rules.

use crate::injector::profile::Mode;
use crate::injector::rule::{Outcome, Rule};
use crate::injector::values::{KeyValues, NO_NAMESPACE_VALUES};
use crate::injector::{Injector, Injectors, MAX_INJECTORS};
use crate::view::namespace::NamespaceView;
use crate::view::pod::PodView;

/// What the rules say of one pod in one namespace.
#[derive(Debug)]
pub struct Requirement<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// Injectors that are required, whose keys hold values they do not know, or of which the pod may not opt
    /// out; in the order of the configuration.
    pub matches: Vec<RuleMatch<'a>>,
    /// Rules that decided and have a warning, whatever they decided.
    pub warnings: Vec<RuleMatch<'a>>,
    /// Rules by which the pod opts out of an injector that its namespace requires (case 26).
    pub opt_outs: Vec<RuleMatch<'a>>,
}

/// One injector and the rule that decided on it.
#[derive(Debug, Clone, Copy)]
pub struct RuleMatch<'a> {
    /// The injector's number in the configuration, from 0.
    pub number: usize,
    /// Whose rule it is.
    pub injector: &'a Injector,
    /// The first rule whose terms all hold.
    pub rule: &'a Rule,
    /// The values that the rule saw.
    pub values: KeyValues<'a>,
    /// An administrator suspended enforcement: pods pass without the injector for now, as though
    /// its mode were `warn`.
    pub is_waived: bool,
}

impl<'a> RuleMatch<'a> {
    /// The name of the injector.
    pub fn name(&self) -> &'a str {
        &self.injector.profile.name
    }

    /// What the injector's absence means now.
    pub fn mode(&self) -> Mode {
        if self.is_waived {
            Mode::Warn
        } else {
            self.injector.profile.mode
        }
    }

    /// True if the pod spares itself where it may not.
    pub fn is_forbidden(&self) -> bool {
        self.rule.then == Outcome::OptOut
    }

    /// True if the rule found a value that the injector does not know.
    pub fn is_invalid(&self) -> bool {
        self.rule.then == Outcome::Invalid
    }

    /// The copy of the injector that is meant, if it has copies.
    pub fn instance(&self) -> Option<&'a str> {
        self.rule.instance(&self.values)
    }
}

impl<'a> Requirement<'a> {
    /// The injectors that are required, by values that they know.
    pub(super) fn valid(&self) -> impl Iterator<Item = &RuleMatch<'a>> {
        let valid = |one: &&RuleMatch<'a>| one.rule.then == Outcome::Required;
        self.matches.iter().filter(valid)
    }

    /// Lets pods pass without the injectors for which enforcement is suspended (case 96). Their rules still
    /// decide, so that the answer says what the pod lacks.
    pub fn waive(&mut self, is_waived: impl Fn(&str) -> bool) {
        for matched in &mut self.matches {
            matched.is_waived = is_waived(matched.name());
        }
    }

    /// Whether enforcement is suspended for an injector that is required.
    pub fn is_waived(&self) -> bool {
        self.matches.iter().any(|matched| matched.is_waived)
    }
}

/// Asks the rules of every injector about a pod that no exemption covers.
pub fn of<'a>(
    pod: &'a PodView<'a>,
    namespace: &'a NamespaceView,
    injectors: &'a Injectors,
) -> Requirement<'a> {
    let mut requirement = Requirement {
        namespace: &namespace.name,
        matches: Vec::new(),
        warnings: Vec::new(),
        opt_outs: Vec::new(),
    };
    for matched in decisions(pod, namespace, injectors) {
        if matched.rule.warn.is_some() {
            requirement.warnings.push(matched);
        }
        if matched.rule.then != Outcome::NotRequired {
            requirement.matches.push(matched);
        } else if matched.rule.is_asked_by_pod() && opts_out(&matched, namespace, injectors) {
            requirement.opt_outs.push(matched);
        }
    }
    requirement
}

/// The rule that decides for each injector, whatever it decides; nothing for an injector whose
/// rules are silent or that does not act in the namespace.
pub fn decisions<'a>(
    pod: &'a PodView<'a>,
    namespace: &'a NamespaceView,
    injectors: &'a Injectors,
) -> impl Iterator<Item = RuleMatch<'a>> {
    let values = KeyValues {
        pod: &pod.values,
        namespace: &namespace.values,
    };
    // Most pods have none of an injector's keys: the rule that decides for these is known beforehand.
    let mut touched = Touched::default();
    for number in injectors.keys().readers(&values) {
        touched.insert(number);
    }
    let acts = |(_, injector): &(usize, &Injector)| {
        injector.is_looked_at() && injector.profile.namespaces.contains(&namespace.name)
    };
    let acting = injectors.iter().enumerate().filter(acts);
    acting.filter_map(move |(number, injector)| {
        let is_own = is_own(injector, namespace);
        let rule = if touched.contains(number) || is_own {
            decide(injector, values, is_own)
        } else {
            injector.idle_match()
        };
        Some(RuleMatch {
            number,
            injector,
            rule: rule?,
            values,
            is_waived: false,
        })
    })
}

fn is_own(injector: &Injector, namespace: &NamespaceView) -> bool {
    *injector.profile.service.namespace == *namespace.name
}

/// The rule that decides. In an injector's own namespace only what the pod itself says can
/// require it, or meshgate and the injector could wait for each other (design section 7): the
/// namespace asks for nothing there. It still says which copy injects a pod that asks, or that
/// none does.
fn decide<'a>(injector: &'a Injector, values: KeyValues<'a>, is_own: bool) -> Option<&'a Rule> {
    if !is_own {
        return injector.first_match(&values);
    }
    let of_pod = KeyValues {
        namespace: &NO_NAMESPACE_VALUES,
        ..values
    };
    let first_match = |values| injector.rules_at_home().find(|rule| rule.matches(values));
    let asked = first_match(&of_pod)?;
    if asked.then == Outcome::NotRequired {
        return Some(asked);
    }
    let of_both = first_match(&values);
    match of_both.map(|rule| rule.then) {
        Some(Outcome::NotRequired) => of_both,
        _ if !asked.is_asked_by_pod() => None,
        Some(Outcome::Required) if asked.then == Outcome::Required => of_both,
        Some(Outcome::Required | Outcome::Invalid | Outcome::OptOut) | None => Some(asked),
    }
}

/// Whether the same pod without any keys would have to hold the sidecar: only then does it opt out
/// of anything.
fn opts_out(matched: &RuleMatch<'_>, namespace: &NamespaceView, injectors: &Injectors) -> bool {
    let silent = KeyValues {
        pod: &injectors.keys().pod_values(),
        ..matched.values
    };
    let is_own = is_own(matched.injector, namespace);
    let without = decide(matched.injector, silent, is_own);
    without.is_some_and(|rule| rule.then == Outcome::Required)
}

/// Numbers of injectors one of whose keys is there, as bits.
#[derive(Default)]
struct Touched(u64);

const _: () = assert!(MAX_INJECTORS <= 64, "an injector has no bit in `Touched`");

impl Touched {
    fn insert(&mut self, number: usize) {
        self.0 |= 1 << number;
    }

    fn contains(&self, number: usize) -> bool {
        self.0 & (1 << number) != 0
    }
}
