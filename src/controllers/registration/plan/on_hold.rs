//! What is planned while all the rest is held back.

use crate::controllers::registration::observed::Object;
use crate::controllers::registration::{entries, proof};
use crate::kube_api::kind::Kind;

use meshgate_core::names::{GUARD, REACH_ENTRY};

use super::{Action, Given, Plan, comes_first};

impl Plan {
    /// Leaves alone what carries a break-glass annotation, but for what lets its entries verify
    /// meshgate: a certificate that is issued only once all of them do would wait for ever, and replicas
    /// with it.
    pub(super) fn leave_alone(&mut self, given: Given<'_>, live: &Object, wanted: &Object) {
        let id = &live.id;
        if let Some(patch) = entries::widening(live, wanted, &given.observed.covered) {
            let id = id.clone();
            self.actions.push(Action::Widen { id, patch });
        }
        self.hands_off.push(id.clone());
    }

    /// Plans nothing but policies, and what they need: webhooks refuse pods until those do.
    pub(super) fn only_policies(&mut self, given: Given<'_>) {
        for wanted in given.wanted {
            let live = given.observed.live(wanted);
            if let Some(live) = live.filter(|live| live.note.is_some()) {
                self.leave_alone(given, live, wanted);
                continue;
            }
            let is_owned = wanted.id.kind == Kind::ClusterRole || given.is_owned();
            let is_off = live.is_none() && given.is_switched_off(&wanted.id);
            if !is_owned || !comes_first(&wanted.id) || is_off {
                continue;
            }
            if let Some(object) = proof::proving(wanted, given.observed, given.wanted) {
                self.apply(object, live);
            }
        }
    }

    /// Plans nothing but the entry by which meshgate is reached, and what that needs: the guard, which must
    /// know a new address before an entry has it, and keeps those that are there. And a wider bundle for
    /// all that is armed, without which no certificate might be issued for a new replica.
    pub(super) fn only_to_be_reached(&mut self, given: Given<'_>) {
        for wanted in given.wanted {
            let live = given.observed.live(wanted);
            if let Some(live) = live.filter(|live| live.note.is_some()) {
                self.leave_alone(given, live, wanted);
            } else if wanted.id.kind == Kind::ClusterRole {
                // An owner whose own owner was deleted is about to be collected, with all that it owns.
                self.apply(wanted.clone(), live);
            } else if given.is_owned()
                && (wanted.id.name == GUARD
                    || wanted.entry(REACH_ENTRY).is_some()
                    || live.is_some_and(entries::is_any_armed))
            {
                let mut object = wanted.clone();
                entries::keep(&mut object, live);
                entries::widen(&mut object, wanted, &given.observed.covered);
                self.apply(object, live);
            }
        }
    }
}
