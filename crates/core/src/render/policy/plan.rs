//! What a policy decides, before it is printed.

use crate::condition::chain::Chain;
use crate::condition::{Container, Expr, KeyTest};
use crate::injector::Injector;
use crate::injector::profile::InjectedSet;
use crate::injector::rule::{Key, Outcome, Rule};

/// Rules by number, with what they need to hold; and what then follows.
#[derive(Debug)]
pub(crate) struct Plan {
    /// In order; the first that holds decides.
    pub(crate) ordinary: Vec<(usize, Expr)>,
    /// The injector's own namespace, if it acts there.
    pub(crate) home: Option<Home>,
    /// Rules that require the injector.
    pub(crate) required: Vec<usize>,
    /// Rules that found a value that it does not know.
    pub(crate) invalid: Vec<usize>,
    /// The sidecar is in the pod.
    pub(crate) injected: Expr,
}

/// The injector's own namespace, where only what the pod says can ask for it.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) namespace: String,
    /// The rules as though the namespace carried no marks.
    pub(crate) asked: Vec<(usize, Expr)>,
    /// Those by which the pod asks.
    pub(crate) asking: Vec<usize>,
    /// Those that switch the injector off.
    pub(crate) off: Vec<usize>,
}

impl Plan {
    pub(crate) fn new(injector: &Injector, excluded: &[&str]) -> Self {
        let profile = &injector.profile;
        let with = |wanted: &dyn Fn(&Rule) -> bool| -> Vec<usize> {
            let rules = injector.active_rules().filter(|rule| wanted(rule));
            rules.map(|rule| rule.number).collect()
        };
        let home = &profile.service.namespace;
        let acts = profile.namespaces.contains(home) && !excluded.contains(&home.as_str());
        let own = acts.then(|| Home {
            namespace: home.clone(),
            asked: unmarked(injector),
            asking: with(&|rule| rule.then != Outcome::NotRequired && rule.is_asked_by_pod()),
            off: with(&|rule| rule.then == Outcome::NotRequired),
        });
        let sets = profile
            .injected
            .iter()
            .filter(|set| profile.is_on(set.option.as_deref()));
        Self {
            ordinary: injector
                .active_rules()
                .map(|rule| (rule.number, Expr::terms(&rule.when)))
                .collect(),
            home: own,
            required: with(&|rule| rule.then == Outcome::Required),
            invalid: with(&|rule| rule.then == Outcome::Invalid),
            injected: Expr::any(sets.map(is_there)),
        }
    }
}

/// The rules where no key of the namespace is there.
fn unmarked(injector: &Injector) -> Vec<(usize, Expr)> {
    let absent = |key: &Key| (!key.place.is_on_pod()).then_some(&None);
    let rules = injector.active_rules().filter_map(|rule| {
        let alone = Chain::new(std::iter::once(rule), |_| true, false).given(absent);
        let step = alone.steps.into_iter().next()?;
        Some((
            rule.number,
            Expr::all(step.tests.into_iter().map(KeyTest::expr)),
        ))
    });
    rules.collect()
}

/// All of a set is in the pod, and the set counts for it.
fn is_there(set: &InjectedSet) -> Expr {
    let when = std::iter::once(Expr::terms(&set.when));
    let sidecar = set.sidecar.iter();
    let sidecar = sidecar.map(|name| Expr::sidecar(name, &set.not_image));
    let init = set.init.iter().cloned();
    let init = init.map(|name| Expr::Container(Container::Init(name)));
    Expr::all(when.chain(sidecar).chain(init))
}
