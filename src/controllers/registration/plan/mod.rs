//! What is to be written next, from what there is and what is wanted. Pure and level-based: asked
//! again after every write, until there is nothing left to do.
//!
//! The order at the start: our namespace, the owner, the mirror, (labels of existing namespaces,
//! see `namespaces`), the entries for pods as `Ignore`, the guard, and only then `Fail`. What is
//! there already is put right at any time; the order is that of creation.
//!
//! Nothing at all is written before somebody is there to be called (case 76).
//!
//! Where entries are armed for another configuration, nothing is written but what it takes to be
//! reached; once we are, and all serving replicas have this one, the mirror, (labels that are added),
//! and the entries, armed at once. Labels that the other one selected by go last.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::controllers::kind::{Id, Kind, in_order};
use crate::render::{BREAK_GLASS, CONFIGURATION, MIRROR, OWNER, guard};

use super::contains::contains;
use super::{entries, terms, trusting};

/// What is in the cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// Objects that carry our label or the name of one that is wanted.
    pub(super) objects: BTreeMap<Id, Value>,
    /// Our own namespace.
    pub(super) home: Home,
    /// Values of `caBundle` in what is live whose CAs are all in the wanted one, as far as they have
    /// not expired.
    pub(super) covered: BTreeSet<String>,
}

impl Observed {
    /// UID of the owner, if it is there and not about to go.
    pub(super) fn owner_uid(&self) -> Option<&str> {
        let owner = self.objects.get(&owner())?;
        let metadata = &owner["metadata"];
        metadata["uid"]
            .as_str()
            .filter(|_| metadata["deletionTimestamp"].is_null())
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
pub(super) struct Progress {
    /// Existing namespaces carry the labels that they should, and maybe more.
    pub(super) labelled: bool,
    /// The API server has reached us by the client configuration that is wanted.
    pub(super) reached: bool,
    /// What is there of the mirror has been there for long enough to be in force.
    pub(super) settled: bool,
    /// A serving replica can be called, or nobody looks at them.
    pub(super) ready: bool,
    /// All serving replicas have this configuration, or nobody looks at them.
    pub(super) everywhere: bool,
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
    /// Entries stay armed for another configuration until we are reached and all replicas have this
    /// one.
    pub(super) waits: bool,
    /// Nothing is written before a replica can be called.
    pub(super) unready: bool,
}

/// Plans the next writes. `wanted` is rendered as armed, in the order of creation.
pub(super) fn plan(observed: &Observed, wanted: &[Value], progress: Progress) -> Plan {
    let mut plan = Plan::default();
    if matches!(observed.home, Home::Terminating | Home::Withdrawn) {
        plan.actions = withdrawal(observed);
        return plan;
    }
    plan.unready = !progress.ready && !has_begun(observed, wanted);
    if plan.unready {
        return plan;
    }
    if observed.home == Home::Wanted {
        plan.actions.push(Action::CreateHome);
    }
    let may_change = progress.reached && progress.everywhere;
    plan.waits = !may_change && wanted.iter().any(|object| is_of_another(observed, object));
    if plan.waits {
        plan.only_to_be_reached(observed, wanted);
        return plan;
    }
    let missing: Vec<Id> = wanted
        .iter()
        .filter_map(Id::of)
        .filter(|id| !observed.objects.contains_key(id))
        .collect();
    // What is armed for this very configuration is put back whatever the replicas have.
    let everywhere = progress.everywhere || is_armed(observed, wanted);
    plan.mirrored = observed.owner_uid().is_some();
    for object in wanted {
        let Some(id) = Id::of(object) else { continue };
        let live = observed.objects.get(&id);
        if live.is_none() && !may_begin(&id, progress, &missing, observed) {
            plan.mirrored &= id.name != MIRROR;
            continue;
        }
        if live.is_some_and(is_broken) {
            plan.hands_off.push(id);
            continue;
        }
        let in_turn = may_arm(&id, progress, &missing, is_of_another(observed, object));
        let wanted = object;
        let mut object = prepared(wanted, live, in_turn && everywhere);
        trusting::widen(&mut object, wanted, &observed.covered);
        if live.is_some_and(|live| contains(live, &object)) {
            continue;
        }
        plan.mirrored &= id.name != MIRROR;
        plan.actions.push(apply(id, object, live));
    }
    let is_in_force = plan.actions.is_empty() && missing.is_empty() && progress.settled;
    if is_in_force && progress.everywhere {
        plan.actions = stale(observed, wanted);
    }
    plan
}

impl Plan {
    /// Plans nothing but the entry by which we are reached, and what that needs.
    fn only_to_be_reached(&mut self, observed: &Observed, wanted: &[Value]) {
        for object in wanted {
            let Some(id) = Id::of(object) else { continue };
            let live = observed.objects.get(&id);
            if live.is_some_and(is_broken) {
                self.hands_off.push(id);
            } else if id.kind == Kind::ClusterRole && live.is_none() {
                self.actions.push(apply(id, object.clone(), None));
            } else if observed.owner_uid().is_some() && entries::prove_reach(object) {
                let wanted = object;
                let mut object = wanted.clone();
                entries::keep(&mut object, live.unwrap_or(&Value::Null));
                trusting::widen(&mut object, wanted, &observed.covered);
                if !live.is_some_and(|live| contains(live, &object)) {
                    self.actions.push(apply(id, object, live));
                }
            }
        }
    }
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
        (_, MIRROR) => is_owned,
        (_, CONFIGURATION) => is_owned && progress.labelled && has_all(MIRROR),
        // The guard, and policies for pods.
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
    let note = live["metadata"]["annotations"][BREAK_GLASS].as_str();
    note.is_some_and(guard::is_broken)
}

#[cfg(test)]
mod tests;
