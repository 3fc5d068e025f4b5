//! What is to be written next, from what there is and what is wanted. Pure and level-based: asked again after every
//! write, until there is nothing left to do.
//!
//! The order at the start: our namespace, the owner, the mirror and what proves it, (labels of existing
//! namespaces, see `namespaces`), the entries for pods as `Ignore`, the guard, and only then `Fail`.
//! What is there already is put right at any time; the order is that of creation.
//!
//! Nothing is written before a serving replica is ready (case 76).
//!
//! Where entries are armed for another configuration, meshgate writes only what it takes to be reached. Once it
//! is reached, and all serving replicas have this configuration, it writes the mirror, (labels that are
//! added), and the entries, armed at once. Labels that the other one selected by go last.
//!
//! Where policies are to make the guarantee and webhooks do, nothing but policies is written until they are
//! in force. Then entries are loosened, and the check's webhook goes. In the other direction, policies go once
//! all entries are armed and have been for a while.
//!
//! Enforcement that `break-glass` suspended until a time is resumed at that time, and at once where that time is
//! more than a day away.

mod on_hold;

use jiff::Timestamp;
use serde_json::Value;

use crate::kube_api::kind::{Id, Kind};
use meshgate_core::break_glass;
use meshgate_core::render::{
    CHECK_PROOF, CONFIGURATION, GUARD, MIRROR, MIRROR_PROOF, OWNER, POLICIES,
};

use super::foreign_conditions::{self, contains};
use super::observed::{Entry, InstallNamespace, Object, Observed, Replicas};
use super::{entries, proof};

/// What is known besides.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all combinations occur"
)]
pub(super) struct Progress {
    /// Existing namespaces carry the labels that they should, and maybe more.
    pub(super) labelled: bool,
    /// The API server has reached meshgate by the wanted client configuration.
    pub(super) reached: bool,
    /// All that is wanted has been there for long enough to take away what it replaces.
    pub(super) settled: bool,
    pub(super) replicas: Replicas,
    /// The wanted policies are in force as they are there, and have been for a while.
    pub(super) in_force: bool,
    /// So is the mirror, where it is a policy.
    pub(super) mirror_in_force: bool,
    pub(super) now: Timestamp,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a plan has a dozen, and most are the large one"
)]
pub(super) enum Action {
    CreateNamespace,
    /// By server-side apply; with the resourceVersion that the object was seen with, if it was.
    Apply(Object),
    /// Gives entries that are left alone otherwise a wider `caBundle`, by a merge patch.
    Widen {
        id: Id,
        patch: Value,
    },
    /// Takes the break-glass annotation off when it suspends nothing (any more), by a merge patch.
    Resume {
        id: Id,
        patch: Value,
    },
    Delete(Id),
}

impl Action {
    /// What it changes; `None` for meshgate's namespace.
    pub(super) fn id(&self) -> Option<&Id> {
        match self {
            Self::CreateNamespace => None,
            Self::Apply(object) => Some(&object.id),
            Self::Widen { id, .. } | Self::Resume { id, .. } | Self::Delete(id) => Some(id),
        }
    }
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// In this order.
    pub(super) actions: Vec<Action>,
    /// Objects that are left alone, by their break-glass annotation.
    pub(super) hands_off: Vec<Id>,
    /// The mirror is as it is wanted, or left alone.
    pub(super) mirrored: bool,
    pub(super) hold: Hold,
}

/// What is held back as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Hold {
    #[default]
    Nothing,
    /// All of it, until a serving replica is ready.
    AwaitReplicas,
    /// Entries stay armed for another configuration, until meshgate is reached and all replicas have
    /// this one.
    AwaitRollout,
}

/// All that a plan is made from.
#[derive(Clone, Copy)]
struct Given<'g> {
    observed: &'g Observed,
    wanted: &'g [Object],
    progress: Progress,
    /// Policies are to make the guarantee, not webhooks.
    by_policy: bool,
}

