//! Entries of a webhook configuration: the cells of several injectors laid over each other, so
//! that a pod is in one entry at most.

use std::collections::{BTreeMap, BTreeSet};

use crate::injector::Injector;

use super::Note;
use super::cells::{self, Cell, Cube, Domain, Match, Rules};
use super::condition::Expr;

/// One entry: namespaces and which pods in them are sent.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Which requirements it asks about: `linkerd-2.vault`.
    pub(super) name: String,
    /// Terms on the labels of the namespace.
    pub(super) selector: Vec<Match>,
    /// The injectors that it asks for, and for each the condition on the pod.
    pub(super) asked_for: Vec<(String, Expr)>,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "tests ask which namespaces are meant")
    )]
    pub(super) cube: Cube,
}

impl Entry {
    /// The injectors that it asks for.
    pub(super) fn injectors(&self) -> Vec<&str> {
        let names = self.asked_for.iter().map(|(name, _)| name.as_str());
        names.collect()
    }
}

/// Disjoint entries.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) list: Vec<Entry>,
    pub(super) notes: Vec<Note>,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "tests ask which namespaces are meant")
    )]
    pub(super) domain: Domain,
}

/// How much is tried before the result is widened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Most entries for one hook: beyond these, namespaces are not told apart by some label.
    pub(super) entries: usize,
    /// Most kinds of namespaces that are looked at for one injector, and most values of
    /// annotations for each.
    pub(super) tried: usize,
}

impl Limits {
    /// Far above what presets need.
    pub(super) const USUAL: Self = Self {
        entries: 100,
        tried: 1_000,
    };
}

/// Longest name of an entry, without what is put behind it.
const LONGEST_NAME: usize = 200;

/// The cells of one injector, and the labels by which they are not told apart.
struct Part<'r> {
    rules: Rules<'r>,
    hidden: BTreeSet<&'r str>,
    cells: Vec<Cell>,
}

/// The entries for these injectors. None for a pod that requires none of them.
pub(super) fn of(injectors: &[&Injector], excluded: &[&str], limits: Limits) -> Entries {
    let domain = cells::domain(injectors);
    let mut parts: Vec<Part<'_>> = injectors
        .iter()
        .map(|injector| Part::new(Rules::new(injector, excluded, limits.tried), &domain))
        .collect();
    while count(&parts) > limits.entries && hide_one(&mut parts, &domain) {}
    let notes = parts
        .iter()
        .filter(|part| !part.hidden.is_empty())
        .map(|part| Note::Widened {
            injector: part.rules.name().to_owned(),
            labels: part
                .hidden
                .iter()
                .map(|label| (*label).to_owned())
                .collect(),
        });
    let notes = notes.collect();
    let mut laid: Vec<Laid> = vec![Laid::default()];
    for part in &parts {
        laid = laid.iter().flat_map(|below| below.under(part)).collect();
    }
    laid.retain(|one| one.expr() != Expr::FALSE);
    let mut list: Vec<Entry> = laid.iter().map(|one| one.entry(&domain)).collect();
    name_apart(&mut list);
    Entries {
        list,
        notes,
        domain,
    }
}

impl<'r> Part<'r> {
    fn new(rules: Rules<'r>, domain: &Domain) -> Self {
        let mut hidden = BTreeSet::new();
        let mut labels = rules.labels().rev();
        while rules.is_too_large(domain, &hidden) {
            let Some(label) = labels.next() else { break };
            hidden.insert(label);
        }
        drop(labels);
        let cells = rules.cells(domain, &hidden);
        Self {
            rules,
            hidden,
            cells,
        }
    }
}

fn count(parts: &[Part<'_>]) -> usize {
    parts
        .iter()
        .map(|part| part.cells.len())
        .fold(1, usize::saturating_mul)
}

/// Numbers entries that ask about the same requirements in different namespaces.
fn name_apart(entries: &mut [Entry]) {
    let mut seen: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for entry in entries.iter() {
        seen.entry(entry.name.clone()).or_default().0 += 1;
    }
    for entry in entries {
        let Some((count, number)) = seen.get_mut(&entry.name) else {
            continue;
        };
        *number += 1;
        if *count > 1 {
            entry.name = format!("{}.part-{number}", entry.name);
        }
    }
}

/// Stops telling namespaces apart by the last label of the injector with most cells (of those,
/// the last in the configuration). False if nothing is left.
fn hide_one(parts: &mut [Part<'_>], domain: &Domain) -> bool {
    let can = |part: &&mut Part<'_>| part.rules.labels().any(|l| !part.hidden.contains(l));
    let Some(part) = parts
        .iter_mut()
        .filter(can)
        .max_by_key(|part| part.cells.len())
    else {
        return false;
    };
    let label = part
        .rules
        .labels()
        .rev()
        .find(|label| !part.hidden.contains(label));
    part.hidden.extend(label);
    part.cells = part.rules.cells(domain, &part.hidden);
    true
}

/// Cells of several injectors over each other.
#[derive(Debug, Clone, Default)]
struct Laid {
    cube: Cube,
    names: Vec<String>,
    asked_for: Vec<(String, Expr)>,
}

impl Laid {
    fn under<'p>(&'p self, part: &'p Part<'_>) -> impl Iterator<Item = Self> + 'p {
        let asks = |cell: &Cell| cell.expr != Expr::FALSE;
        let several = part.cells.iter().filter(|cell| asks(cell)).count() > 1;
        let mut numbers = 1..;
        part.cells.iter().filter_map(move |cell| {
            let number = if asks(cell) { numbers.next() } else { None };
            let mut laid = Self {
                cube: cells::both(&self.cube, &cell.cube)?,
                names: self.names.clone(),
                asked_for: self.asked_for.clone(),
            };
            if let Some(number) = number {
                let name = part.rules.name();
                let name = if several {
                    format!("{name}-{number}")
                } else {
                    name.to_owned()
                };
                laid.names.push(name);
                let injector = part.rules.name().to_owned();
                laid.asked_for.push((injector, cell.expr.clone()));
            }
            Some(laid)
        })
    }

    fn expr(&self) -> Expr {
        Expr::any(self.asked_for.iter().map(|(_, expr)| expr.clone()))
    }

    fn entry(&self, domain: &Domain) -> Entry {
        let name = self.names.join(".");
        Entry {
            name: if name.len() > LONGEST_NAME {
                "several".to_owned()
            } else {
                name
            },
            selector: cells::matches(&self.cube, domain),
            asked_for: self.asked_for.clone(),
            cube: self.cube.clone(),
        }
    }
}
