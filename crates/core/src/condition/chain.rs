//! Rules as chains of tests, and what is left of them once some keys are known.
//!
//! "The first rule whose terms all hold decides" becomes one condition, in one of two ways:
//! [`Choice::exact`] tries every value that rules can tell apart, key by key, and names what leads
//! to the same; [`Choice::folded`] nests the rules as they stand, for profiles too large for that.

use std::collections::{BTreeMap, BTreeSet};

use crate::injector::coverage::Sample;
use crate::injector::rule::{Key, Place, Rule, Test};
use crate::list::distinct;

use super::{Expr, KeyTest};

/// Tests in order: the first step all of whose tests pass decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Chain {
    pub(crate) steps: Vec<Step>,
    /// What holds if no step decides.
    pub(crate) otherwise: bool,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    pub(crate) tests: Vec<KeyTest>,
    pub(crate) then: bool,
}

impl Step {
    fn retaining(&self, keeps: impl Fn(&KeyTest) -> bool) -> Self {
        let tests = self.tests.iter().filter(|test| keeps(test));
        Self {
            tests: tests.cloned().collect(),
            then: self.then,
        }
    }
}

impl Chain {
    /// The rules, each with what it says here.
    pub(crate) fn new<'r>(
        rules: impl Iterator<Item = &'r Rule>,
        then: impl Fn(&Rule) -> bool,
        otherwise: bool,
    ) -> Self {
        let step = |rule: &Rule| Step {
            tests: KeyTest::of_all(&rule.when),
            then: then(rule),
        };
        Self {
            steps: rules.map(step).collect(),
            otherwise,
        }
    }

    /// The chain where `known` says the values of some keys.
    pub(crate) fn given<'s>(&self, known: impl Fn(&Key) -> Option<&'s Sample>) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        for step in &self.steps {
            let value = |test: &KeyTest| known(&test.key);
            let fails =
                |test: &KeyTest| value(test).is_some_and(|v| !test.test.passes(v.as_deref()));
            if step.tests.iter().any(fails) {
                continue;
            }
            let rest = step.retaining(|test| value(test).is_none());
            let decides = rest.tests.is_empty();
            steps.push(rest);
            if decides {
                break;
            }
        }
        Self { steps, ..*self }
    }

    /// A chain that never says less, without the hidden keys. A step that says yes does so whatever
    /// their values are; a step that says no and reads one goes.
    pub(crate) fn without(&self, hidden: impl Fn(&Key) -> bool) -> Self {
        let is_known = |test: &KeyTest| !hidden(&test.key);
        let keeps = |step: &&Step| step.then || step.tests.iter().all(is_known);
        let steps = self.steps.iter().filter(keeps);
        Self {
            steps: steps.map(|step| step.retaining(is_known)).collect(),
            ..*self
        }
    }

    /// The chain as though only tests of this place were there.
    pub(crate) fn only(&self, place: Place) -> Self {
        let is_there = |test: &KeyTest| test.key.place == place;
        let steps = self.steps.iter().map(|step| step.retaining(is_there));
        Self {
            steps: steps.collect(),
            ..*self
        }
    }

    fn constant(&self) -> Option<bool> {
        match self.steps.first() {
            None => Some(self.otherwise),
            Some(step) => step.tests.is_empty().then_some(step.then),
        }
    }

    /// As a condition: from the last step to the first.
    fn folded(&self) -> Expr {
        self.steps
            .iter()
            .rfold(Expr::Const(self.otherwise), |rest, step| {
                let holds = Expr::all(step.tests.iter().cloned().map(KeyTest::expr));
                if step.then {
                    Expr::any([holds, rest])
                } else {
                    Expr::all([holds.not(), rest])
                }
            })
    }
}

/// Some chains say yes, all of one set: what is left over when several things are possible.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice(BTreeSet<Vec<Chain>>);

impl Choice {
    /// One more possibility: all of these chains.
    pub(crate) fn add(&mut self, chains: Vec<Chain>) {
        self.0.insert(chains);
    }

