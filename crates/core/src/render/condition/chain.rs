//! Rules as chains of tests, and what is left of them once some keys are known.
//!
//! "The first rule whose terms all hold decides" becomes one condition, in one of two ways:
//! [`Choice::exact`] tries every value that rules can tell apart, key by key, and names what leads
//! to the same; [`Choice::folded`] nests the rules as they stand, for profiles too large for that.

use std::collections::{BTreeMap, BTreeSet};

use crate::injector::coverage::Sample;
use crate::injector::rule::{Key, Place, Rule};

use super::{Expr, KeyTest};

/// Tests in order: the first step all of whose tests pass decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::render) struct Chain {
    pub(in crate::render) steps: Vec<Step>,
    /// What holds if no step decides.
    pub(in crate::render) otherwise: bool,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::render) struct Step {
    pub(in crate::render) tests: Vec<KeyTest>,
    pub(in crate::render) then: bool,
}

impl Chain {
    /// The rules, each with what it says here.
    pub(in crate::render) fn new<'r>(
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
    pub(in crate::render) fn given<'s>(&self, known: impl Fn(&Key) -> Option<&'s Sample>) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        for step in &self.steps {
            let mut rest = Vec::new();
            let mut fails = false;
            for test in &step.tests {
                match known(&test.key) {
                    None => rest.push(test.clone()),
                    Some(value) => fails |= !test.passes(value.as_deref()),
                }
            }
            if fails {
                continue;
            }
            let decides = rest.is_empty();
            steps.push(Step {
                tests: rest,
                then: step.then,
            });
            if decides {
                break;
            }
        }
        Self {
            steps,
            otherwise: self.otherwise,
        }
    }

    /// A chain that never says less, without the keys that nothing is known of: what says yes
    /// does so whatever they are, what says no does not.
    pub(in crate::render) fn without(&self, hidden: impl Fn(&Key) -> bool) -> Self {
        let keeps = |step: &&Step| step.then || !step.tests.iter().any(|test| hidden(&test.key));
        let rest = |step: &Step| Step {
            tests: step
                .tests
                .iter()
                .filter(|test| !hidden(&test.key))
                .cloned()
                .collect(),
            then: step.then,
        };
        Self {
            steps: self.steps.iter().filter(keeps).map(rest).collect(),
            otherwise: self.otherwise,
        }
    }

    /// The chain as though only tests of this place were there.
    pub(in crate::render) fn only(mut self, place: Place) -> Self {
        for step in &mut self.steps {
            step.tests.retain(|test| test.key.place == place);
        }
        self
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
pub(in crate::render) struct Choice(BTreeSet<Vec<Chain>>);

impl Choice {
    /// One more possibility: all of these chains.
    pub(in crate::render) fn add(&mut self, chains: Vec<Chain>) {
        self.0.insert(chains);
    }

    /// Whatever one of the two allows.
    pub(in crate::render) fn or(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// As a condition: the shortest that is found by trying `samples`, else as the rules stand.
    pub(in crate::render) fn expr(&self, samples: &BTreeMap<&Key, Vec<Sample>>) -> Expr {
        self.exact(samples).unwrap_or_else(|| self.folded())
    }

    pub(in crate::render) fn folded(&self) -> Expr {
        Expr::any(
            self.0
                .iter()
                .map(|chains| Expr::all(chains.iter().map(Chain::folded))),
        )
    }

    /// By trying values. `None` if there are too many, or texts that differ by case alone matter
    /// in one rule and not in another.
    fn exact(&self, samples: &BTreeMap<&Key, Vec<Sample>>) -> Option<Expr> {
        let chains = self.0.iter().flatten();
        let tests = chains
            .flat_map(|chain| &chain.steps)
            .flat_map(|step| &step.tests);
        let mut order: Vec<&Key> = Vec::new();
        let mut folds: BTreeMap<&Key, bool> = BTreeMap::new();
        for test in tests.clone() {
            if !order.contains(&&test.key) {
                order.push(&test.key);
            }
            *folds.entry(&test.key).or_default() |= test.fold;
        }
        let has_case = |value: &String| value.bytes().any(|byte| byte.is_ascii_alphabetic());
        let is_mixed = |test: &KeyTest| {
            !test.fold && folds.get(&test.key) == Some(&true) && test.values.iter().any(has_case)
        };
        if tests.clone().any(is_mixed) {
            return None;
        }
        let mut tried = Trial {
            samples,
            order: &order,
            folds: &folds,
            left: MOST_TRIED,
        };
        let expr = tried.expr(self.clone())?;
        (expr.size() <= LONGEST).then_some(expr)
    }

    /// With what is certain taken out; or what it all comes to.
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
            Err(false)
        } else {
            Ok(Self(open))
        }
    }
}

/// Most states that are tried, and most tests in a condition found so.
const MOST_TRIED: usize = 2_000;
const LONGEST: usize = 60;

struct Trial<'t> {
    samples: &'t BTreeMap<&'t Key, Vec<Sample>>,
    order: &'t [&'t Key],
    folds: &'t BTreeMap<&'t Key, bool>,
    left: usize,
}

impl Trial<'_> {
    fn expr(&mut self, choice: Choice) -> Option<Expr> {
        self.left = self.left.checked_sub(1)?;
        let choice = match choice.settled() {
            Err(constant) => return Some(Expr::Const(constant)),
            Ok(choice) => choice,
        };
        let chains = || choice.0.iter().flatten();
        let reads = |key: &&&Key| {
            let mut tests = chains()
                .flat_map(|chain| &chain.steps)
                .flat_map(|step| &step.tests);
            tests.any(|test| test.key == ***key)
        };
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
        let fold = self.folds.get(key).copied().unwrap_or(false);
        let all: Vec<&Sample> = self.samples.get(key)?.iter().collect();
        // What is settled reads best first.
        groups.sort_by_key(|(expr, _)| !matches!(expr, Expr::Const(_)));
        let part = |(expr, samples): (Expr, Vec<&Sample>)| {
            Expr::all([one_of(key, &samples, &all, fold), expr])
        };
        if let [(Expr::Const(true), settled), (_, _)] = groups.as_slice() {
            // `a || b` for `a || (!a && b)`.
            let test = one_of(key, settled, &all, fold);
            return Some(Expr::any([test, groups.pop()?.0]));
        }
        Some(Expr::any(groups.into_iter().map(part)))
    }
}

/// The test that these of all samples pass, and no others.
fn one_of(key: &Key, passing: &[&Sample], all: &[&Sample], fold: bool) -> Expr {
    // As `samples_of` has it: absent, what nobody names, what is named.
    let [absent, others] = [0, 1].map(|index| all.get(index).is_some_and(|s| passing.contains(s)));
    let named = all
        .iter()
        .skip(2)
        .filter(|sample| passing.contains(sample) != others);
    let spell = |text: &String| {
        if fold {
            text.to_ascii_lowercase()
        } else {
            text.clone()
        }
    };
    let mut values: Vec<String> = named
        .filter_map(|sample| sample.as_ref().map(spell))
        .collect();
    values.sort_unstable();
    values.dedup();
    KeyTest {
        key: key.clone(),
        absent,
        others,
        values,
        fold,
    }
    .expr()
}
