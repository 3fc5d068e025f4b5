//! What is to be written next, from what there is and what is wanted. Pure and level-based: asked
//! again after every write, until there is nothing left to do.
//!
//! The order at the start: our namespace, the owner, the mirror and what proves it, (labels of existing namespaces,
//! see `namespaces`), the entries for pods as `Ignore`, the guard, and only then `Fail`. What is
//! there already is put right at any time; the order is that of creation.
//!
//! Nothing at all is written before somebody is there to be called (case 76).
//!
//! Where entries are armed for another configuration, nothing is written but what it takes to be
//! reached; once we are, and all serving replicas have this one, the mirror, (labels that are added),
//! and the entries, armed at once. Labels that the other one selected by go last.
//!
//! Where policies are to make the guarantee and webhooks do, nothing but policies is written until
//! they are in force; then entries are loosened, and what only refused as a webhook goes. The other
//! way round, policies go once all entries are armed and have been for a while.
//!
//! Glass that somebody broke until a time is mended when that has come.

mod held;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::break_glass::{self, Note};
use crate::kube_api::kind::{Id, Kind, in_order};
use crate::render::{CONFIGURATION, GUARD, MIRROR, MIRROR_PROOF, OWNER, proof};

use super::contains::contains;
use super::fleet::Replicas;
use super::{entries, policies, terms, trusting};

/// What is in the cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// Objects that carry our label or the name of one that is wanted.
    pub(super) objects: BTreeMap<Id, Value>,
    /// Our own namespace.
    pub(super) home: Home,
    /// Its UID, if it is there.
    pub(super) home_uid: Option<String>,
    /// Values of `caBundle` in what is live whose CAs are all in the wanted one, as far as they have
    /// not expired.
    pub(super) covered: BTreeSet<String>,
}

impl Observed {
    /// Objects whose glass somebody broke, with what they say.
    pub(super) fn broken(&self) -> impl Iterator<Item = (&Id, Note)> {
        let objects = self.objects.iter();
        objects.filter_map(|(id, live)| Some((id, break_glass::of(live)?)))
    }

    /// UID of the owner, if it is there and not about to go.
    pub(super) fn owner_uid(&self) -> Option<&str> {
        let owner = self.objects.get(&owner())?;
        let metadata = &owner["metadata"];
        metadata["uid"]
            .as_str()
            .filter(|_| metadata["deletionTimestamp"].is_null())
    }
}

/// Annotation of what an Argo CD Application has brought.
const ARGO: &str = "argocd.argoproj.io/tracking-id";

impl Observed {
    /// UID of our namespace, if it is to own the owner. Argo CD takes what has an owner for somebody else's: it
    /// would leave the owner, and a closed gate, when its Application is deleted (`GetManagedLiveObjs` of
    /// gitops-engine).
    pub(super) fn owning_uid(&self) -> Option<&str> {
        let owner = self.objects.get(&owner());
        let is_argo = owner.is_some_and(|owner| !owner["metadata"]["annotations"][ARGO].is_null());
        self.home_uid.as_deref().filter(|_| !is_argo)
    }
}

fn owner() -> Id {
    Id {
        kind: Kind::ClusterRole,
        name: OWNER.to_owned(),
    }
}

/// Our own namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Home {
    /// It is not there, and somebody else's to create.
    #[default]
    Missing,
    /// It is not there, and ours to create.
    Wanted,
    /// It is there.
    Active,
    /// It is being deleted.
    Terminating,
    /// It was deleted: nothing is written until somebody makes it anew.
    Withdrawn,
}

