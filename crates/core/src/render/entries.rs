//! Entries of a webhook configuration: the partitions of several injectors laid over each other, so
//! that a pod is in one entry at most.

use std::collections::BTreeSet;

use crate::condition::Expr;
use crate::injector::Injector;

use super::Note;
use super::object::fnv;
use super::partition::{self, Domain, LabelSet, Match, Partition, Rules};

/// One entry: namespaces, and the pods in them that are sent.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: Name,
    /// Terms on the labels of the namespace.
    pub(super) selector: Vec<Match>,
    /// The injectors that it asks for, and for each the condition on the pod.
    pub(super) asked_for: Vec<(String, Expr)>,
}

/// The first part of an entry's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    /// One injector is concerned: its name, and behind that a number if it has several entries.
    One(String),
    /// Several are: a number that stays the same as long as the entry asks for the same injectors in the
    /// same namespaces.
    Several(u64),
    /// Updates that give a sidecar another image.
    Image,
}

/// Numbers of entries are below this. There are at most some hundred entries.
const NUMBERS: u64 = 10_000;

impl Entry {
    /// The injectors that it asks for.
    pub(super) fn injectors(&self) -> Vec<&str> {
        let names = self.asked_for.iter().map(|(name, _)| name.as_str());
        names.collect()
    }
}

/// How much is tried before the result is widened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Most entries for one hook. Beyond these, some labels do not tell namespaces apart.
    pub(super) entries: usize,
    /// Most kinds of namespaces that are tried for one injector, and most values of annotations for
    /// each.
    pub(super) tried: usize,
}

impl Limits {
    /// Far above what presets need.
    pub(super) const USUAL: Self = Self {
        entries: 100,
        tried: 1_000,
    };
}

/// The partitions of one injector, and the labels that do not tell them apart.
struct Part<'r> {
    rules: Rules<'r>,
    hidden: BTreeSet<&'r str>,
    partitions: Vec<Partition>,
}

/// Disjoint entries for these injectors, and what had to be widened. There is none for a pod that requires
/// none of them.
pub(super) fn of(
    injectors: &[&Injector],
    excluded: &[&str],
    limits: Limits,
) -> (Vec<Entry>, Vec<Note>) {
    let domain = partition::domain(injectors);
    let mut parts: Vec<Part<'_>> = injectors
        .iter()
        .map(|injector| Part::new(Rules::new(injector, excluded, limits.tried), &domain))
        .collect();
    while count(&parts) > limits.entries && hide_one(&mut parts, &domain) {}
    let mut overlays = vec![Overlay::default()];
    for part in &parts {
        overlays = overlays
            .iter()
            .flat_map(|below| below.under(part))
            .collect();
    }
    let asking = overlays.into_iter().filter(|one| !one.asked_for.is_empty());
    let mut names = BTreeSet::new();
    // From the last: it is for namespaces that say most, so that users meet its name most often.
    let mut list: Vec<Entry> = asking
        .rev()
        .map(|one| one.entry(&domain, &mut names))
        .collect();
    list.reverse();
    (list, parts.iter().filter_map(Part::note).collect())
}

impl<'r> Part<'r> {
    fn new(rules: Rules<'r>, domain: &Domain) -> Self {
        let mut hidden = BTreeSet::new();
        let labels: Vec<&str> = rules.labels().rev().collect();
        for label in labels {
            if !rules.is_too_large(domain, &hidden) {
                break;
            }
            hidden.insert(label);
        }
        let partitions = rules.partitions(domain, &hidden);
        Self {
            rules,
            hidden,
            partitions,
        }
    }

    /// The last label that tells namespaces apart, if one does.
    fn last_label(&self) -> Option<&'r str> {
        let mut labels = self.rules.labels().rev();
        labels.find(|label| !self.hidden.contains(label))
    }

    fn note(&self) -> Option<Note> {
        let labels = self.hidden.iter().map(|label| (*label).to_owned());
        (!self.hidden.is_empty()).then(|| Note {
            injector: self.rules.name().to_owned(),
            labels: labels.collect(),
        })
    }
}

fn count(parts: &[Part<'_>]) -> usize {
    let partitions = parts.iter().map(|part| part.partitions.len());
    partitions.fold(1, usize::saturating_mul)
}

/// Stops telling namespaces apart by the last label of the injector with most partitions (of those,
/// the last in the configuration). False if none is left.
fn hide_one(parts: &mut [Part<'_>], domain: &Domain) -> bool {
    let can = parts.iter_mut().filter(|part| part.last_label().is_some());
    let Some(part) = can.max_by_key(|part| part.partitions.len()) else {
        return false;
    };
    part.hidden.extend(part.last_label());
    part.partitions = part.rules.partitions(domain, &part.hidden);
    true
}

/// Partitions of several injectors over each other.
#[derive(Debug, Clone, Default)]
struct Overlay {
    labels: LabelSet,
    asked_for: Vec<(String, Expr)>,
}

impl Overlay {
    fn under<'p>(&'p self, part: &'p Part<'_>) -> impl Iterator<Item = Self> + 'p {
        part.partitions.iter().filter_map(|partition| {
            let mut overlay = Self {
                labels: partition::both(&self.labels, &partition.labels)?,
                asked_for: self.asked_for.clone(),
            };
            if partition.expr != Expr::FALSE {
                let injector = part.rules.name().to_owned();
                overlay.asked_for.push((injector, partition.expr.clone()));
            }
            Some(overlay)
        })
    }

    /// The entry, with a name that is not among `names` yet.
    fn entry(self, domain: &Domain, names: &mut BTreeSet<Name>) -> Entry {
        let selector = partition::matches(&self.labels, domain);
        let injectors: Vec<&str> = self
            .asked_for
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        let terms = selector
            .iter()
            .map(|t| format!("{} {} {:?}", t.label, t.operator, t.values));
        let meaning = injectors.iter().map(|name| (*name).to_owned()).chain(terms);
        let hash = fnv(&meaning.collect::<Vec<_>>().join("\n"));
        let name = |attempt: u64| match injectors.as_slice() {
            [one] if attempt == 0 => Name::One((*one).to_owned()),
            [one] => Name::One(format!("{one}-{}", attempt + 1)),
            _ => Name::Several(hash.wrapping_add(attempt) % NUMBERS),
        };
        let mut attempts = (0..).map(name);
        let free = attempts.find(|name| names.insert(name.clone()));
        Entry {
            // The range has no end.
            name: free.unwrap_or(Name::Several(hash)),
            selector,
            asked_for: self.asked_for,
        }
    }
}
