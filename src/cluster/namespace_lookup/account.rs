//! What look-ups cost a peer. PURE: the time is passed in.
//!
//! The API server never asks about a namespace that does not exist, so that a client that does so again and
//! again is another one.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{Asker, LookupError};

/// Each look-up costs so much: 200 a second, and 2,000 at once.
const LOOK_UP: Duration = Duration::from_millis(5);
/// Each for a namespace that does not exist costs so much besides: two a second, and 20 at once.
const NOTHING: Duration = Duration::from_millis(500);
/// So far into the future a peer may be in debt.
const CREDIT: Duration = Duration::from_secs(10);
/// So long a namespace that did not exist is believed not to. Short: it may be created at any time.
const REMEMBERED: Duration = Duration::from_secs(1);

/// What one peer owes, as the time at which it owes nothing any more.
#[derive(Debug)]
pub(super) struct Account {
    look_ups: Instant,
    /// For names that do not exist. It stands in the way of names that the view does not hold alone.
    nothings: Instant,
    /// Those names, and when they were asked for.
    missing: HashMap<String, Instant>,
}

impl Account {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            look_ups: now,
            nothings: now,
            missing: HashMap::new(),
        }
    }

    /// Why the peer may not look a namespace up now, if it may not.
    pub(super) fn refusal(&self, asker: Asker, name: &str, now: Instant) -> Option<LookupError> {
        let is_recent = |asked: &Instant| now.duration_since(*asked) < REMEMBERED;
        if !asker.is_held && self.missing.get(name).is_some_and(is_recent) {
            return Some(LookupError::NotFound);
        }
        let is_used_up = |owed: Instant| owed > now + CREDIT;
        let nothings = !asker.is_held && is_used_up(self.nothings);
        (nothings || is_used_up(self.look_ups)).then_some(LookupError::TooMany)
    }

    /// A look-up begins.
    pub(super) fn charge_look_up(&mut self, now: Instant) {
        self.look_ups = self.look_ups.max(now) + LOOK_UP;
    }

    /// A look-up of a name that the view does not hold begins: it may not exist.
    pub(super) fn charge_nothing(&mut self, now: Instant) {
        self.nothings = self.nothings.max(now) + NOTHING;
    }

    /// The namespace exists, or the source failed.
    pub(super) fn give_back_nothing(&mut self) {
        self.nothings -= NOTHING;
    }

    /// There is no such namespace.
    pub(super) fn remember(&mut self, name: String, now: Instant) {
        self.missing
            .retain(|_, asked| now.duration_since(*asked) < REMEMBERED);
        self.missing.insert(name, now);
    }

    pub(super) fn is_in_debt(&self, now: Instant) -> bool {
        self.nothings.max(self.look_ups) > now
    }
}