/// What is known besides.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all combinations occur"
)]
pub(super) struct Progress {
    /// Existing namespaces carry the labels that they should, and maybe more.
    pub(super) labelled: bool,
    /// The API server has reached us by the client configuration that is wanted.
    pub(super) reached: bool,
    /// What is there of the mirror has been there for long enough to be in force.
    pub(super) settled: bool,
    /// Who is there to be called.
    pub(super) replicas: Replicas,
    /// The policies that are wanted are in force as they are there, and have been for a while.
    pub(super) in_force: bool,
    /// The mirror is, where it is a policy.
    pub(super) mirror_in_force: bool,
    /// What time it is.
    pub(super) now: Timestamp,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Create our namespace.
    CreateHome,
    /// Write an object by server-side apply.
    Apply {
        /// Which.
        id: Id,
        /// What we want of it; with the resourceVersion that it was seen with, if it was.
        object: Value,
    },
    /// Give entries that are left alone else a wider bundle.
    Widen {
        /// Which.
        id: Id,
        /// The merge patch that does it.
        patch: Value,
    },
    /// Close the glass of an object whose time has come.
    Mend {
        /// Which.
        id: Id,
        /// The merge patch that does it.
        patch: Value,
    },
    /// Remove an object of ours that is not wanted.
    Delete {
        /// Which.
        id: Id,
    },
}

/// What is to be done now, and which objects are left alone because their break-glass annotation
/// says so.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// In this order.
    pub(super) actions: Vec<Action>,
    /// Under glass that somebody broke.
    pub(super) hands_off: Vec<Id>,
    /// The mirror is as it is wanted, or left alone.
    pub(super) mirrored: bool,
    /// What is not done yet, and for what it waits.
    pub(super) hold: Hold,
}

/// What is held back as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Hold {
    /// Nothing.
    #[default]
    None,
    /// All of it, until a replica can be called.
    First,
    /// Entries stay armed for another configuration, until we are reached and all replicas have this
    /// one.
    Another,
}

/// Plans the next writes. `wanted` is rendered as armed, in the order of creation.
pub(super) fn plan(observed: &Observed, wanted: &[Value], progress: Progress) -> Plan {
    let mut plan = Plan::default();
    if matches!(observed.home, Home::Terminating | Home::Withdrawn) {
        plan.actions = withdrawal(observed);
        return plan;
    }
    if progress.replicas == Replicas::NoneReady && !has_begun(observed, wanted) {
        plan.hold = Hold::First;
        return plan;
    }
    if observed.home == Home::Wanted {
        plan.actions.push(Action::CreateHome);
    }
    plan.actions.extend(mends(observed, progress.now));
    if !plan.actions.is_empty() {
        return plan;
    }
    let by_policy = policies::are_wanted(wanted);
    let is_everywhere = progress.replicas == Replicas::Equal;
    if plan.is_held((observed, wanted), progress, by_policy) {
        return plan;
    }
    let missing = missing(observed, wanted);
    // What is armed for this very configuration is put back whatever the replicas have.
    let is_in_turn = is_everywhere || is_armed(observed, wanted);
    plan.mirrored = observed.owner_uid().is_some();
    for object in wanted {
        let Some(id) = Id::of(object) else { continue };
        let live = observed.objects.get(&id);
        if live.is_none() && !may_begin(&id, progress, &missing, observed) {
            plan.mirrored &= id.name != MIRROR;
            continue;
        }
        if live.is_some_and(is_broken) {
            plan.leave_alone(id, observed, object);
            continue;
        }
        let Some(target) = proving(object, observed, wanted) else {
            continue;
        };
        // Nothing is armed where policies enforce, and they are in force.
        let is_free = by_policy && id.name != MIRROR;
        let is_of_another = is_of_another(observed, &target);
        let may_arm = is_in_turn && may_arm(&id, progress, &missing, is_of_another);
        let mut object = prepared(&target, live, is_free || may_arm);
        trusting::widen(&mut object, &target, &observed.covered);
        if live.is_some_and(|live| contains(live, &object)) {
            continue;
        }
        plan.mirrored &= id.name != MIRROR;
        plan.actions.push(apply(id, object, live));
    }
    if plan.actions.is_empty() {
        plan.actions = left_over((observed, wanted), progress, by_policy);
    }
    plan
}

