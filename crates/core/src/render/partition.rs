//! Partitions: kinds of namespaces that rules tell apart by labels, and the rest of the rules there, as
//! a condition on the pod.
//!
//! The conditions of a webhook see no namespace but its name, and a selector sees its labels alone. So
//! meshgate tries labels value by value. Within one partition all tests of labels are decided, and tests
//! of annotations as far as the mirrored label says; the rest is a condition on the pod.
//!
//! # An example
//!
//! An injector `sun` with two rules, of which the first that holds decides:
//!
//! 1. pod annotation `sun.io/inject` is `false`: not required
//! 2. namespace label `sun.io/inject` is `yes`, or pod annotation `sun.io/inject` is `true`: required
//!
//! The [`Domain`] of the label is *absent* (number 0), *any other value* (1), and `yes` (2). Trying each:
//!
//! | label | condition on the pod |
//! | --- | --- |
//! | 0 absent | annotation is `true` |
//! | 1 other | annotation is `true` |
//! | 2 `yes` | annotation is not `false` |
//!
//! Values that leave the same condition join. Two partitions remain, and each becomes an entry: the
//! [`LabelSet`] {0, 1} prints as `sun.io/inject NotIn [yes]`, and {2} as `sun.io/inject In [yes]`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::condition::chain::{Chain, Choice};
use crate::condition::{Expr, KeyTest};
use crate::injector::Injector;
use crate::injector::coverage::{self, Sample};
use crate::injector::rule::{Key, Outcome, Place, Rule, Test};
use crate::list::distinct;

use super::mirror;

/// Per label the kinds of values that rules tell apart: absent, any other, then each named one.
pub(super) type Domain = BTreeMap<String, Vec<Sample>>;

/// Per label a set of kinds of values, by their number in the [`Domain`]. A label that is not in it may
/// hold anything.
pub(super) type LabelSet = BTreeMap<String, BTreeSet<usize>>;

/// Namespaces of one kind, and the pods in them that are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Partition {
    pub(super) labels: LabelSet,
    pub(super) expr: Expr,
}

/// All labels of namespaces that these injectors tell apart.
pub(super) fn domain(injectors: &[&Injector]) -> Domain {
    let mut domain = Domain::new();
    let rules = injectors.iter().flat_map(|one| one.active_rules());
    let terms = rules.flat_map(|rule| &rule.when);
    for term in terms.filter(|term| term.key.place == Place::NamespaceLabel) {
        let values = domain.entry(term.key.name.clone()).or_default();
        values.extend(term.test.values.iter().cloned().map(Some));
    }
    for injector in injectors.iter().filter(|one| mirror::is_needed(one)) {
        domain.entry(mirror::label(injector)).or_default();
    }
    for values in domain.values_mut() {
        // A value that is longer than all others is none of them.
        let longest = values.iter().flatten().map(String::len).max().unwrap_or(0);
        let other = Some("-".repeat(longest + 1));
        *values = distinct([None, other].into_iter().chain(values.drain(..)));
    }
    domain
}

