//! Cells: kinds of namespaces that rules can tell apart by labels, and what is left to ask of a
//! pod there.
//!
//! A webhook's conditions see no namespace but its name, a selector sees its labels alone. So
//! labels are tried value by value; within one cell all tests of labels are decided, tests of
//! annotations as far as the mirrored label says, and the rest is a condition on the pod.

use std::collections::{BTreeMap, BTreeSet};

use crate::injector::Injector;
use crate::injector::coverage::{self, Sample};
use crate::injector::rule::Outcome;
use crate::injector::rule::{Key, Place, Rule};

use super::condition::Expr;
use super::condition::chain::{Chain, Choice};
use super::mirror;

/// Per label the kinds of values that are told apart: absent, any other, then each that is named.
pub(super) type Domain = BTreeMap<String, Vec<Sample>>;

/// Per label the kinds of values that are meant, by their number in the [`Domain`]; labels that
/// are not in it may hold anything.
pub(super) type Cube = BTreeMap<String, BTreeSet<usize>>;

/// Namespaces of one kind, and which pods in them are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) cube: Cube,
    pub(super) expr: Expr,
}

/// All labels of namespaces that these injectors tell apart.
pub(super) fn domain(injectors: &[&Injector]) -> Domain {
    let mut domain = Domain::new();
    let rules = injectors
        .iter()
        .flat_map(|injector| injector.active_rules());
    for term in rules.flat_map(|rule| &rule.when) {
        if term.key.place != Place::NamespaceLabel {
            continue;
        }
        let values = domain
            .entry(term.key.name.clone())
            .or_insert_with(|| vec![None, None]);
        for value in term.test.values().map_or(&[][..], |values| &values.list) {
            if !values.iter().skip(2).any(|own| own.as_ref() == Some(value)) {
                values.push(Some(value.clone()));
            }
        }
    }
    for injector in injectors
        .iter()
        .filter(|injector| mirror::is_needed(injector))
    {
        domain
            .entry(mirror::label(injector))
            .or_insert_with(|| vec![None, None]);
    }
    for values in domain.values_mut() {
        // One that is longer than all others is none of them.
        let longest = values.iter().flatten().map(String::len).max().unwrap_or(0);
        if let Some(other) = values.get_mut(1) {
            *other = Some("-".repeat(longest + 1));
        }
    }
    domain
}

/// The rules of one injector, and what they read.
pub(super) struct Rules<'r> {
    injector: &'r Injector,
    /// Names that no selector lets through.
    excluded: &'r [&'r str],
    /// Most kinds of namespaces, and most values of annotations in each, that are tried.
    most_tried: usize,
    /// Required, by the rules as they stand.
    ordinary: Chain,
    /// In its own namespace: required by what the pod says, and …
    asked: Chain,
    /// … not switched off there.
    unless: Chain,
    samples: BTreeMap<&'r Key, Vec<Sample>>,
    /// Labels of namespaces, in the order of the rules.
    labels: Vec<&'r Key>,
    mirror: Option<Key>,
}

impl<'r> Rules<'r> {
    pub(super) fn new(injector: &'r Injector, excluded: &'r [&'r str], most_tried: usize) -> Self {
        let rules = || injector.active_rules();
        let requires = |rule: &Rule| rule.then != Outcome::NotRequired;
        let mut labels: Vec<&Key> = Vec::new();
        for term in rules().flat_map(|rule| &rule.when) {
            if term.key.place == Place::NamespaceLabel && !labels.contains(&&term.key) {
                labels.push(&term.key);
            }
        }
        let mirror = mirror::is_needed(injector).then(|| Key {
            place: Place::NamespaceLabel,
            name: mirror::label(injector),
        });
        Self {
            injector,
            excluded,
            most_tried,
            ordinary: Chain::new(rules(), requires, false),
            asked: Chain::new(
                rules(),
                |rule| requires(rule) && rule.is_asked_by_pod(),
                false,
            ),
            unless: Chain::new(rules(), requires, true),
            samples: coverage::samples_of(rules().flat_map(|rule| &rule.when)),
            labels,
            mirror,
        }
    }

    pub(super) fn name(&self) -> &'r str {
        &self.injector.profile.name
    }