/// What is not wanted (any more) and may go now, where nothing is left to be written.
fn left_over(
    (observed, wanted): (&Observed, &[Value]),
    progress: Progress,
    by_policy: bool,
) -> Vec<Action> {
    let is_everywhere = progress.replicas == Replicas::Equal;
    let is_all = is_everywhere && missing(observed, wanted).is_empty();
    let mut stale = stale(observed, wanted);
    // Another mirror labels namespaces until the one that is wanted is known to.
    stale.retain(|action| {
        let is_mirror = matches!(action, Action::Delete { id } if id.name == MIRROR);
        progress.mirror_in_force || !is_mirror
    });
    if is_all && progress.is_guaranteed(by_policy) {
        return stale;
    }
    // Policies refuse what a check would, that nobody answers; and it would refuse all else as well.
    let is_alone = progress.replicas == Replicas::NoneReady;
    let is_relieved = is_alone && by_policy && progress.in_force;
    stale.retain(|action| {
        let is_webhooks = matches!(action, Action::Delete { id } if id.kind.is_webhooks());
        is_relieved && is_webhooks
    });
    stale
}

/// What is wanted and not there.
fn missing(observed: &Observed, wanted: &[Value]) -> Vec<Id> {
    let ids = wanted.iter().filter_map(Id::of);
    ids.filter(|id| !observed.objects.contains_key(id))
        .collect()
}

impl Progress {
    /// Whether what is wanted has been in force for long enough to take away what it replaces.
    fn is_guaranteed(self, by_policy: bool) -> bool {
        self.settled && (!by_policy || self.in_force)
    }
}

impl Plan {
    /// Whether what is armed for another configuration, or refuses as webhooks, stays for now; then
    /// what is needed to go on is planned.
    fn is_held(
        &mut self,
        (observed, wanted): (&Observed, &[Value]),
        progress: Progress,
        by_policy: bool,
    ) -> bool {
        let is_everywhere = progress.replicas == Replicas::Equal;
        // Policies need nobody to be reached.
        let may_change = is_everywhere && (by_policy || progress.reached);
        let mut all = wanted.iter();
        if !may_change && all.any(|object| is_of_another(observed, object)) {
            self.hold = Hold::Another;
            self.only_to_be_reached(observed, wanted);
            return true;
        }
        let is_next = by_policy && !progress.in_force;
        if is_next && policies::are_webhooks_armed(observed) {
            self.only_policies(observed, wanted);
            return true;
        }
        false
    }
}

/// Closes glass whose time has come.
fn mends(observed: &Observed, now: Timestamp) -> Vec<Action> {
    let over = observed.broken().filter(|(_, note)| note.is_over(now));
    let mend = |(id, _): (&Id, Note)| {
        let patch = break_glass::resume::resume(observed.objects.get(id)?)?;
        let id = id.clone();
        Some(Action::Mend { id, patch })
    };
    over.filter_map(mend).collect()
}

/// The object with what it is to prove; `None` if that is not there yet.
fn proving(object: &Value, observed: &Observed, wanted: &[Value]) -> Option<Value> {
    let mut object = object.clone();
    if policies::is_proof(&object) {
        proof::refuse_with(&mut object, &policies::proof(observed, wanted)?);
    }
    Some(object)
}

/// Whether what is live of this object is armed for another configuration.
fn is_of_another(observed: &Observed, object: &Value) -> bool {
    let mut object = object.clone();
    entries::note(&mut object);
    let live = Id::of(&object).and_then(|id| observed.objects.get(&id));
    live.is_some_and(|live| entries::is_of_another(live, &object))
}

/// Whether any of it is there already. The owner may be whoever's who installed us.
fn has_begun(observed: &Observed, wanted: &[Value]) -> bool {
    let mut ids = wanted.iter().filter_map(Id::of);
    ids.any(|id| id.kind != Kind::ClusterRole && observed.objects.contains_key(&id))
}

