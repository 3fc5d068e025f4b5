//! Which injectors a pod needs, and by which rule: one total function for the gate, the check,
//! the auditor and the tools. There is no second copy of the rules.

use crate::injector::keys::{Marks, NO_NAMESPACE_MARKS};
use crate::injector::rule::Rule;
use crate::injector::spec::{MAX_INJECTORS, Mode, Outcome};
use crate::injector::{Injector, Injectors};

use super::namespace::NamespaceView;
use super::pod::PodView;

/// What the rules say of one pod in one namespace.
#[derive(Debug)]
pub struct Requirement<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// Injectors that are required, or whose keys hold values they do not know; in the order of
    /// the configuration.
    pub claims: Vec<Claim<'a>>,
    /// Rules that decided and have something to say, whatever they decided.
    pub warnings: Vec<Warning<'a>>,
    /// True if the pod opts out of an injector that its namespace requires.
    pub opted_out: bool,
}

/// One injector and the rule that decided on it.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The injector's number in the configuration, from 0.
    pub number: usize,
    /// The injector.
    pub injector: &'a Injector,
    /// The rule.
    pub rule: &'a Rule,
    /// The values that the rule saw.
    pub marks: Marks<'a>,
    /// Somebody lets pods pass without it for now, as though its mode were `warn`.
    pub is_waived: bool,
}

impl<'a> Claim<'a> {
    /// The name of the injector.
    pub fn name(&self) -> &'a str {
        &self.injector.profile.name
    }

    /// What the injector's absence means now.
    pub fn mode(&self) -> Mode {
        match self.is_waived {
            true => Mode::Warn,
            false => self.injector.profile.mode,
        }
    }

    /// True if the rule found a value that the injector does not know.
    pub fn is_invalid(&self) -> bool {
        self.rule.then == Outcome::Invalid
    }

    /// The copy of the injector that is meant, if it has copies.
    pub fn instance(&self) -> Option<&'a str> {
        self.rule.instance(&self.marks)
    }
}

/// A text to give with the answer.
#[derive(Debug, Clone, Copy)]
pub struct Warning<'a> {
    /// The injector.
    pub injector: &'a Injector,
    /// The rule.
    pub rule: &'a Rule,
    /// The values that the rule saw.
    pub marks: Marks<'a>,
}

/// Asks the rules of every injector about a pod that no exemption covers.
pub fn of<'a>(
    pod: &'a PodView<'a>,
    namespace: &'a NamespaceView,
    injectors: &'a Injectors,
) -> Requirement<'a> {
    let mut requirement = Requirement {
        namespace: &namespace.name,
        claims: Vec::new(),
        warnings: Vec::new(),
        opted_out: false,
    };
    for claim in decisions(pod, namespace, injectors) {
        requirement.add(claim);
        requirement.opted_out |= claim.rule.then == Outcome::NotRequired
            && claim.rule.is_asked_by_pod()
            && opts_out(&claim, namespace, injectors);
    }
    requirement
}

/// The rule that decides for each injector, whatever it decides; nothing for an injector whose
/// rules are silent or that does not act in the namespace.
pub fn decisions<'a>(
    pod: &'a PodView<'a>,
    namespace: &'a NamespaceView,
    injectors: &'a Injectors,
) -> impl Iterator<Item = Claim<'a>> {
    let marks = Marks {
        pod: &pod.marks,
        namespace: &namespace.marks,
    };
    let mut touched = Touched::default();
    marks.readers(injectors.keys(), |number| touched.insert(number));
    let acts = |(_, injector): &(usize, &Injector)| {
        injector.is_looked_at() && injector.profile.namespaces.contains(&namespace.name)
    };
    injectors
        .iter()
        .enumerate()
        .filter(acts)
        .filter_map(move |(number, injector)| {
            let rule = if touched.contains(number) || is_own(injector, namespace) {
                decide(injector, marks, is_own(injector, namespace))
            } else {
                injector.idle_match()
            };
            Some(Claim {
                number,
                injector,
                rule: rule?,
                marks,
                is_waived: false,
            })
        })
}

fn is_own(injector: &Injector, namespace: &NamespaceView) -> bool {
    *injector.profile.service.namespace == *namespace.name
}

impl<'a> Requirement<'a> {
    /// Lets pods pass without the injectors of which this is true: their glass is broken.
    pub fn waive(&mut self, is_waived: impl Fn(&str) -> bool) {
        for claim in &mut self.claims {
            claim.is_waived = is_waived(claim.name());
        }
    }

    fn add(&mut self, claim: Claim<'a>) {
        let Claim {
            injector,
            rule,
            marks,
            ..
        } = claim;
        if rule.warn.is_some() {
            self.warnings.push(Warning {
                injector,
                rule,
                marks,
            });
        }
        if rule.then != Outcome::NotRequired {
            self.claims.push(claim);
        }
    }
}

/// The rule that decides. In an injector's own namespace only what the pod itself says can
/// require it, or meshgate and the injector could wait for each other (design section 7): marks
/// of the namespace ask for nothing. They still say who injects a pod that asks, or that nobody
/// does.
fn decide<'a>(injector: &'a Injector, marks: Marks<'a>, is_own: bool) -> Option<&'a Rule> {
    if !is_own {
        return injector.first_match(&marks);
    }
    let unmarked = Marks {
        namespace: &NO_NAMESPACE_MARKS,
        ..marks
    };
    let asked = injector.first_match(&unmarked)?;
    if asked.then == Outcome::NotRequired {
        return Some(asked);
    }
    let marked = injector.first_match(&marks);
    match marked.map(|rule| rule.then) {
        Some(Outcome::NotRequired) => marked,
        _ if !asked.is_asked_by_pod() => None,
        Some(Outcome::Required) if asked.then == Outcome::Required => marked,
        Some(Outcome::Required | Outcome::Invalid) | None => Some(asked),
    }
}

/// Whether the same pod without any keys would have to hold the sidecar.
fn opts_out(claim: &Claim<'_>, namespace: &NamespaceView, injectors: &Injectors) -> bool {
    let silent = Marks {
        pod: &injectors.keys().pod_marks(),
        ..claim.marks
    };
    let without = decide(claim.injector, silent, is_own(claim.injector, namespace));
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
