//! Rules and their terms: what can never match, or never decide, is refused.

use std::collections::BTreeSet;

use serde_saphyr::{Location, Spanned};

use crate::injector::coverage::{self, Flaw};
use crate::injector::rule::{InstanceSource, Key, Place, Rule, Term, Test, Values};
use crate::injector::shown;
use crate::injector::spec::{self, InstanceSpec, KeySpec, Outcome, RuleSpec, TermSpec};
use crate::yaml::Plain;

use super::{Resolver, Result, not_empty, text};

impl Resolver<'_, '_> {
    pub(super) fn rules(
        &mut self,
        specs: Spanned<Vec<Spanned<RuleSpec>>>,
        options: &BTreeSet<&str>,
        has_instances: bool,
    ) -> Result<Vec<Rule>> {
        not_empty(self.document, &specs, "one rule at least")?;
        self.not_above(&specs, spec::MAX_RULES, "rules")?;
        let places: Vec<_> = specs.value.iter().map(|rule| rule.referenced).collect();
        let mut rules = Vec::with_capacity(places.len());
        for (number, spec) in (1..).zip(specs.value) {
            rules.push(self.rule(number, spec, options, has_instances)?);
        }
        let Some((index, flaw)) = coverage::first_flaw(&rules) else {
            return Ok(rules);
        };
        let at = places.get(index).copied().unwrap_or(self.at);
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
        Err(self.error(at, problem))
    }

    fn rule(
        &mut self,
        number: usize,
        spec: Spanned<RuleSpec>,
        options: &BTreeSet<&str>,
        has_instances: bool,
    ) -> Result<Rule> {
        let at = spec.referenced;
        let spec = spec.value;
        let option = spec
            .option
            .map(|name| self.option(name, options))
            .transpose()?;
        if spec.when.value.is_empty() && option.is_none() {
            let problem = "found an empty list, expected one term at least: a rule that always \
                           holds must depend on an option";
            return Err(self.error(spec.when.referenced, problem));
        }
        if has_instances && spec.then == Outcome::Required && spec.instance.is_none() {
            let problem = format!("rule {number} requires the injector but names no instance");
            return Err(self.error(at, problem));
        }
        if let Some(instance) = &spec.instance
            && !(has_instances && spec.then == Outcome::Required)
        {
            let problem = "found an instance, expected it only where the profile has `instances` \
                           and the rule says `then: required`";
            return Err(self.error(instance.referenced, problem));
        }
        Ok(Rule {
            number,
            option,
            when: self.terms(spec.when)?,
            then: spec.then,
            instance: spec
                .instance
                .map(|instance| self.instance(instance))
                .transpose()?,
            warn: spec.warn.map(|warn| self.sentence(warn)).transpose()?,
        })
    }

    pub(super) fn option(&self, name: Spanned<String>, options: &BTreeSet<&str>) -> Result<String> {
        if options.contains(name.value.as_str()) {
            return Ok(name.value);
        }
        let expected = if options.is_empty() {
            "none, as this profile declares no `options`".to_owned()
        } else {
            let known = options.iter().copied().collect::<Vec<_>>();
            format!("one of {}", known.join(", "))
        };
        let problem = format!(
            "found option \"{}\", expected {expected}",
            shown(&name.value)
        );
        Err(self.error(name.referenced, problem))
    }

    fn instance(&mut self, spec: Spanned<InstanceSpec>) -> Result<InstanceSource> {
        let Spanned {
            value,
            referenced,
            defined,
        } = spec;
        match value {
            InstanceSpec::Constant(value) => {
                let text = Spanned {
                    value,
                    referenced,
                    defined,
                };
                Ok(InstanceSource::Constant(
                    self.filled(text, "the name of an instance")?,
                ))
            }
            InstanceSpec::Key(key) => {
                let key = self.key(*key, referenced)?;
                let slot = self.keys.intern(&key, self.reader);
                Ok(InstanceSource::Key { key, slot })
            }
        }
    }

    pub(super) fn terms(&mut self, specs: Spanned<Vec<Spanned<TermSpec>>>) -> Result<Vec<Term>> {
        self.not_above(&specs, spec::MAX_TERMS, "terms")?;
        specs
            .value
            .into_iter()
            .map(|term| self.term(term.value, term.referenced))
            .collect()
    }

    fn term(&mut self, spec: TermSpec, at: Location) -> Result<Term> {
        let key = self.key(
            KeySpec {
                pod_label: spec.pod_label,
                pod_annotation: spec.pod_annotation,
                namespace_label: spec.namespace_label,
                namespace_annotation: spec.namespace_annotation,
            },
            at,
        )?;
        let fold_at = spec.fold.as_ref().map_or(at, |fold| fold.referenced);
        let fold = spec.fold.is_some_and(|fold| fold.value.0);
        let is_label = matches!(key.place, Place::PodLabel | Place::NamespaceLabel);
        let test = match (spec.one_of, spec.not_in, spec.exists) {
            (Some(list), None, None) => Test::In(self.values(list, fold, is_label)?),
            (None, Some(list), None) => Test::NotIn(self.values(list, fold, is_label)?),
            (None, None, Some(Plain(true))) => Test::Exists,
            (None, None, Some(Plain(false))) => Test::Absent,
            (None, None, None) => {
                let problem = "this term has no test, expected exactly one of in, notIn, exists";
                return Err(self.error(at, problem));
            }
            _ => {
                let problem = "found several tests, expected exactly one of in, notIn, exists";
                return Err(self.error(at, problem));
            }
        };
        if fold && (is_label || test.values().is_none()) {
            let problem = "found fold, expected it only with in and notIn on annotations";
            return Err(self.error(fold_at, problem));
        }
        let slot = self.keys.intern(&key, self.reader);
        Ok(Term { key, test, slot })
    }

    fn values(
        &mut self,
        list: Spanned<Vec<Spanned<String>>>,
        fold: bool,
        is_label: bool,
    ) -> Result<Values> {
        not_empty(self.document, &list, "one value at least")?;
        let Some(left) = self.values_left.checked_sub(list.value.len()) else {
            let most = spec::MAX_VALUES;
            let problem = format!("found more than {most} values in one profile, expected fewer");
            return Err(self.error(list.referenced, problem));
        };
        self.values_left = left;
        let mut seen = BTreeSet::new();
        for value in &list.value {
            let text = &value.value;
            let shown = shown(text);
            if is_label && !text::is_label_value(text) {
                let problem = format!("found \"{shown}\", which no label can have as its value");
                return Err(self.error(value.referenced, problem));
            }
            let same = if fold {
                text.to_ascii_lowercase()
            } else {
                text.clone()
            };
            if !seen.insert(same) {
                let problem = format!("value \"{shown}\" is there twice, expected once");
                return Err(self.error(value.referenced, problem));
            }
        }
        let list = list.value.into_iter().map(|value| value.value).collect();
        Ok(Values { list, fold })
    }

    fn key(&self, spec: KeySpec, at: Location) -> Result<Key> {
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
            return Err(self.error(at, format_args!("no key is named here, {expected}")));
        };
        if named.next().is_some() {
            return Err(self.error(at, format_args!("found several keys, {expected}")));
        }
        if !text::is_qualified_name(&name.value) {
            let problem = format!(
                "found \"{}\", expected the name of {}: letters, digits, -, _ and ., after an \
                 optional domain and /",
                shown(&name.value),
                place.noun_with_article(),
            );
            return Err(self.error(name.referenced, problem));
        }
        Ok(Key {
            place,
            name: name.value,
        })
    }
}
