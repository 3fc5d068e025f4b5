//! What a policy decides, before it is printed.

use crate::condition::chain::Chain;
use crate::condition::{Container, Expr, KeyTest};
use crate::injector::Injector;
use crate::injector::profile::InjectedSet;
use crate::injector::rule::{Key, Outcome, Rule, Test};

/// Rules by number, with what they need to hold; and what then follows.
#[derive(Debug)]
pub(crate) struct Plan {
    /// A cheap condition that holds wherever a rule needs anything of a pod, and for few other pods.
    pub(crate) concerned: Expr,
    /// It reads the pod alone.
    pub(crate) by_pod: bool,
    /// In order; the first that holds decides.
    pub(crate) ordinary: Vec<(usize, Expr)>,
    /// The injector's own namespace, if it acts there.
    pub(crate) home: Option<Home>,
    /// Rules that require the injector.
    pub(crate) required: Vec<usize>,
    /// Rules by which a pod opts out where it may not.
    pub(crate) opt_outs: Vec<usize>,
    /// Rules that found a value that it does not know.
    pub(crate) invalid: Vec<usize>,
    /// The sidecar is in the pod.
    pub(crate) injected: Expr,
    /// An update gives the sidecar another image than it may have.
    pub(crate) replaced: Expr,
}

/// The injector's own namespace, where only what the pod says can ask for it.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) namespace: String,
    /// The rules as though the namespace carried no marks.
    pub(crate) asked: Vec<(usize, Expr)>,
    /// Those by which the pod asks.
    pub(crate) asking: Vec<usize>,
    /// Those that switch the injector off, opt-outs among them.
    pub(crate) off: Vec<usize>,
}

impl Plan {
    pub(crate) fn new(injector: &Injector, excluded: &[&str]) -> Self {
        let profile = &injector.profile;
        let with = |wanted: &dyn Fn(&Rule) -> bool| -> Vec<usize> {
            let rules = injector.active_rules().filter(|rule| wanted(rule));
            rules.map(|rule| rule.position).collect()
        };
        let home = &profile.service.namespace;
        let needs = |rule: &Rule| matches!(rule.then, Outcome::Required | Outcome::Invalid);
        // An opt-out that is forbidden stands before the rule that allows it, and behind all rules where none does.
        let allows = injector.rules_at_home().map(|rule| rule.position).max();
        let acts = profile.namespaces.contains(home) && !excluded.contains(&home.as_str());
        let own = acts.then(|| Home {
            namespace: home.clone(),
            asked: unmarked(injector.rules_at_home()),
            asking: with(&|rule| needs(rule) && rule.is_asked_by_pod()),
            off: with(&|rule| !needs(rule) && Some(rule.position) <= allows),
        });
        let keys = concerned(injector.active_rules());
        let exists = |key: &Key| KeyTest::new(key, Test::exists()).expr();
        Self {
            by_pod: keys.iter().flatten().all(|key| key.place.is_on_pod()),
            concerned: keys.map_or(Expr::Const(true), |keys| {
                Expr::any(keys.into_iter().map(exists))
            }),
            ordinary: injector
                .active_rules()
                .map(|rule| (rule.position, Expr::terms(&rule.when)))
                .collect(),
            home: own,
            required: with(&|rule| rule.then == Outcome::Required),
            opt_outs: with(&|rule| rule.then == Outcome::OptOut),
            invalid: with(&|rule| rule.then == Outcome::Invalid),
            injected: Expr::any(profile.sets().map(is_there)),
            replaced: Expr::replaced(profile),
        }
    }
}

/// Few keys of which one is there wherever a rule needs anything: each such rule wants one of them. `None`
/// if one wants no key.
fn concerned<'r>(rules: impl Iterator<Item = &'r Rule>) -> Option<Vec<&'r Key>> {
    let wanted = |rule: &'r Rule| -> Vec<&'r Key> {
        let terms = rule.when.iter().filter(|term| term.test.is_positive());
        let mut keys: Vec<&Key> = terms.map(|term| &term.key).collect();
        keys.sort_by_key(|key| !key.place.is_on_pod());
        keys
    };
    let needing = rules.filter(|rule| rule.then != Outcome::NotRequired);
    let mut choices: Vec<_> = needing.map(wanted).collect();
    // Those without a choice first.
    choices.sort_by_key(Vec::len);
    let mut keys = Vec::new();
    for choice in choices {
        let first = *choice.first()?;
        if !choice.iter().any(|key| keys.contains(key)) {
            keys.push(first);
        }
    }
    Some(keys)
}

/// The rules where no key of the namespace is there.
fn unmarked<'r>(rules: impl Iterator<Item = &'r Rule>) -> Vec<(usize, Expr)> {
    let absent = |key: &Key| (!key.place.is_on_pod()).then_some(&None);
    let rules = rules.filter_map(|rule| {
        let alone = Chain::new(std::iter::once(rule), |_| true, false).given(absent);
        let step = alone.steps.into_iter().next()?;
        Some((
            rule.position,
            Expr::all(step.tests.into_iter().map(KeyTest::expr)),
        ))
    });
    rules.collect()
}

/// All of a set is in the pod, and the set counts for it.
fn is_there(set: &InjectedSet) -> Expr {
    let when = std::iter::once(Expr::terms(&set.when));
    let sidecar = set.sidecar.iter();
    let sidecar = sidecar.map(|name| Expr::sidecar(name, &set.not_image, &set.images));
    let init = set.init.iter().cloned();
    let init = init.map(|name| Expr::Container(Container::Init(name)));
    Expr::all(when.chain(sidecar).chain(init))
}