/// Plans the next writes. `wanted` is rendered as armed, in the order of creation.
pub(super) fn plan(observed: &Observed, wanted: &[Object], progress: Progress) -> Plan {
    let given = Given {
        observed,
        wanted,
        progress,
        by_policy: proof::are_policies_wanted(wanted),
    };
    let mut plan = Plan::default();
    if matches!(
        observed.namespace,
        InstallNamespace::Terminating | InstallNamespace::Withdrawn
    ) {
        // In the order in which it can go without a closed gate in between.
        plan.actions = given.deletions(|id| id.kind != Kind::ClusterRole || id.name == OWNER);
        return plan;
    }
    if progress.replicas == Replicas::NoneReady && !given.has_begun() {
        plan.hold = Hold::AwaitReplicas;
        return plan;
    }
    if observed.namespace == InstallNamespace::Wanted {
        plan.actions.push(Action::CreateNamespace);
    }
    plan.actions.extend(given.resumptions());
    let is_refused = |one: &Action| one.id().is_some_and(|id| observed.refused.contains(id));
    if !plan.actions.iter().all(is_refused) {
        return plan;
    }
    if given.awaits_rollout() {
        plan.hold = Hold::AwaitRollout;
        plan.only_to_be_reached(given);
    } else if given.by_policy && !progress.in_force && entries::has_armed(observed, |_| true) {
        plan.only_policies(given);
    } else {
        plan.all(given);
    }
    plan
}

impl Plan {
    fn all(&mut self, given: Given<'_>) {
        self.mirrored = given.is_owned();
        for wanted in given.wanted {
            let is_done = self.one(given, wanted);
            self.mirrored &= is_done || wanted.id.name != MIRROR;
        }
        // Resumptions that are planned besides are refused ones.
        let mut actions = self.actions.iter();
        if actions.all(|one| matches!(one, Action::Resume { .. })) {
            self.actions.extend(given.left_over());
        }
    }

    /// True if the object is as it is wanted, or left alone.
    fn one(&mut self, given: Given<'_>, wanted: &Object) -> bool {
        let live = given.observed.live(wanted);
        match live {
            None if !given.may_begin(&wanted.id) => return false,
            Some(live) if live.note.is_some() => {
                self.leave_alone(given, live, wanted);
                return true;
            }
            _ => {}
        }
        let Some(target) = proof::proving(wanted, given.observed, given.wanted) else {
            return false;
        };
        // Where policies enforce, and are in force, no entry for pods is armed.
        let is_free = given.by_policy && wanted.id.name != MIRROR;
        let mut object = prepared(&target, live, is_free || given.may_arm(wanted, live));
        entries::widen(&mut object, &target, &given.observed.covered);
        !self.apply(object, live)
    }

    /// Plans to write an object, unless it is so in the cluster already. True if it is to be written.
    fn apply(&mut self, mut object: Object, live: Option<&Object>) -> bool {
        if let Some(live) = live {
            if contains(live, &object) {
                return false;
            }
            let version = &live.metadata.resource_version;
            object.metadata.resource_version.clone_from(version);
        }
        self.actions.push(Action::Apply(object));
        true
    }
}

/// The object as it can be written now.
fn prepared(wanted: &Object, live: Option<&Object>, may_arm: bool) -> Object {
    let mut object = wanted.clone();
    if !may_arm && live.is_some_and(|live| entries::is_of_another(live, wanted)) {
        entries::keep(&mut object, live);
        return object;
    }
    if !may_arm {
        entries::hold_back(&mut object, live);
    }
    foreign_conditions::adopt(&mut object, live);
    object
}