    /// Whatever one of the two allows.
    pub(crate) fn or(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// As a condition: the shortest that is found by trying `samples`, else as the rules stand.
    pub(crate) fn expr(&self, samples: &BTreeMap<&Key, Vec<Sample>>) -> Expr {
        self.exact(samples).unwrap_or_else(|| self.folded())
    }

    pub(crate) fn folded(&self) -> Expr {
        Expr::any(
            self.0
                .iter()
                .map(|chains| Expr::all(chains.iter().map(Chain::folded))),
        )
    }

    fn tests(&self) -> impl Iterator<Item = &KeyTest> {
        let steps = self.0.iter().flatten().flat_map(|chain| &chain.steps);
        steps.flat_map(|step| &step.tests)
    }

    /// By trying values. `None` if there are too many, or texts that differ by case or white space alone
    /// matter in one rule and not in another.
    fn exact(&self, samples: &BTreeMap<&Key, Vec<Sample>>) -> Option<Expr> {
        let order = distinct(self.tests().map(|test| &test.key));
        let folding = self.tests().filter(|test| test.test.fold);
        let folded: BTreeSet<&Key> = folding.map(|test| &test.key).collect();
        let has_case = |value: &String| value.bytes().any(|byte| byte.is_ascii_alphabetic());
        let trimming = self.tests().filter(|test| test.test.trim);
        let trimmed: BTreeSet<&Key> = trimming.map(|test| &test.key).collect();
        let is_mixed = |KeyTest { key, test }: &KeyTest| {
            !test.fold && folded.contains(key) && test.values.iter().any(has_case)
                || !test.trim && trimmed.contains(key) && !test.values.is_empty()
        };
        if self.tests().any(is_mixed) {
            return None;
        }
        let mut tried = Trial {
            samples,
            order: &order,
            folded: &folded,
            trimmed: &trimmed,
            left: MOST_TRIED,
        };
        let expr = tried.expr(self.clone())?;
        (expr.size() <= LONGEST).then_some(expr)
    }

    /// The open chains alone; or the answer, if nothing is open.
    fn settled(self) -> Result<Self, bool> {
        let mut open = BTreeSet::new();
        for chains in self.0 {
            if chains.iter().any(|chain| chain.constant() == Some(false)) {
                continue;
            }
            let rest: Vec<Chain> = chains
                .into_iter()
                .filter(|chain| chain.constant().is_none())
                .collect();
            if rest.is_empty() {
                return Err(true);
            }
            open.insert(rest);
        }
        if open.is_empty() {
            return Err(false);
        }
        Ok(Self(open))
    }
}

/// Most states that are tried, and most tests in a condition found so.
const MOST_TRIED: usize = 2_000;
const LONGEST: usize = 60;

struct Trial<'t> {
    samples: &'t BTreeMap<&'t Key, Vec<Sample>>,
    order: &'t [&'t Key],
    folded: &'t BTreeSet<&'t Key>,
    trimmed: &'t BTreeSet<&'t Key>,
    left: usize,
}

impl Trial<'_> {
    fn expr(&mut self, choice: Choice) -> Option<Expr> {
        self.left = self.left.checked_sub(1)?;
        let choice = match choice.settled() {
            Err(constant) => return Some(Expr::Const(constant)),
            Ok(choice) => choice,
        };
        let reads = |key: &&&Key| choice.tests().any(|test| test.key == ***key);
        let key = *self.order.iter().find(reads)?;
        let mut groups: Vec<(Expr, Vec<&Sample>)> = Vec::new();
        for sample in self.samples.get(key)? {
            let known = |other: &Key| (other == key).then_some(sample);
            let given =
                |chains: &Vec<Chain>| chains.iter().map(|chain| chain.given(known)).collect();
            let expr = self.expr(Choice(choice.0.iter().map(given).collect()))?;
            match groups.iter_mut().find(|(known, _)| *known == expr) {
                Some((_, samples)) => samples.push(sample),
                None => groups.push((expr, vec![sample])),
            }
        }
        let ways = (self.folded.contains(key), self.trimmed.contains(key));
        let all: Vec<&Sample> = self.samples.get(key)?.iter().collect();
        // What is settled reads best first.
        groups.sort_by_key(|(expr, _)| !matches!(expr, Expr::Const(_)));
        let part = |(expr, samples): (Expr, Vec<&Sample>)| {
            Expr::all([one_of(key, &samples, &all, ways), expr])
        };
        if let [(Expr::Const(true), settled), (_, _)] = groups.as_slice() {
            // `a || b` for `a || (!a && b)`.
            let test = one_of(key, settled, &all, ways);
            return Some(Expr::any([test, groups.pop()?.0]));
        }
        Some(Expr::any(groups.into_iter().map(part)))
    }
}

/// The test that these of all samples pass, and no others.
fn one_of(key: &Key, passing: &[&Sample], all: &[&Sample], ways: (bool, bool)) -> Expr {
    // In the order of `samples_of`: absent, any unnamed value, then each named one.
    let [absent, others] = [0, 1].map(|index| all.get(index).is_some_and(|s| passing.contains(s)));
    let named = all.iter().skip(2);
    let differing = named.filter(|sample| passing.contains(sample) != others);
    let test = Test {
        absent,
        others,
        values: differing.filter_map(|sample| (*sample).clone()).collect(),
        fold: ways.0,
        trim: ways.1,
    };
    KeyTest::new(key, test).expr()
}
