//! Which injectors a pod needs, and by which rule: one total function for the gate, the check,
//! the auditor and the tools. There is no second copy of the rules.

use crate::injector::keys::{Marks, NO_NAMESPACE_MARKS};
use crate::injector::rule::Rule;
use crate::injector::spec::Outcome;
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
}

impl<'a> Claim<'a> {
    /// The name of the injector.
    pub fn name(&self) -> &'a str {
        &self.injector.profile.name
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
    let marks = Marks {
        pod: &pod.marks,
        namespace: &namespace.marks,
    };
    let mut touched = Touched::default();
    marks.readers(injectors.keys(), |number| touched.insert(number));
    for (number, injector) in injectors.iter().enumerate() {
        let profile = &injector.profile;
        if !injector.is_looked_at() || !profile.namespaces.contains(&namespace.name) {
            continue;
        }
        if !touched.contains(number) {
            if let Some(rule) = injector.idle_match() {
                requirement.add(Claim {
                    number,
                    injector,
                    rule,
                    marks,
                });
            }
            continue;
        }
        // In an injector's own namespace only what the pod itself says counts, or meshgate and
        // the injector could wait for each other (design section 7).
        let is_own = *profile.service.namespace == *namespace.name;
        let seen = if is_own {
            &NO_NAMESPACE_MARKS
        } else {
            &namespace.marks
        };
        let marks = Marks {
            pod: &pod.marks,
            namespace: seen,
        };
        if let Some(rule) = injector.first_match(&marks) {
            requirement.add(Claim {
                number,
                injector,
                rule,
                marks,
            });
            requirement.opted_out |= opts_out(injector, rule, seen, injectors);
        }
    }
    requirement
}

impl<'a> Requirement<'a> {
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

/// Whether the pod's own keys are the reason that nothing is required.
fn opts_out(
    injector: &Injector,
    rule: &Rule,
    namespace: &crate::injector::keys::NamespaceMarks,
    injectors: &Injectors,
) -> bool {
    let by_pod = rule
        .when
        .iter()
        .any(|term| term.key.place.is_on_pod() && term.test.is_positive());
    if rule.then != Outcome::NotRequired || !by_pod {
        return false;
    }
    let silent = injectors.keys().pod_marks();
    let without = injector.first_match(&Marks {
        pod: &silent,
        namespace,
    });
    without.is_some_and(|rule| rule.then == Outcome::Required)
}

/// Numbers of injectors one of whose keys is there.
#[derive(Default)]
struct Touched {
    first: u64,
    rest: Vec<usize>,
}

impl Touched {
    fn insert(&mut self, number: usize) {
        if number < 64 {
            self.first |= 1 << number;
        } else if !self.rest.contains(&number) {
            self.rest.push(number);
        }
    }

    fn contains(&self, number: usize) -> bool {
        if number < 64 {
            self.first & (1 << number) != 0
        } else {
            self.rest.contains(&number)
        }
    }
}