    /// Labels of namespaces that can be left out of a decomposition, the last first.
    pub(super) fn labels(&self) -> impl DoubleEndedIterator<Item = &'r str> {
        self.labels.iter().map(|key| key.name.as_str())
    }

    /// All namespaces, as disjoint cells, without telling them apart by `hidden` labels.
    pub(super) fn cells(&self, domain: &Domain, hidden: &BTreeSet<&str>) -> Vec<Cell> {
        let labels = self
            .labels
            .iter()
            .copied()
            .filter(|key| !hidden.contains(key.name.as_str()));
        let keys: Vec<&Key> = labels.chain(&self.mirror).collect();
        self.split(&keys, domain, &mut BTreeMap::new())
    }

    /// Whether there are too many kinds of namespaces to try each.
    pub(super) fn is_too_large(&self, domain: &Domain, hidden: &BTreeSet<&str>) -> bool {
        let labels = self.labels().filter(|label| !hidden.contains(label));
        let kinds = labels.map(|label| domain.get(label).map_or(1, Vec::len));
        kinds.fold(1_usize, usize::saturating_mul) > self.most_tried
    }

    fn split<'k>(
        &'k self,
        keys: &[&'k Key],
        domain: &'k Domain,
        known: &mut BTreeMap<&'k Key, &'k Sample>,
    ) -> Vec<Cell> {
        let Some((key, rest)) = keys.split_first() else {
            return vec![Cell {
                cube: Cube::new(),
                expr: self.expr(known),
            }];
        };
        let mut groups: Vec<(Vec<Cell>, BTreeSet<usize>)> = Vec::new();
        for (number, sample) in domain.get(&key.name).into_iter().flatten().enumerate() {
            known.insert(key, sample);
            let cells = self.split(rest, domain, known);
            match groups.iter_mut().find(|(known, _)| *known == cells) {
                Some((_, numbers)) => _ = numbers.insert(number),
                None => groups.push((cells, BTreeSet::from([number]))),
            }
        }
        known.remove(key);
        if groups.len() == 1 {
            return groups.pop().map(|(cells, _)| cells).unwrap_or_default();
        }
        let mut all = Vec::new();
        for (cells, numbers) in groups {
            for part in selectable(numbers) {
                all.extend(cells.iter().cloned().map(|mut cell| {
                    cell.cube.insert(key.name.clone(), part.clone());
                    cell
                }));
            }
        }
        all
    }

    /// What is asked of a pod where these labels are known.
    fn expr(&self, known: &BTreeMap<&Key, &Sample>) -> Expr {
        let (ordinary, own) = self.choices(known);
        let profile = &self.injector.profile;
        let acts = |name: &&str| !self.excluded.contains(name);
        let except = profile
            .namespaces
            .except
            .iter()
            .map(String::as_str)
            .filter(acts);
        let mut scope = vec![Expr::namespace(except).not()];
        if let Some(only) = &profile.namespaces.only {
            scope.push(Expr::namespace(
                only.iter().map(String::as_str).filter(acts),
            ));
        }
        let home = profile.service.namespace.as_str();
        let everywhere = ordinary.expr(&self.samples);
        if !acts(&home) || !profile.namespaces.contains(home) {
            scope.push(everywhere);
            return Expr::all(scope);
        }
        let at_home = own.expr(&self.samples);
        // The mirrored label is never there by right: asking for too much then harms nobody.
        let is_mirrored = self.mirror_in(known) == Some(true);
        if at_home == everywhere
            || is_mirrored && ordinary.or(own).expr(&self.samples) == everywhere
        {
            scope.push(everywhere);
            return Expr::all(scope);
        }
        let is_home = Expr::namespace([home]);
        scope.push(Expr::any([
            Expr::all([is_home.clone().not(), everywhere]),
            Expr::all([is_home, at_home]),
        ]));
        Expr::all(scope)
    }

    fn mirror_in(&self, known: &BTreeMap<&Key, &Sample>) -> Option<bool> {
        known
            .get(self.mirror.as_ref()?)
            .map(|sample| sample.is_some())
    }

    /// What pods are left to ask about, anywhere and in the injector's own namespace: under each
    /// set of values that the keys may have which are not known.
    fn choices(&self, known: &BTreeMap<&Key, &Sample>) -> (Choice, Choice) {
        let hidden: Vec<(&Key, &Vec<Sample>)> = self
            .samples
            .iter()
            .filter(|(key, _)| !key.place.is_on_pod() && !known.contains_key(*key))
            .map(|(key, samples)| (*key, samples))
            .collect();
        let asked = self
            .asked
            .given(|key| (!key.place.is_on_pod()).then_some(&None));
        let kinds = hidden.iter().map(|(_, samples)| samples.len());
        if kinds.fold(1_usize, usize::saturating_mul) > self.most_tried {
            return self.widened(known, &asked);
        }
        let mirrored = self.mirror_in(known);
        let (mut ordinary, mut own) = (Choice::default(), Choice::default());
        each(&hidden, &mut known.clone(), &mut |values| {
            let value = |key: &Key| values.get(key).copied();
            own.add(vec![asked.clone(), self.unless.given(value)]);
            let annotation = |name: &str| {
                let mut read = values.iter();
                let found = read
                    .find(|(key, _)| key.place == Place::NamespaceAnnotation && key.name == name);
                found.and_then(|(_, sample)| sample.as_deref())
            };
            if mirrored.is_none_or(|is| is == mirror::asks(self.injector, annotation)) {
                ordinary.add(vec![self.ordinary.given(value)]);
            }
        });
        (ordinary, own)
    }

    /// The same without trying: wider.
    fn widened(&self, known: &BTreeMap<&Key, &Sample>, asked: &Chain) -> (Choice, Choice) {
        let value = |key: &Key| known.get(key).copied();
        let hidden = |key: &Key| !key.place.is_on_pod();
        let mut ordinary = self.ordinary.given(value);
        if self.mirror_in(known) == Some(false) {
            ordinary.steps.retain(|step| {
                let by_annotation = |key: &Key| key.place == Place::NamespaceAnnotation;
                let by_pod = step
                    .tests
                    .iter()
                    .any(|t| t.key.place.is_on_pod() && !t.absent);
                !step.then || by_pod || !step.tests.iter().any(|t| by_annotation(&t.key))
            });
        }
        let mut choices = (Choice::default(), Choice::default());
        choices.0.add(vec![ordinary.without(hidden)]);
        choices.1.add(vec![
            asked.clone(),
            self.unless.given(value).without(hidden),
        ]);
        choices
    }
}