/// Whether something is armed for this configuration.
fn is_armed(observed: &Observed, wanted: &[Value]) -> bool {
    wanted.iter().any(|object| {
        let live = Id::of(object).and_then(|id| observed.objects.get(&id));
        entries::armed(object, live).0 > 0
    })
}

/// The object as it can be written now.
fn prepared(object: &Value, live: Option<&Value>, may_arm: bool) -> Value {
    let mut object = object.clone();
    entries::note(&mut object);
    match live.filter(|live| !may_arm && entries::is_of_another(live, &object)) {
        Some(live) => entries::keep(&mut object, live),
        None => {
            if !may_arm {
                entries::hold_back(&mut object, live);
            }
            terms::adopt(&mut object, live);
        }
    }
    object
}

fn apply(id: Id, mut object: Value, live: Option<&Value>) -> Action {
    if let Some(version) = live.map(|live| live["metadata"]["resourceVersion"].clone()) {
        object["metadata"]["resourceVersion"] = version;
    }
    Action::Apply { id, object }
}

/// Whether entries of an object may fail closed as they are wanted. What was armed and is deleted
/// comes back armed, if the rest is there.
fn may_arm(id: &Id, progress: Progress, missing: &[Id], is_of_another: bool) -> bool {
    let has_rest = missing.iter().all(|one| one == id);
    let in_turn = match id.name.as_str() {
        // It comes before the labels, and takes the other one's place at once.
        MIRROR => has_rest || is_of_another,
        _ => has_rest && progress.labelled,
    };
    progress.reached && in_turn
}

/// Whether it is time to create an object that is not there.
fn may_begin(id: &Id, progress: Progress, missing: &[Id], observed: &Observed) -> bool {
    let has_all = |name: &str| missing.iter().all(|id| id.name != name);
    let is_owned = observed.owner_uid().is_some();
    match (id.kind, id.name.as_str()) {
        (Kind::ClusterRole, _) => true,
        // They read what namespaces say themselves, and nobody has to be reached.
        (_, name) if policies::come_first(id) && name != GUARD => {
            is_owned && !policies::is_under_glass(id, observed)
        }
        (_, MIRROR | MIRROR_PROOF) => is_owned,
        (_, CONFIGURATION) => is_owned && progress.labelled && has_all(MIRROR),
        // The guard.
        _ => is_owned && progress.labelled && has_all(CONFIGURATION),
    }
}

/// Objects of ours that are not wanted (any more).
fn stale(observed: &Observed, wanted: &[Value]) -> Vec<Action> {
    let wanted: Vec<Id> = wanted.iter().filter_map(Id::of).collect();
    let stale = in_order_of_removal(observed)
        .into_iter()
        // Roles are those of whoever installed us; the owner goes last or not at all.
        .filter(|id| id.kind != Kind::ClusterRole && !wanted.contains(id));
    let not_broken = |id: &Id| !observed.objects.get(id).is_some_and(is_broken);
    stale
        .filter(not_broken)
        .map(|id| Action::Delete { id })
        .collect()
}

/// Everything of ours, in the order in which it can go without a closed gate in between.
fn withdrawal(observed: &Observed) -> Vec<Action> {
    let ids = in_order_of_removal(observed).into_iter();
    let ours = ids.filter(|id| id.kind != Kind::ClusterRole || id.name == OWNER);
    ours.map(|id| Action::Delete { id }).collect()
}

fn in_order_of_removal(observed: &Observed) -> Vec<Id> {
    in_order(observed.objects.keys().cloned().collect())
}

/// Whether somebody has said, with who and why, that they change this object on purpose.
pub(super) fn is_broken(live: &Value) -> bool {
    break_glass::of(live).is_some()
}

#[cfg(test)]
mod tests;
