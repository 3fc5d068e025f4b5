//! Which rules can never decide: contradictory terms, or an earlier rule that covers the whole.
//!
//! A key can be absent, hold one of the texts that some rule names (in that or another case), or
//! hold anything else. These are finitely many, so that a rule is, per key, a set of them.

use std::collections::BTreeMap;

use super::rule::{InstanceSource, Key, Rule, Term};

/// What a key may hold, as far as rules can tell: `None` is absent.
type Sample = Option<String>;

/// Per key, which samples pass.
type Allowed<'r> = BTreeMap<&'r Key, Vec<bool>>;

/// Why a rule can never decide, or decides on a value that may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flaw {
    /// No value of the key passes all terms on it.
    Contradiction(Key),
    /// The rule with this number decides before it, always.
    Covered(usize),
    /// The instance is the value of a key that may be absent.
    InstanceMayBeAbsent(Key),
}

/// The first rule that is flawed (by index), if any.
pub(super) fn first_flaw(rules: &[Rule]) -> Option<(usize, Flaw)> {
    let samples = samples(rules);
    let sets: Vec<_> = rules
        .iter()
        .map(|rule| allowed(&rule.when, &samples))
        .collect();
    rules.iter().enumerate().find_map(|(index, rule)| {
        let own = sets.get(index)?;
        if let Some((key, _)) = own.iter().find(|(_, passes)| !passes.contains(&true)) {
            return Some((index, Flaw::Contradiction((*key).clone())));
        }
        if let Some(InstanceSource::Key { key, .. }) = &rule.instance
            && own
                .get(key)
                .is_none_or(|passes| passes.first() == Some(&true))
        {
            return Some((index, Flaw::InstanceMayBeAbsent(key.clone())));
        }
        let earlier = rules.iter().zip(&sets).take(index);
        let cover = earlier.into_iter().find(|(other, set)| {
            (other.option.is_none() || other.option == rule.option) && covers(set, own)
        });
        cover.map(|(other, _)| (index, Flaw::Covered(other.number)))
    })
}

/// Whether terms contradict each other: the key on which they do.
pub(super) fn contradiction(terms: &[Term]) -> Option<Key> {
    let mut samples = BTreeMap::new();
    collect(terms, &mut samples);
    let set = allowed(terms, &samples);
    set.iter()
        .find(|(_, passes)| !passes.contains(&true))
        .map(|(key, _)| (*key).clone())
}

/// True if whatever passes `narrow` passes `wide`.
fn covers(wide: &Allowed<'_>, narrow: &Allowed<'_>) -> bool {
    wide.iter().all(|(key, passes)| match narrow.get(key) {
        Some(narrow) => passes
            .iter()
            .zip(narrow)
            .all(|(wide, narrow)| *wide || !narrow),
        None => passes.iter().all(|wide| *wide),
    })
}

fn allowed<'r>(terms: &'r [Term], samples: &BTreeMap<&'r Key, Vec<Sample>>) -> Allowed<'r> {
    let mut sets = Allowed::new();
    for term in terms {
        let Some(values) = samples.get(&term.key) else {
            continue;
        };
        let passes = values
            .iter()
            .map(|value| term.test.passes(value.as_deref()));
        match sets.get_mut(&term.key) {
            Some(set) => set
                .iter_mut()
                .zip(passes)
                .for_each(|(all, one)| *all &= one),
            None => {
                sets.insert(&term.key, passes.collect());
            }
        }
    }
    sets
}

fn samples(rules: &[Rule]) -> BTreeMap<&Key, Vec<Sample>> {
    let mut samples = BTreeMap::new();
    for rule in rules {
        collect(&rule.when, &mut samples);
    }
    samples
}

fn collect<'r>(terms: &'r [Term], samples: &mut BTreeMap<&'r Key, Vec<Sample>>) {
    for term in terms {
        // Absent comes first; a text that nobody writes stands for all the others.
        let values = samples
            .entry(&term.key)
            .or_insert_with(|| vec![None, Some("\0".into())]);
        for value in term.test.values().map_or(&[][..], |values| &values.list) {
            for spelling in [value.clone(), other_case(value)] {
                if !values.contains(&Some(spelling.clone())) {
                    values.push(Some(spelling));
                }
            }
        }
    }
}

/// The same text in a case that no rule is likely to name: `tRuE` and `True` stay apart.
fn other_case(text: &str) -> String {
    let flip = |(index, letter): (usize, char)| {
        if index % 2 == 0 {
            letter.to_ascii_lowercase()
        } else {
            letter.to_ascii_uppercase()
        }
    };
    text.chars().enumerate().map(flip).collect()
}