/// Calls `visit` with every choice of values.
fn each<'k>(
    keys: &[(&'k Key, &'k Vec<Sample>)],
    known: &mut BTreeMap<&'k Key, &'k Sample>,
    visit: &mut impl FnMut(&BTreeMap<&'k Key, &'k Sample>),
) {
    let Some(((key, samples), rest)) = keys.split_first() else {
        return visit(known);
    };
    for sample in *samples {
        known.insert(key, sample);
        each(rest, known, visit);
    }
    known.remove(key);
}

const ABSENT: usize = 0;
const OTHER: usize = 1;

/// The same kinds in parts that a selector can say: "absent or one of these" it cannot.
fn selectable(mut numbers: BTreeSet<usize>) -> Vec<BTreeSet<usize>> {
    let is_odd = numbers.contains(&ABSENT) && !numbers.contains(&OTHER) && numbers.len() > 1;
    if !is_odd {
        return vec![numbers];
    }
    numbers.remove(&ABSENT);
    vec![BTreeSet::from([ABSENT]), numbers]
}

/// The namespaces that are in both, if there can be one.
pub(super) fn both(a: &Cube, b: &Cube) -> Option<Cube> {
    let mut cube = a.clone();
    for (label, numbers) in b {
        let shared = match cube.get(label) {
            None => numbers.clone(),
            Some(own) => own & numbers,
        };
        if shared.is_empty() {
            return None;
        }
        cube.insert(label.clone(), shared);
    }
    Some(cube)
}

/// A label in a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) label: String,
    pub(super) operator: &'static str,
    pub(super) values: Vec<String>,
}

/// A cube as terms of a label selector.
pub(super) fn matches(cube: &Cube, domain: &Domain) -> Vec<Match> {
    let mut terms = Vec::new();
    for (label, numbers) in cube {
        let all = domain.get(label).map_or(&[][..], Vec::as_slice);
        let others = numbers.contains(&OTHER);
        let named = all.iter().enumerate().skip(2);
        let mut values: Vec<String> = named
            .filter(|(number, _)| numbers.contains(number) != others)
            .filter_map(|(_, sample)| sample.clone())
            .collect();
        values.sort_unstable();
        let mut add = |operator, values| {
            terms.push(Match {
                label: label.clone(),
                operator,
                values,
            });
        };
        match (numbers.contains(&ABSENT), others) {
            (true, false) => add("DoesNotExist", Vec::new()),
            (false, false) => add("In", values),
            (is_absent, true) => {
                if !is_absent {
                    add("Exists", Vec::new());
                }
                if !values.is_empty() {
                    add("NotIn", values);
                }
            }
        }
    }
    terms
}
