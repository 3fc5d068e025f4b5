//! Which owners are blocked: they want more pods than they have, those require an injector that is enforced, and
//! none has come for a while. By the same functions that gate and check ask. Pure.

use jiff::{SignedDuration, Timestamp};

use meshgate_core::decision::reason::Reason;
use meshgate_core::decision::{check, exemption, gate};
use meshgate_core::readiness::{Looked, Readiness};
use meshgate_core::view::pod::PodView;

use crate::cluster::store::Store;
use crate::cluster::workloads::{Owner, Pod, Uid, Workloads};

/// Injectors by their number in the configuration, each with its instance: those that a pod has to wait for.
pub type Set = Vec<(usize, Option<String>)>;

/// An owner that lacks pods because they are refused, whichever webhook or policy does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    pub uid: Uid,
    /// The number of the injector that keeps it waiting.
    pub injector: usize,
    pub set: Set,
    pub since: Timestamp,
    /// When meshgate last made its controller try.
    pub woken: Option<Timestamp>,
    pub outlook: Outlook,
}

/// What the gate would say of its pods now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// It would let them pass: their injectors are usable.
    Usable,
    /// An injector is not usable yet.
    Waits,
    /// To wait does not help: why it refuses them.
    Refused(Reason),
}

/// What the rules say of the pods of an owner; `None` if these wait for no injector.
#[derive(Debug)]
struct Judged {
    injector: usize,
    set: Set,
    outlook: Outlook,
}

/// All that are blocked at this time.
pub fn all(view: &Workloads, store: &Store, now: Timestamp) -> Vec<Blocked> {
    let is_quiet = |owner: &Owner| {
        let quiet = SignedDuration::try_from(owner.progress.quiet());
        quiet.is_ok_and(|quiet| now.duration_since(owner.moved) >= quiet)
    };
    let quiet = view.short().filter(|(_, owner)| is_quiet(owner));
    let blocked = quiet.filter_map(|(uid, owner)| blocked(uid, owner, store, now));
    blocked.collect()
}

/// What an owner that lacks pods waits for, if its pods require an injector.
pub fn blocked(uid: Uid, owner: &Owner, store: &Store, now: Timestamp) -> Option<Blocked> {
    let judged = judge(owner, store, now)?;
    Some(Blocked {
        uid,
        injector: judged.injector,
        set: judged.set,
        since: owner.failing_since.unwrap_or(owner.moved),
        woken: owner.woken,
        outlook: judged.outlook,
    })
}

/// The injectors that pods of this owner have to wait for; empty if they wait for none.
pub(super) fn awaited(owner: &Owner, store: &Store, now: Timestamp) -> Set {
    judge(owner, store, now)
        .map(|judged| judged.set)
        .unwrap_or_default()
}

fn judge(owner: &Owner, store: &Store, now: Timestamp) -> Option<Judged> {
    let injectors = store.injectors();
    if injectors.excludes(&owner.namespace) {
        return None;
    }
    let pod = PodView::read(&owner.template, injectors.keys()).ok()?;
    // Kubelets alone make mirror pods.
    if exemption::of(&pod, |_| false).is_some() {
        return None;
    }
    let namespace = store.namespace(&owner.namespace)?;
    let requirement = store.requirement(&pod, namespace, store.suspension(|| now));
    let decision = gate::decide(&pod, &requirement, |one| {
        store.readiness(one.number, one.instance())
    });
    let awaited = gate::awaited(&pod, &requirement);
    let set = awaited.map(|one| (one.number, one.instance().map(str::to_owned)));
    let set: Set = set.collect();
    let blocking = requirement.matches.iter();
    let mut blocking = blocking.filter(|one| Some(one.name()) == decision.injector);
    let outlook = if !decision.verdict.allows() {
        if decision.reason == Reason::InjectorNotReady {
            Outlook::Waits
        } else {
            Outlook::Refused(decision.reason)
        }
    } else if set.is_empty() {
        return None;
    } else {
        Outlook::Usable
    };
    let first = set.first().map(|(number, _)| *number);
    let injector = match outlook {
        Outlook::Usable => first,
        Outlook::Waits | Outlook::Refused(_) => blocking.next().map(|one| one.number).or(first),
    };
    Some(Judged {
        injector: injector?,
        set,
        outlook,
    })
}

/// The injectors that a pod proves to work: it holds their sidecars, which the template of its owner lacks.
pub(super) fn proved(pod: &Pod, view: &Workloads, store: &Store, now: Timestamp) -> Option<Set> {
    let owner = view.owner(pod.owner?)?;
    let set = awaited(owner, store, now);
    let own = PodView::read(&pod.facts, store.injectors().keys()).ok()?;
    let namespace = store.namespace(&pod.namespace)?;
    let requirement = store.requirement(&own, namespace, store.suspension(|| now));
    // Whether the injector is usable does not matter to the check.
    let checked = check::decide(&own, &requirement, |_| Readiness::Usable(Looked::Assumed));
    (!set.is_empty() && checked.verdict.allows()).then_some(set)
}

/// Whether each of them can be tried now.
pub(super) fn is_usable(set: &Set, store: &Store) -> bool {
    set.iter().all(|(number, instance)| {
        let readiness = store.readiness(*number, instance.as_deref());
        matches!(readiness, Readiness::Usable(_))
    })
}
