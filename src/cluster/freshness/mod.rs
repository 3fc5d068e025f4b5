//! How old the view is: when each kind was last heard of, and why. PURE: the time is passed
//! in.
//!
//! A view that is fed by files has no kinds here, and is always current.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::cluster::object::Kind;

/// When each kind that is watched was last heard of.
#[derive(Debug, Default)]
pub struct Freshness {
    kinds: RwLock<BTreeMap<Kind, Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    heard: Option<Instant>,
    is_current: bool,
    trouble: Option<(Instant, Trouble)>,
    counts: Counts,
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
    /// From now on the kind is followed: it is not current until it was listed.
    pub fn follow(&self, kind: Kind) {
        self.kinds.write().entry(kind).or_default();
    }

    /// Whether the kind is followed over a network: changes arrive later than at the API server itself, and
    /// much later if the connection is silent.
    pub fn is_followed(&self, kind: Kind) -> bool {
        self.kinds.read().contains_key(&kind)
    }

    /// Whether the view of a kind is the cluster's, as far as this replica knows.
    pub fn is_current(&self, kind: Kind) -> bool {
        let kinds = self.kinds.read();
        kinds.get(&kind).is_none_or(|seen| seen.is_current)
    }

    /// Whether every kind that is followed was listed once.
    pub fn all_listed(&self) -> bool {
        self.kinds.read().values().all(|seen| seen.is_listed())
    }

    /// The API server said something about the kind: an event, a page, a bookmark.
    pub fn heard(&self, kind: Kind, now: Instant) {
        self.change(kind, |seen| seen.heard = Some(now));
    }

    /// A list is complete.
    pub fn listed(&self, kind: Kind) {
        self.change(kind, |seen| seen.counts.lists += 1);
    }

    /// An object could not be read.
    pub fn unreadable(&self, kind: Kind) {
        self.change(kind, |seen| seen.counts.unreadable += 1);
    }

    /// Events are missing from here on: a watch ended. That is no trouble yet.
    pub fn behind(&self, kind: Kind) {
        self.change(kind, |seen| seen.is_current = false);
    }

    /// Nothing is missing any more. Returns how long the trouble took, if its end is news.
    pub fn caught_up(&self, kind: Kind, now: Instant) -> Option<Duration> {
        let mut kinds = self.kinds.write();
        let seen = kinds.get_mut(&kind)?;
        seen.heard = Some(now);
        seen.is_current = true;
        let (since, trouble) = seen.trouble.take()?;
        let is_last = match trouble.scope {
            Scope::Kind => true,
            Scope::Server => !kinds.values().any(|seen| seen.suffers(Scope::Server)),
        };
        is_last.then(|| now.saturating_duration_since(since))
    }

    /// A try to follow the kind failed. Returns whether that is news: once for the API server, once per
    /// kind for what only that kind suffers.
    pub fn lost(&self, kind: Kind, trouble: Trouble, now: Instant) -> bool {
        let mut kinds = self.kinds.write();
        let is_known = match trouble.scope {
            Scope::Kind => kinds.get(&kind).is_some_and(|s| s.suffers(Scope::Kind)),
            Scope::Server => kinds.values().any(|seen| seen.suffers(Scope::Server)),
        };
        let seen = kinds.entry(kind).or_default();
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
        let kinds = self.kinds.read();
        let Some(seen) = kinds.get(&kind) else {
            return Ok(String::new());
        };
        let why = match &seen.trouble {
            Some((_, trouble)) => format!(": {}", trouble.text),
            None => String::new(),
        };
        match seen.age(now) {
            Some(age) if seen.is_listed() => Ok(format!(
                "last heard of the API server {} s ago{why}",
                age.as_secs()
            )),
            Some(_) | None => Err(format!("not listed yet{why}")),
        }
    }

    pub fn ages(&self, now: Instant) -> Vec<Age> {
        let kinds = self.kinds.read();
        let age = |(kind, seen): (&Kind, &Seen)| Age {
            kind: *kind,
            age: seen.age(now),
            is_current: seen.is_current,
            counts: seen.counts,
        };
        kinds.iter().map(age).collect()
    }

    /// The greatest age of all; `None` if no kind is followed.
    pub fn oldest(&self, now: Instant) -> Option<Duration> {
        let kinds = self.kinds.read();
        kinds.values().filter_map(|seen| seen.age(now)).max()
    }

    fn change(&self, kind: Kind, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.kinds.write().get_mut(&kind) {
            change(seen);
        }
    }
}

impl Seen {
    fn age(&self, now: Instant) -> Option<Duration> {
        self.heard.map(|heard| now.saturating_duration_since(heard))
    }

    fn is_listed(&self) -> bool {
        self.counts.lists > 0
    }

    fn suffers(&self, scope: Scope) -> bool {
        let trouble = self.trouble.as_ref();
        trouble.is_some_and(|(_, trouble)| trouble.scope == scope)
    }
}

#[cfg(test)]
mod tests;
