//! What is planned while all the rest is held back.

use serde_json::Value;

use crate::controllers::registration::{contains::contains, entries, policies, trusting};
use crate::kube_api::kind::{Id, Kind};

use super::{Action, Observed, Plan, apply, is_broken, proving};

impl Plan {
    /// Leaves alone what is under broken glass, but for what lets its entries verify us: a leaf that is
    /// issued only once all of them do would wait for ever, and replicas with it.
    pub(super) fn leave_alone(&mut self, id: Id, observed: &Observed, wanted: &Value) {
        let live = observed.objects.get(&id).unwrap_or(&Value::Null);
        if let Some(patch) = trusting::widening(live, wanted, &observed.covered) {
            let id = id.clone();
            self.actions.push(Action::Widen { id, patch });
        }
        self.hands_off.push(id);
    }

    /// Plans nothing but policies, and what they need: webhooks refuse pods until those do.
    pub(super) fn only_policies(&mut self, observed: &Observed, wanted: &[Value]) {
        for object in wanted {
            let Some(id) = Id::of(object) else { continue };
            let live = observed.objects.get(&id);
            if live.is_some_and(is_broken) {
                self.leave_alone(id, observed, object);
                continue;
            }
            let is_next = id.kind == Kind::ClusterRole || observed.owner_uid().is_some();
            let is_next = is_next && policies::come_first(&id);
            let is_held = live.is_none() && policies::is_under_glass(&id, observed);
            if !is_next || is_held {
                continue;
            }
            let Some(object) = proving(object, observed, wanted) else {
                continue;
            };
            if !live.is_some_and(|live| contains(live, &object)) {
                self.actions.push(apply(id, object, live));
            }
        }
    }

    /// Plans nothing but the entry by which we are reached, and what that needs; and a wider bundle for all
    /// that is armed, without which no certificate might be issued that a replica could begin with.
    pub(super) fn only_to_be_reached(&mut self, observed: &Observed, wanted: &[Value]) {
        for object in wanted {
            let Some(id) = Id::of(object) else { continue };
            let live = observed.objects.get(&id);
            if live.is_some_and(is_broken) {
                self.leave_alone(id, observed, object);
            } else if id.kind == Kind::ClusterRole {
                // One that names a namespace of before is about to be collected, with all that it owns.
                if !live.is_some_and(|live| contains(live, object)) {
                    self.actions.push(apply(id, object.clone(), live));
                }
            } else if observed.owner_uid().is_some()
                && (entries::prove_reach(object) || live.is_some_and(entries::is_any_armed))
            {
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
