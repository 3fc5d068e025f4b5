//! Rules and their terms: a rule that can never match, or never decide, is refused.
//!
//! Such a rule is a misunderstanding of its author, who would find out when a pod runs bare.

use std::collections::BTreeSet;

use serde_saphyr::Location;

use crate::injector::coverage::{self, Flaw};
use crate::injector::rule::{InstanceSource, Key, Outcome, Place, Rule, Term, Test};
use crate::text::shown;
use crate::yaml::{List, Placed, Plain};

use super::Result;
use super::profile::Resolver;
use super::spec::{InstanceSpec, KeySpec, MAX_RULES, MAX_TERMS, MAX_VALUES, RuleSpec, TermSpec};
use super::text::{is_label_value, is_qualified_name};

impl Resolver<'_> {
    /// All rules of a profile. They are compared with each other once all are read, as whether one
    /// can decide depends on those before it.
    pub(super) fn rules(&mut self, specs: List<RuleSpec>) -> Result<Vec<Rule>> {
        self.count(&specs, MAX_RULES, "rule")?;
        let places: Vec<_> = specs.value.iter().map(|rule| rule.at).collect();
        let rules = (1..).zip(specs.value);
        let rules = rules.map(|(number, spec)| self.rule(number, spec));
        let rules = rules.collect::<Result<Vec<_>>>()?;
        let Some((index, flaw)) = coverage::first_flaw(&rules) else {
            return Ok(rules);
        };
        let number = index + 1;
        let problem = match flaw {
            Flaw::Contradiction(key) => {
                format!("rule {number} can never match: its terms on {key} contradict each other")
            }
            Flaw::Covered(earlier) => format!(
                "rule {number} can never decide: rule {earlier} before it matches all that it \
                 matches"
            ),
            Flaw::InstanceMayBeAbsent(key) => format!(
                "rule {number} takes its instance from {key}, which may be absent: expected a \
                 term that wants it to be there"
            ),
        };
        self.refuse(places.get(index).copied().unwrap_or(self.at), problem)
    }

    /// One rule, counted from 1 as messages count them.
    ///
    /// An empty `when` always holds. It stands for an injector that injects by default, which is a
    /// setting of the cluster and so an option. Without one the rule would require the sidecar of
    /// every pod.
    fn rule(&mut self, number: usize, spec: Placed<RuleSpec>) -> Result<Rule> {
        let (at, spec) = (spec.at, spec.value);
        let option = spec.option.map(|name| self.option(name)).transpose()?;
        let always_holds = spec.when.value.is_empty() && option.is_none();
        let problem = "found an empty list, expected one term at least: a rule that always \
                       holds must depend on an option";
        self.refuse_if(always_holds, spec.when.at, problem)?;
        // With copies, readiness is that of one of them: the rule has to say of which (case 31).
        let wants_instance = self.has_instances && spec.then == Outcome::Required;
        let problem = format_args!("rule {number} requires the injector but names no instance");
        self.refuse_if(wants_instance && spec.instance.is_none(), at, problem)?;
        if let Some(instance) = &spec.instance {
            let problem = "found an instance, expected it only where the profile has \
                           `instances` and the rule says `then: required`";
            self.refuse_if(!wants_instance, instance.at, problem)?;
        }
        Ok(Rule {
            number,
            position: number,
            option,
            when: self.terms(spec.when)?,
            then: spec.then,
            instance: spec.instance.map(|one| self.instance(one)).transpose()?,
            warn: spec.warn.map(|warn| self.sentence(warn)).transpose()?,
        })
    }

    /// A constant, or the value of a key (`istio.io/rev`, case 31). That key is indexed as those of
    /// terms are: its value is looked up in each review.
    fn instance(&mut self, spec: Placed<InstanceSpec>) -> Result<InstanceSource> {
        let at = spec.at;
        match spec.value {
            InstanceSpec::Constant(name) => {
                let name = self.text(name, at, "the name of an instance")?;
                Ok(InstanceSource::Constant(name))
            }
            InstanceSpec::Key(key) => {
                let key = self.key(*key, at)?;
                let slot = self.keys.intern(&key, self.number);
                Ok(InstanceSource::Key { key, slot })
            }
        }
    }

    /// The terms of a rule or set, which must all hold.
    pub(super) fn terms(&mut self, specs: List<TermSpec>) -> Result<Vec<Term>> {
        self.not_above(&specs, MAX_TERMS, "term")?;
        let terms = specs.value.into_iter();
        terms.map(|term| self.term(term.value, term.at)).collect()
    }

    /// One key and one test. Neither can be left open: a key that is absent passes `notIn` and fails
    /// `in`, so that a term without a test has no usual meaning.
    fn term(&mut self, spec: TermSpec, at: Location) -> Result<Term> {
        let key = KeySpec {
            pod_label: spec.pod_label,
            pod_annotation: spec.pod_annotation,
            namespace_label: spec.namespace_label,
            namespace_annotation: spec.namespace_annotation,
        };
        let key = self.key(key, at)?;
        let ways = [("fold", spec.fold), ("trim", spec.trim)];
        let ways = ways.map(|(word, given)| (word, given.filter(|given| given.value.0)));
        let [fold, trim] = [0, 1].map(|way: usize| ways[way].1.is_some());
        let expected = "expected exactly one of in, notIn, exists";
        let test = match (spec.one_of, spec.not_in, spec.exists) {
            (Some(list), None, None) => self.one_of(list, fold, trim, key.place)?,
            (None, Some(list), None) => self.one_of(list, fold, trim, key.place)?.negated(),
            (None, None, Some(Plain(true))) => Test::exists(),
            (None, None, Some(Plain(false))) => Test::exists().negated(),
            (None, None, None) => {
                return self.refuse(at, format_args!("this term has no test, {expected}"));
            }
            _ => return self.refuse(at, format_args!("found several tests, {expected}")),
        };
        // A namespaceSelector compares labels byte by byte: folded, the registration and the
        // decision would differ.
        let is_possible = !key.place.is_label() && !test.values.is_empty();
        for (word, given) in &ways {
            let at = given.as_ref().map_or(at, |given| given.at);
            let problem =
                format_args!("found {word}, expected it only with in and notIn on annotations");
            self.refuse_if(given.is_some() && !is_possible, at, problem)?;
        }
        let slot = self.keys.intern(&key, self.number);
        Ok(Term { key, test, slot })
    }

    /// The test of `in`, whose negation is that of `notIn`. There are few values in all, since the search for dead rules
    /// and the rendered conditions grow with each.
    fn one_of(&mut self, list: List<String>, fold: bool, trim: bool, place: Place) -> Result<Test> {
        self.not_empty(&list, "one value at least")?;
        let Some(left) = self.values_left.checked_sub(list.value.len()) else {
            let found = format!("more than {MAX_VALUES} values in one profile");
            return self.refuse(list.at, format_args!("found {found}, expected fewer"));
        };
        self.values_left = left;
        let mut seen = BTreeSet::new();
        for value in &list.value {
            let (text, at) = (&value.value, value.at);
            let found = shown(text);
            let problem = format_args!("found \"{found}\", which no label can have as its value");
            self.refuse_if(place.is_label() && !is_label_value(text), at, problem)?;
            let problem = format_args!(
                "found \"{found}\" with trim, expected a value without white space at its ends"
            );
            self.refuse_if(trim && text.trim() != text, at, problem)?;
            // Folded, two spellings are one value.
            let same = if fold {
                text.to_ascii_lowercase()
            } else {
                text.clone()
            };
            let problem = format_args!("value \"{found}\" is there twice, expected once");
            self.refuse_if(!seen.insert(same), at, problem)?;
        }
        let values = list.value.into_iter().map(|value| value.value);
        Ok(Test::one_of(values.collect(), fold, trim))
    }

    /// The one key that is named. An annotation where the injector reads a label is a common mistake
    /// (case 24), and the four fields keep them apart.
    fn key(&self, spec: KeySpec, at: Location) -> Result<Key> {
        // In the order of `Place::ALL`.
        let names = [
            spec.pod_label,
            spec.pod_annotation,
            spec.namespace_label,
            spec.namespace_annotation,
        ];
        let named = Place::ALL.into_iter().zip(names);
        let mut named = named.filter_map(|(place, name)| Some((place, name?)));
        let expected =
            "expected exactly one of podLabel, podAnnotation, namespaceLabel, namespaceAnnotation";
        let Some((place, name)) = named.next() else {
            return self.refuse(at, format_args!("no key is named here, {expected}"));
        };
        let problem = format_args!("found several keys, {expected}");
        self.refuse_if(named.next().is_some(), at, problem)?;
        let article = if place.is_label() { "a" } else { "an" };
        let problem = format_args!(
            "found \"{}\", expected the name of {article} {}: letters, digits, -, _ and ., \
             after an optional domain and /",
            shown(&name.value),
            place.noun(),
        );
        self.refuse_if(!is_qualified_name(&name.value), name.at, problem)?;
        Ok(Key {
            place,
            name: name.value,
        })
    }
}
