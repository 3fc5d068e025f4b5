//! Labels and annotations that rules read, and those that look nearly like them.

use std::collections::{BTreeMap, BTreeSet};

use meshgate_core::injector::rule::{Place, Term};
use meshgate_core::injector::{Injector, Injectors};
use serde_json::{Value, json};

use super::draw::Draw;

/// Labels and annotations of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

impl Marks {
    /// What is in an object's metadata.
    pub(super) fn of(object: &Value) -> Self {
        let map = |field: &str| -> BTreeMap<String, String> {
            let map = &object["metadata"][field];
            serde_json::from_value(map.clone()).unwrap_or_default()
        };
        Self {
            labels: map("labels"),
            annotations: map("annotations"),
        }
    }

    /// Metadata of an object with that name.
    pub(super) fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "labels": self.labels, "annotations": self.annotations})
    }

    pub(super) fn pairs(map: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
        map.iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    fn at(&mut self, is_label: bool) -> &mut BTreeMap<String, String> {
        if is_label {
            &mut self.labels
        } else {
            &mut self.annotations
        }
    }
}

/// What one object may be marked with: per key, and whether it is a label, the values.
type Words = BTreeMap<(String, bool), Vec<String>>;

/// What pods and namespaces may be marked with.
#[derive(Clone, Debug, Default)]
pub(super) struct Vocabulary {
    /// Where rules read them.
    pods: Words,
    namespaces: Words,
    /// The same keys where no rule reads them.
    beside_pods: Words,
    beside_namespaces: Words,
}

impl Vocabulary {
    /// All that the rules of these injectors read. `more` are further values of a key, such as
    /// the names of revisions.
    pub(super) fn of(injectors: &Injectors, more: &[(&str, &[&str])]) -> Self {
        let mut vocabulary = Self::default();
        let rules = injectors.iter().flat_map(|one| &one.profile.rules);
        for term in rules.flat_map(|rule| &rule.when) {
            vocabulary.learn(term, more);
        }
        vocabulary.look_around();
        vocabulary
    }

    /// The same, and what decides between the sets of containers that a pod may hold.
    pub(super) fn with_sets(injectors: &Injectors, more: &[(&str, &[&str])]) -> Self {
        let mut vocabulary = Self::of(injectors, more);
        for term in injectors.iter().flat_map(terms_of_sets) {
            vocabulary.learn(term, more);
        }
        vocabulary
    }

    fn learn(&mut self, term: &Term, more: &[(&str, &[&str])]) {
        let is_label = matches!(term.key.place, Place::PodLabel | Place::NamespaceLabel);
        let words = match term.key.place.is_on_pod() {
            true => &mut self.pods,
            false => &mut self.namespaces,
        };
        let known = words.entry((term.key.name.clone(), is_label)).or_default();
        let mut values: BTreeSet<String> = BTreeSet::from([String::new(), "maybe".to_owned()]);
        for value in &term.test.values {
            values.insert(value.clone());
            values.extend(near_misses(value));
            if term.test.trim {
                values.extend(padded(value));
            }
        }
        let further = more.iter().filter(|(key, _)| *key == term.key.name);
        values.extend(further.flat_map(|(_, list)| list.iter().map(|&value| value.to_owned())));
        values.retain(|value| !is_label || may_be_label(value));
        let new: Vec<String> = values
            .into_iter()
            .filter(|value| !known.contains(value))
            .collect();
        known.extend(new);
        // What is named is met more often than what is not.
        let named = &term.test.values;
        known.extend(named.iter().cloned());
    }

    /// Every key as a label and as an annotation, of pods and of namespaces.
    fn look_around(&mut self) {
        let mut all = Words::new();
        for ((key, _), values) in self.pods.iter().chain(&self.namespaces) {
            for is_label in [true, false] {
                let fits = |value: &&String| !is_label || may_be_label(value);
                let known = all.entry((key.clone(), is_label)).or_default();
                known.extend(values.iter().filter(fits).cloned());
            }
        }
        let beside = |read: &Words| {
            let mut beside = all.clone();
            beside.retain(|key, _| !read.contains_key(key));
            beside
        };
        self.beside_pods = beside(&self.pods);
        self.beside_namespaces = beside(&self.namespaces);
    }

    /// Marks of a pod.
    pub(super) fn pod(&self, draw: &mut Draw) -> Marks {
        drawn(&self.pods, &self.beside_pods, draw)
    }

    /// Marks of a namespace.
    pub(super) fn namespace(&self, draw: &mut Draw) -> Marks {
        drawn(&self.namespaces, &self.beside_namespaces, draw)
    }

    /// One key of a namespace, whether it is a label, and a value or none.
    pub(super) fn change(&self, draw: &mut Draw) -> (String, bool, Option<String>) {
        let keys: Vec<_> = self.namespaces.iter().collect();
        let ((key, is_label), values) = *draw.pick(&keys);
        let value = draw.chance(70).then(|| draw.pick(values).clone());
        (key.clone(), *is_label, value)
    }
}

pub(super) fn terms_of_sets(injector: &Injector) -> impl Iterator<Item = &Term> {
    injector.profile.injected.iter().flat_map(|set| &set.when)
}

fn drawn(read: &Words, beside: &Words, draw: &mut Draw) -> Marks {
    let mut marks = Marks::default();
    for (words, percent) in [(read, 50), (beside, 8)] {
        for ((key, is_label), values) in words {
            if draw.chance(percent) {
                let value = draw.pick(values).clone();
                marks.at(*is_label).insert(key.clone(), value);
            }
        }
    }
    marks
}

/// The same in other cases, and with something around it.
fn near_misses(value: &str) -> Vec<String> {
    let mut letters = value.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    let capital = first.into_iter().chain(letters).collect();
    vec![
        value.to_ascii_uppercase(),
        value.to_ascii_lowercase(),
        capital,
        format!(" {value}"),
        format!("{value}d"),
    ]
}

/// The same with all that is white space around it, and with what only looks like it.
fn padded(value: &str) -> [String; 4] {
    const SPACE: &str = "\t\n\u{b}\u{c}\r \u{85}\u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\
        \u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";
    [
        format!("{SPACE}{value}{SPACE}"),
        format!("\u{200b}{value}"),
        format!("{value}\u{feff}"),
        format!("{value}\u{1c}"),
    ]
}

/// As the API server wants values of labels.
fn may_be_label(value: &str) -> bool {
    let is_end = |letter: Option<u8>| letter.is_none_or(|letter| letter.is_ascii_alphanumeric());
    let bytes = value.as_bytes();
    let inner = |letter: &u8| letter.is_ascii_alphanumeric() || b"-_.".contains(letter);
    bytes.len() <= 63
        && bytes.iter().all(inner)
        && is_end(bytes.first().copied())
        && is_end(bytes.last().copied())
}
