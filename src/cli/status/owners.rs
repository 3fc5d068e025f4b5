//! Which owners lack pods because these are refused, as one look shows it. PURE: the caller passes the time.
//!
//! The leader sees that no pod comes. Here the controllers' own words tell: a condition, or else an Event.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;

use crate::cluster::store::Store;
use crate::cluster::workloads::{Uid, Workloads};
use crate::controllers::wake::blocked;

use super::observed::{Owners, Stuck};

/// Controllers try again, and say so, after 1000 s at the latest.
const LAST_TRY: SignedDuration = SignedDuration::from_secs(1_200);
/// How far back owners that meshgate has woken are counted.
const HOUR: SignedDuration = SignedDuration::from_secs(3_600);

pub(super) fn of(view: &Workloads, store: &Store, events: &[Event], now: Timestamp) -> Owners {
    let mut said: HashMap<&str, &Event> = HashMap::new();
    for event in events {
        let is_recent = when(event).is_some_and(|last| now.duration_since(last) < LAST_TRY);
        let uid = event.involved_object.uid.as_deref();
        if let Some(uid) = uid.filter(|_| is_recent) {
            let newest = said.entry(uid).or_insert(event);
            if when(newest) < when(event) {
                *newest = event;
            }
        }
    }
    let stuck = |uid: Uid| {
        let owner = view.owner(uid)?;
        let event = said.get(uid.to_string().as_str());
        let first = event.and_then(|event| {
            let first = event.first_timestamp.as_ref().map(|time| time.0);
            first.or_else(|| when(event))
        });
        let since = owner.failing_since.or(first)?;
        let blocked = blocked::blocked(uid, owner, store, now)?;
        let (kind, namespace) = (owner.kind.as_str(), &owner.namespace);
        let message = event.and_then(|event| event.message.as_deref());
        Some(Stuck {
            owner: format!("{kind} {namespace}/{}", owner.name),
            injector: store
                .injectors()
                .get(blocked.injector)?
                .profile
                .name
                .clone(),
            since,
            why: message
                .or(owner.failure.as_deref())
                .unwrap_or_default()
                .to_owned(),
        })
    };
    let woken = view.owners().filter_map(|(_, owner)| owner.woken);
    Owners {
        blocked: view.short().filter_map(|(uid, _)| stuck(uid)).collect(),
        woken: woken.filter(|at| now.duration_since(*at) < HOUR).collect(),
    }
}

/// When it was said last.
pub(super) fn when(event: &Event) -> Option<Timestamp> {
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let series = event.series.as_ref();
    let of_series = series.and_then(|series| series.last_observed_time.as_ref());
    let first = event.event_time.as_ref().map(|time| time.0);
    last.or_else(|| of_series.map(|time| time.0)).or(first)
}