/// The rules of one injector, and the keys that they read.
pub(super) struct Rules<'r> {
    injector: &'r Injector,
    /// Names that no selector lets through.
    excluded: &'r [&'r str],
    /// Most kinds of namespaces that are tried, and most values of annotations in each.
    most_tried: usize,
    /// Required, by the rules as they stand.
    ordinary: Chain,
    /// In the injector's own namespace: the pod itself asks for it, and …
    asked: Chain,
    /// … no rule switches it off there.
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
        let at_home = || injector.rules_at_home();
        let keys = rules().flat_map(|rule| rule.when.iter().map(|term| &term.key));
        let labels = distinct(keys.filter(|key| key.place == Place::NamespaceLabel));
        let mirror = mirror::is_needed(injector).then(|| Key {
            place: Place::NamespaceLabel,
            name: mirror::label(injector),
        });
        Self {
            injector,
            excluded,
            most_tried,
            ordinary: Chain::new(rules(), requires, false),
            asked: Chain::new(at_home(), |r| requires(r) && r.is_asked_by_pod(), false),
            unless: Chain::new(at_home(), requires, true),
            samples: coverage::samples_of(rules().flat_map(|rule| &rule.when)),
            labels,
            mirror,
        }
    }

    pub(super) fn name(&self) -> &'r str {
        &self.injector.profile.name
    }

    /// Labels of namespaces that a partitioning can leave out, in the order of the rules.
    pub(super) fn labels(&self) -> impl DoubleEndedIterator<Item = &'r str> {
        self.labels.iter().map(|key| key.name.as_str())
    }

    /// All namespaces, as disjoint partitions, without telling them apart by `hidden` labels.
    pub(super) fn partitions(&self, domain: &Domain, hidden: &BTreeSet<&str>) -> Vec<Partition> {
        let labels = self.labels.iter().copied();
        let labels = labels.filter(|key| !hidden.contains(key.name.as_str()));
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
    ) -> Vec<Partition> {
        let Some((key, rest)) = keys.split_first() else {
            return vec![Partition {
                labels: LabelSet::new(),
                expr: self.expr(known),
            }];
        };
        let mut groups: Vec<(Vec<Partition>, BTreeSet<usize>)> = Vec::new();
        for (number, sample) in domain.get(&key.name).into_iter().flatten().enumerate() {
            known.insert(key, sample);
            let partitions = self.split(rest, domain, known);
            match groups.iter_mut().find(|(known, _)| *known == partitions) {
                Some((_, numbers)) => _ = numbers.insert(number),
                None => groups.push((partitions, BTreeSet::from([number]))),
            }
        }
        known.remove(key);
        // The label makes no difference.
        if groups.len() == 1 {
            return groups.pop().map(|(all, _)| all).unwrap_or_default();
        }
        let mut all = Vec::new();
        for (partitions, numbers) in groups {
            for part in selectable(numbers) {
                all.extend(partitions.iter().cloned().map(|mut one| {
                    one.labels.insert(key.name.clone(), part.clone());
                    one
                }));
            }
        }
        all
    }

    /// The condition on a pod where these labels are known.
    fn expr(&self, known: &BTreeMap<&Key, &Sample>) -> Expr {
        let (ordinary, own) = self.choices(known);
        let profile = &self.injector.profile;
        let acts = |name: &&str| !self.excluded.contains(name);
        let named =
            |names: &[String]| Expr::namespace(names.iter().map(String::as_str).filter(acts));
        let mut scope = vec![named(&profile.namespaces.except).not()];
        scope.extend(profile.namespaces.only.as_deref().map(named));
        let home = profile.service.namespace.as_str();
        let everywhere = ordinary.expr(&self.samples);
        let at_home = own.expr(&self.samples);
        // The mirror never sets its label there: asking about too many pods then harms none.
        let is_mirrored = || self.mirror_in(known) == Some(true);
        let is_same = !acts(&home)
            || !profile.namespaces.contains(home)
            || at_home == everywhere
            || is_mirrored() && ordinary.or(own).expr(&self.samples) == everywhere;
        scope.push(if is_same {
            everywhere
        } else {
            let is_home = Expr::namespace([home]);
            Expr::any([
                Expr::all([is_home.clone().not(), everywhere]),
                Expr::all([is_home, at_home]),
            ])
        });
        Expr::all(scope)
    }

    fn mirror_in(&self, known: &BTreeMap<&Key, &Sample>) -> Option<bool> {
        known
            .get(self.mirror.as_ref()?)
            .map(|sample| sample.is_some())
    }

    /// The pods that remain, anywhere and in the injector's own namespace: under each set of values that
    /// the unknown keys of the namespace may have.
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
                let is_it = |key: &Key| key.place == Place::NamespaceAnnotation && key.name == name;
                let found = values.iter().find(|(key, _)| is_it(key));
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
                let by_annotation = |t: &KeyTest| t.key.place == Place::NamespaceAnnotation;
                let by_pod = |t: &KeyTest| t.key.place.is_on_pod() && !t.test.absent;
                let is_wider = !step.then || step.tests.iter().any(by_pod);
                is_wider || !step.tests.iter().any(by_annotation)
            });
        }
        let unless = self.unless.given(value).without(hidden);
        let mut choices = (Choice::default(), Choice::default());
        choices.0.add(vec![ordinary.without(hidden)]);
        choices.1.add(vec![asked.clone(), unless]);
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

/// The same kinds, in parts that a selector can say: it cannot say "absent or one of these".
fn selectable(mut numbers: BTreeSet<usize>) -> Vec<BTreeSet<usize>> {
    let is_odd = numbers.contains(&ABSENT) && !numbers.contains(&OTHER) && numbers.len() > 1;
    if !is_odd {
        return vec![numbers];
    }
    numbers.remove(&ABSENT);
    vec![BTreeSet::from([ABSENT]), numbers]
}

/// The namespaces that are in both, if there can be one.
pub(super) fn both(a: &LabelSet, b: &LabelSet) -> Option<LabelSet> {
    let mut both = a.clone();
    for (label, numbers) in b {
        let shared = match both.get(label) {
            None => numbers.clone(),
            Some(own) => own & numbers,
        };
        if shared.is_empty() {
            return None;
        }
        both.insert(label.clone(), shared);
    }
    Some(both)
}

/// A term of a label selector.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Match {
    #[serde(rename = "key")]
    pub(super) label: String,
    pub(super) operator: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) values: Vec<String>,
}

impl Match {
    /// The term as a condition.
    pub(super) fn expr(&self) -> Expr {
        let named = || Test::one_of(self.values.clone(), false, false);
        let test = match self.operator {
            "In" => named(),
            "NotIn" => named().negated(),
            "Exists" => Test::exists(),
            _ => Test::exists().negated(),
        };
        let key = Key {
            place: Place::NamespaceLabel,
            name: self.label.clone(),
        };
        KeyTest::new(&key, test).expr()
    }
}

/// The terms of a label selector.
pub(super) fn matches(set: &LabelSet, domain: &Domain) -> Vec<Match> {
    let mut terms = Vec::new();
    for (label, numbers) in set {
        let all = domain.get(label).map_or(&[][..], Vec::as_slice);
        let (absent, others) = (numbers.contains(&ABSENT), numbers.contains(&OTHER));
        let named = all.iter().enumerate().skip(2);
        let differing = named.filter(|(number, _)| numbers.contains(number) != others);
        let mut values: Vec<String> = differing.filter_map(|(_, value)| value.clone()).collect();
        values.sort_unstable();
        let mut add = |operator, values| {
            terms.push(Match {
                label: label.clone(),
                operator,
                values,
            });
        };
        if !others {
            if absent {
                add("DoesNotExist", Vec::new());
            } else {
                add("In", values);
            }
            continue;
        }
        if !absent {
            add("Exists", Vec::new());
        }
        if !values.is_empty() {
            add("NotIn", values);
        }
    }
    terms
}
