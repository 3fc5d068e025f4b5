//! Which rules can never decide: contradictory terms, or an earlier rule that covers the whole.
//!
//! A key can be absent, hold one of the texts that some rule names (in that or another case), or
//! hold anything else. Rules can tell no other values apart, so that these finitely many samples
//! stand for all. A rule is, per key, the set of samples that pass; a rule is dead if an earlier
//! one has, for each key, all that it has.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{InstanceSource, Key, Rule, Term};
use crate::list;

/// What a key may hold, as far as rules can tell: `None` is absent.
pub(crate) type Sample = Option<String>;

/// Per key, which samples pass.
type Allowed<'r> = BTreeMap<&'r Key, Vec<bool>>;

/// Why a rule can never decide, or decides on a value that may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// No value of the key passes all terms on it.
    Contradiction(Key),
    /// The rule with this number decides before it, always.
    Covered(usize),
    /// The instance is the value of a key that may be absent.
    InstanceMayBeAbsent(Key),
}

/// The first rule that is flawed (by index), if any.
pub(crate) fn first_flaw(rules: &[Rule]) -> Option<(usize, Flaw)> {
    let samples = samples_of(rules.iter().flat_map(|rule| &rule.when));
    let sets = rules.iter().map(|rule| allowed(&rule.when, &samples));
    let sets: Vec<_> = sets.collect();
    let mut rows = rules.iter().zip(&sets).enumerate();
    rows.find_map(|(index, (rule, own))| {
        if let Some(key) = empty(own) {
            return Some((index, Flaw::Contradiction(key)));
        }
        if let Some(InstanceSource::Key { key, .. }) = &rule.instance
            && own
                .get(key)
                .is_none_or(|passes| passes.first() == Some(&true))
        {
            return Some((index, Flaw::InstanceMayBeAbsent(key.clone())));
        }
        // An option may be off, so that its rule covers only rules behind the same option.
        let mut earlier = rules.iter().zip(&sets).take(index);
        let cover = earlier.find(|(other, set)| {
            (other.option.is_none() || other.option == rule.option) && covers(set, own)
        });
        cover.map(|(other, _)| (index, Flaw::Covered(other.number)))
    })
}

/// Whether terms contradict each other: the key on which they do.
pub(crate) fn contradiction(terms: &[Term]) -> Option<Key> {
    empty(&allowed(terms, &samples_of(terms)))
}

/// The key of which no sample passes.
fn empty(set: &Allowed<'_>) -> Option<Key> {
    let mut keys = set.iter();
    let found = keys.find(|(_, passes)| !passes.contains(&true));
    found.map(|(key, _)| (*key).clone())
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
        let samples = samples.get(&term.key).map_or(&[][..], Vec::as_slice);
        let all = || vec![true; samples.len()];
        let set = sets.entry(&term.key).or_insert_with(all);
        for (passes, sample) in set.iter_mut().zip(samples) {
            *passes &= term.test.passes(sample.as_deref());
        }
    }
    sets
}

/// Per key the values that these terms can tell apart: absent, one that none of them names, then
/// those that they name, each also in a spelling that none of them has. Where a term trims, each of these
/// comes with white space as well.
pub(crate) fn samples_of<'r>(
    terms: impl IntoIterator<Item = &'r Term>,
) -> BTreeMap<&'r Key, Vec<Sample>> {
    // Per key the texts that are named, by what they are without case.
    let mut named: BTreeMap<&Key, (bool, BTreeMap<String, BTreeSet<&str>>)> = BTreeMap::new();
    for term in terms {
        let (trims, texts) = named.entry(&term.key).or_default();
        *trims |= term.test.trim;
        for value in &term.test.values {
            let spellings = texts.entry(value.to_ascii_lowercase()).or_default();
            spellings.insert(value);
        }
    }
    named
        .into_iter()
        .map(|(key, (trims, texts))| (key, distinguishable(trims, &texts)))
        .collect()
}

fn distinguishable(trims: bool, named: &BTreeMap<String, BTreeSet<&str>>) -> Vec<Sample> {
    // A text longer than all others stands for whatever no term names.
    let longest = named.keys().map(String::len).max().unwrap_or(0);
    let mut samples = vec![None, Some("-".repeat(longest + 1))];
    for (folded, spellings) in named {
        samples.extend(spellings.iter().map(|text| Some((*text).to_owned())));
        samples.extend(other_spelling(folded, spellings).map(Some));
    }
    if trims {
        // More of it than in any text that a term names.
        let padded = |text: &String| format!("{:longest$} {}", "", text.trim());
        let padded: Vec<String> = samples.iter().skip(2).flatten().map(padded).collect();
        samples.extend(padded.into_iter().map(Some));
    }
    list::distinct(samples)
}

/// The same text in a case that no term names, if there is one: `y` and `Y` may both be named.
fn other_spelling(folded: &str, named: &BTreeSet<&str>) -> Option<String> {
    let letters = folded.bytes().filter(u8::is_ascii_alphabetic).count();
    let spellings = 1_usize << letters.min(20);
    // One more than are named is enough to meet one that is not.
    (0..spellings.min(named.len() + 1))
        .map(|number| spelling(folded, number))
        .find(|text| !named.contains(text.as_str()))
}

/// The spelling with that number: bit by bit, which letters are upper case.
fn spelling(folded: &str, number: usize) -> String {
    let mut bits = number;
    let spell = |letter: char| {
        if !letter.is_ascii_alphabetic() {
            return letter;
        }
        let is_upper = bits & 1 == 1;
        bits >>= 1;
        if is_upper {
            letter.to_ascii_uppercase()
        } else {
            letter
        }
    };
    folded.chars().map(spell).collect()
}

#[cfg(test)]
#[path = "coverage_tests.rs"]
mod tests;