impl Given<'_> {
    fn is_owned(self) -> bool {
        self.observed.owner_uid().is_some()
    }

    fn is_there(self, wanted: &Object) -> bool {
        self.observed.live(wanted).is_some()
    }

    /// Whether an object of this name is wanted and not there.
    fn lacks(self, name: &str) -> bool {
        let mut wanted = self.wanted.iter();
        wanted.any(|one| one.id.name == name && !self.is_there(one))
    }

    /// Whether anything of it is there. The owner may come with the installation.
    fn has_begun(self) -> bool {
        let mut wanted = self.wanted.iter();
        wanted.any(|one| one.id.kind != Kind::ClusterRole && self.is_there(one))
    }

    /// Takes off break-glass annotations whose time has come, or that have no end within a day, and what
    /// suspends an entry without one.
    fn resumptions(self) -> impl Iterator<Item = Action> {
        let is_open = move |live: &Object| match &live.note {
            Some(note) => note.is_open(self.progress.now),
            None => !live.entries().iter().any(Entry::is_suspended),
        };
        let over = self.observed.objects.values();
        let over = over.filter(move |live| !is_open(live));
        over.filter_map(|live| {
            let patch = break_glass::resume::resume(&live.to_value())?;
            let id = live.id.clone();
            Some(Action::Resume { id, patch })
        })
    }

    /// Whether what is armed for another configuration stays for now. Policies need no replica to be
    /// reached.
    fn awaits_rollout(self) -> bool {
        let is_everywhere = self.progress.replicas == Replicas::Equal;
        let may_change = is_everywhere && (self.by_policy || self.progress.reached);
        let mut wanted = self.wanted.iter();
        !may_change && wanted.any(|one| self.is_of_another(one, self.observed.live(one)))
    }

    fn is_of_another(self, wanted: &Object, live: Option<&Object>) -> bool {
        live.is_some_and(|live| entries::is_of_another(live, wanted))
    }

    /// Whether entries of an object may fail closed as they are wanted. What was armed and is deleted comes
    /// back armed, if the rest is there.
    fn may_arm(self, wanted: &Object, live: Option<&Object>) -> bool {
        let mut others = self.wanted.iter().filter(|one| one.id != wanted.id);
        let has_rest = others.all(|one| self.is_there(one));
        let in_turn = if wanted.id.name == MIRROR {
            // It comes before the labels, and takes the other one's place at once.
            has_rest || self.is_of_another(wanted, live)
        } else {
            has_rest && self.progress.labelled
        };
        // What is armed for this very configuration is put back whatever the replicas have.
        let is_everywhere = self.progress.replicas == Replicas::Equal;
        self.progress.reached && in_turn && (is_everywhere || self.is_any_armed())
    }

    /// Whether an entry is armed for this configuration.
    fn is_any_armed(self) -> bool {
        let mut wanted = self.wanted.iter();
        wanted.any(|one| {
            let live = self.observed.live(one);
            live.is_some_and(|live| {
                !entries::is_of_another(live, one) && entries::is_any_armed(live)
            })
        })
    }

    /// Whether it is time to create an object that is not there.
    fn may_begin(self, id: &Id) -> bool {
        let is_labelled = self.progress.labelled;
        let in_turn = match (id.kind, id.name.as_str()) {
            (Kind::ClusterRole, _) => return true,
            // Policies read the annotations of namespaces, and need no replica to be reached.
            (_, name) if comes_first(id) && name != GUARD => !self.is_switched_off(id),
            (_, MIRROR | MIRROR_PROOF) => true,
            (_, CONFIGURATION) => is_labelled && !self.lacks(MIRROR),
            // The guard.
            _ => is_labelled && !self.lacks(CONFIGURATION),
        };
        self.is_owned() && in_turn
    }

    /// Whether an administrator has suspended enforcement of just what this binding enforces.
    fn is_switched_off(self, id: &Id) -> bool {
        let gate = Id::new(Kind::MutatingWebhooks, CONFIGURATION);
        let gate = self.observed.objects.get(&gate);
        let note = gate.and_then(|gate| gate.note.as_ref());
        let injector = id.name.strip_suffix(POLICIES);
        let (Some(note), Some(injector)) = (note, injector) else {
            return false;
        };
        let is_binding = id.kind == Kind::ValidatingPolicyBinding;
        is_binding && note.until.is_some() && note.is_about(injector)
    }

    /// What is not wanted (any more) and may go now, where nothing is left to be written.
    fn left_over(self) -> Vec<Action> {
        let progress = self.progress;
        let is_everywhere = progress.replicas == Replicas::Equal;
        let is_all = is_everywhere && self.wanted.iter().all(|one| self.is_there(one));
        let is_guaranteed = progress.settled && (!self.by_policy || progress.in_force);
        // With no replica and policies in force, webhooks refuse everything and guarantee nothing more.
        let is_alone = progress.replicas == Replicas::NoneReady;
        let is_relieved = is_alone && self.by_policy && progress.in_force;
        let may_go = |id: &Id| {
            // Another mirror labels namespaces until the wanted one is known to.
            let is_needed = id.name == MIRROR && !progress.mirror_in_force;
            let is_free = is_all && is_guaranteed || is_relieved && id.kind.is_webhooks();
            !is_needed && is_free
        };
        let stale = |id: &Id| {
            let is_wanted = self.wanted.iter().any(|one| one.id == *id);
            let live = self.observed.objects.get(id);
            let is_left_alone = live.is_some_and(|live| live.note.is_some());
            // Other roles are the installation's; the owner goes last or not at all.
            id.kind != Kind::ClusterRole && !is_wanted && !is_left_alone
        };
        self.deletions(|id| stale(id) && may_go(id))
    }

    fn deletions(self, goes: impl Fn(&Id) -> bool) -> Vec<Action> {
        let ids = self.observed.objects.keys().cloned();
        ids.filter(goes).map(Action::Delete).collect()
    }
}

/// Whether an object is written before the webhooks are given up.
fn comes_first(id: &Id) -> bool {
    let is_guard = id.name == GUARD || id.name == CHECK_PROOF;
    id.kind == Kind::ClusterRole || proof::is_check(id) || is_guard
}

#[cfg(test)]
mod tests;
