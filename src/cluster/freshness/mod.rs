//! How old the view is: when each kind was last heard of, and why. PURE: the time is passed
//! in.
//!
//! Several watches may follow one kind. The kind is then as old as the oldest of them.
//!
//! A view that is fed by files has no kinds here, and is always current.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::cluster::object::{Kind, Watched};
use meshgate_core::injector::profile::ServiceName;

/// When each kind that is watched was last heard of.
#[derive(Debug, Default)]
pub struct Freshness(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    watches: BTreeMap<Watched, Seen>,
    /// Also of watches that have ended.
    counts: BTreeMap<Kind, Counts>,
}

#[derive(Debug, Default)]
struct Seen {
    heard: Option<Instant>,
    is_listed: bool,
    is_current: bool,
    trouble: Option<(Instant, Trouble)>,
}

/// Since the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Complete lists, the first one included.
    pub lists: u64,
    /// Objects that could not be read.
    pub unreadable: u64,
}

/// Why a kind cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Whether other kinds are hit by the same.
    pub scope: Scope,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The API server or the way to it: all kinds suffer, one line in the log is enough.
    Server,
    /// This kind: a missing permission, say.
    Kind,
}

/// A kind as a metric has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    pub kind: Kind,
    /// Time since it was last heard of; `None` if it never was.
    pub age: Option<Duration>,
    pub is_current: bool,
    pub counts: Counts,
}

impl Freshness {
    /// From now on this is followed: it is not current until it was listed.
    pub fn follow(&self, watched: impl Into<Watched>) {
        self.0.write().watches.entry(watched.into()).or_default();
    }

    /// What belongs to the Service is not followed any more.
    pub(super) fn forget(&self, service: &ServiceName) {
        let mut state = self.0.write();
        let is_other = |watched: &Watched, _: &mut _| watched.service.as_deref() != Some(service);
        state.watches.retain(is_other);
    }

    /// Whether the kind is followed over a network: changes arrive later than at the API server itself, and
    /// much later if the connection is silent.
    pub fn is_followed(&self, kind: Kind) -> bool {
        self.0.read().of(kind).next().is_some()
    }

    /// Whether the view of a kind is the cluster's, as far as this replica knows.
    pub fn is_current(&self, kind: Kind) -> bool {
        self.0.read().of(kind).all(|seen| seen.is_current)
    }

    /// Whether everything that is followed was listed once.
    pub fn all_listed(&self) -> bool {
        self.0.read().watches.values().all(|seen| seen.is_listed)
    }

    /// The API server said something about it: an event, a page, a bookmark.
    pub fn heard(&self, watched: impl Into<Watched>, now: Instant) {
        self.change(watched, |seen| seen.heard = Some(now));
    }

    /// A list is complete.
    pub fn listed(&self, watched: impl Into<Watched>) {
        let watched = watched.into();
        self.count(watched.kind, |counts| counts.lists += 1);
        self.change(watched, |seen| seen.is_listed = true);
    }

    /// An object could not be read.
    pub fn unreadable(&self, kind: Kind) {
        self.count(kind, |counts| counts.unreadable += 1);
    }

    /// Events are missing from here on: a watch ended. That is no trouble yet.
    pub fn behind(&self, watched: impl Into<Watched>) {
        self.change(watched, |seen| seen.is_current = false);
    }

    /// Nothing is missing any more. Returns how long the trouble took, if its end is news.
    pub fn caught_up(&self, watched: impl Into<Watched>, now: Instant) -> Option<Duration> {
        let mut state = self.0.write();
        let watched = watched.into();
        let seen = state.watches.get_mut(&watched)?;
        seen.heard = Some(now);
        seen.is_current = true;
        let (since, trouble) = seen.trouble.take()?;
        let is_last = !state.is_known(watched.kind, trouble.scope);
        is_last.then(|| now.saturating_duration_since(since))
    }

    /// A try to follow it failed. Returns whether that is news: once for the API server, once per
    /// kind for what only that kind suffers.
    pub fn lost(&self, watched: impl Into<Watched>, trouble: Trouble, now: Instant) -> bool {
        let mut state = self.0.write();
        let watched = watched.into();
        let is_known = state.is_known(watched.kind, trouble.scope);
        let seen = state.watches.entry(watched).or_default();
        seen.is_current = false;
        let since = seen.trouble.take().map_or(now, |(since, _)| since);
        seen.trouble = Some((since, trouble));
        !is_known
    }

    /// The text for `/readyz`. A kind that was listed once stays ready: an old view is better than none
    /// (case 61).
    ///
    /// # Errors
    /// It was never listed.
    pub fn state(&self, kind: Kind, now: Instant) -> Result<String, String> {
        let state = self.0.read();
        let mut troubles = state.of(kind).filter_map(|seen| seen.trouble.as_ref());
        let why = match troubles.next() {
            Some((_, trouble)) => format!(": {}", trouble.text),
            None => String::new(),
        };
        if state.of(kind).next().is_none() {
            return Ok(String::new());
        }
        match state.age(kind, now) {
            Some(age) if state.of(kind).all(|seen| seen.is_listed) => Ok(format!(
                "last heard of the API server {} s ago{why}",
                age.as_secs()
            )),
            Some(_) | None => Err(format!("not listed yet{why}")),
        }
    }

    pub fn ages(&self, now: Instant) -> Vec<Age> {
        let state = self.0.read();
        let followed = Kind::ALL
            .into_iter()
            .filter(|kind| state.of(*kind).next().is_some());
        let age = |kind| Age {
            kind,
            age: state.age(kind, now),
            is_current: state.of(kind).all(|seen| seen.is_current),
            counts: state.counts.get(&kind).copied().unwrap_or_default(),
        };
        followed.map(age).collect()
    }

    /// The greatest age of all; `None` if nothing is followed.
    pub fn oldest(&self, now: Instant) -> Option<Duration> {
        let state = self.0.read();
        state
            .watches
            .values()
            .filter_map(|seen| seen.age(now))
            .max()
    }

    fn change(&self, watched: impl Into<Watched>, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.0.write().watches.get_mut(&watched.into()) {
            change(seen);
        }
    }

    fn count(&self, kind: Kind, count: impl FnOnce(&mut Counts)) {
        count(self.0.write().counts.entry(kind).or_default());
    }
}

impl State {
    fn of(&self, kind: Kind) -> impl Iterator<Item = &Seen> {
        let watches = self.watches.iter();
        watches.filter_map(move |(watched, seen)| (watched.kind == kind).then_some(seen))
    }

    fn age(&self, kind: Kind, now: Instant) -> Option<Duration> {
        self.of(kind).filter_map(|seen| seen.age(now)).max()
    }

    /// Whether a trouble of this scope was told, and has not ended for all that it is about.
    fn is_known(&self, kind: Kind, scope: Scope) -> bool {
        match scope {
            Scope::Kind => self.of(kind).any(|seen| seen.suffers(scope)),
            Scope::Server => self.watches.values().any(|seen| seen.suffers(scope)),
        }
    }
}

impl Seen {
    fn age(&self, now: Instant) -> Option<Duration> {
        self.heard.map(|heard| now.saturating_duration_since(heard))
    }

    fn suffers(&self, scope: Scope) -> bool {
        let trouble = self.trouble.as_ref();
        trouble.is_some_and(|(_, trouble)| trouble.scope == scope)
    }
}

#[cfg(test)]
mod tests;
