//! Who holds the Lease, and which request comes next. Pure: both clocks are passed in.
//!
//! The rules are those of client-go's `tools/leaderelection`. A contender that finds the Lease free,
//! or unchanged for its duration, writes its own name into it. The holder renews it, and gives up when
//! that has failed for the renew deadline. Each contender measures by its own steady clock from the
//! moment at which it *saw* a change: the clocks of machines are never compared (case 55). Each write
//! carries the resourceVersion that was seen, so that only one of two comes through.
//!
//! Two rules are stricter than client-go's. A claim counts from before its write was sent, not from
//! the answer: others may have seen the write that early. And a contender does not create a deleted
//! Lease anew before the holder's time is over.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Others wait for so long after a change before they take the Lease.
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A claim lasts for so long without a renewal. Claims do not overlap as long as the clocks' speeds
/// differ by less than the ratio of the two durations.
pub(super) const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Pause between two tries.
pub(super) const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Deadline of one request for the Lease, as in client-go.
pub(super) const REQUEST_DEADLINE: Duration = Duration::from_secs(5);
/// The duration in a released Lease.
const RELEASED_SECONDS: i32 = 1;

/// One process that wants the Lease.
#[derive(Debug)]
pub(super) struct Contender {
    identity: String,
    seen: Option<Seen>,
    claim: Option<Claimed>,
    /// How often the claim was got.
    terms: u64,
}

/// The Lease as it was last seen, and when it was first seen so.
#[derive(Debug, Clone)]
struct Seen {
    lease: LeaseSpec,
    version: String,
    since: Instant,
}

/// The right to write, for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claimed {
    /// The end, without a renewal.
    pub(super) until: Instant,
    /// Counts the times that this process got the claim. A plan of an earlier term is void.
    pub(super) term: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ask {
    Look,
    Create(LeaseSpec),
    /// Write it over this version.
    Update(LeaseSpec, String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// With the version.
    Found(LeaseSpec, String),
    Missing,
    /// With the new version.
    Written(LeaseSpec, String),
    /// Another process has written it.
    Conflict,
    /// No usable answer: a write may have come through.
    Failed,
}

#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Ask(Ask),
    /// Wait for the next try.
    Rest,
}

/// Both clocks: the steady one, which decides, and the one for people.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) steady: Instant,
    pub(super) wall: Timestamp,
}

impl Contender {
    /// The identity must be unique among processes.
    pub(super) fn new(identity: String) -> Self {
        Self {
            identity,
            seen: None,
            claim: None,
            terms: 0,
        }
    }

    /// The last known holder; empty if the Lease is free.
    pub(super) fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |seen| holder(&seen.lease))
    }

    /// The last claim, which may have ended.
    pub(super) fn claim(&self) -> Option<Claimed> {
        self.claim
    }

    /// Begins a try. A holder writes by what it knows, without a look.
    pub(super) fn begin(&self, now: Now) -> Ask {
        match &self.seen {
            Some(seen) if self.is_mine(seen) && seen.is_valid(now.steady) => {
                self.update(seen, now.wall)
            }
            _ => Ask::Look,
        }
    }

    /// Takes up the answer to what was sent at `sent`.
    pub(super) fn answered(&mut self, answer: Answer, sent: Instant, now: Now) -> Next {
        match answer {
            Answer::Found(lease, version) => self.found(lease, version, now),
            Answer::Missing => self.missing(now),
            Answer::Written(lease, version) => {
                let seen = Seen {
                    lease,
                    version,
                    since: now.steady,
                };
                let is_mine = self.is_mine(&seen);
                self.seen = Some(seen);
                self.claim = is_mine.then(|| self.claimed(sent, now.steady));
                Next::Rest
            }
            // What a holder knows is out of date: its last write came through without an answer, or
            // another process has the Lease. A contender that has just looked lost the race.
            Answer::Conflict => match &self.seen {
                Some(seen) if self.is_mine(seen) => Next::Ask(Ask::Look),
                _ => Next::Rest,
            },
            Answer::Failed => Next::Rest,
        }
    }

    /// Gives the claim up. Returns the write that releases the Lease, if this process holds it. Call it
    /// only when no write by the claim is under way.
    pub(super) fn release(&mut self, now: Now) -> Option<Ask> {
        self.claim = None;
        let seen = self.seen.as_ref().filter(|seen| self.is_mine(seen))?;
        let lease = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(RELEASED_SECONDS),
            lease_transitions: seen.lease.lease_transitions,
            ..self.fresh(now.wall)
        };
        Some(Ask::Update(lease, seen.version.clone()))
    }

    fn found(&mut self, lease: LeaseSpec, version: String, now: Now) -> Next {
        let before = self.seen.take().filter(|seen| seen.lease == lease);
        let since = before.map_or(now.steady, |seen| seen.since);
        let seen = Seen {
            lease,
            version,
            since,
        };
        let is_mine = self.is_mine(&seen);
        if !is_mine {
            // Another process has it, or it is free.
            self.claim = None;
        }
        let is_held = seen.is_held() && seen.is_valid(now.steady);
        let next = if is_held && !is_mine {
            Next::Rest
        } else {
            Next::Ask(self.update(&seen, now.wall))
        };
        self.seen = Some(seen);
        next
    }

    fn missing(&mut self, now: Now) -> Next {
        let is_held = self.seen.as_ref().is_some_and(|seen| {
            let is_others = seen.is_held() && !self.is_mine(seen);
            is_others && seen.is_valid(now.steady)
        });
        if is_held {
            Next::Rest
        } else {
            Next::Ask(Ask::Create(self.fresh(now.wall)))
        }
    }

    fn claimed(&mut self, sent: Instant, now: Instant) -> Claimed {
        let is_renewal = self.claim.is_some_and(|claim| now < claim.until);
        self.terms += u64::from(!is_renewal);
        Claimed {
            until: sent + RENEW_DEADLINE,
            term: self.terms,
        }
    }

    fn is_mine(&self, seen: &Seen) -> bool {
        holder(&seen.lease) == self.identity
    }

    fn fresh(&self, wall: Timestamp) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            // For people: contenders only see that these change.
            acquire_time: Some(MicroTime(wall)),
            renew_time: Some(MicroTime(wall)),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        }
    }

    /// Takes the Lease over what was seen, or renews it.
    fn update(&self, seen: &Seen, wall: Timestamp) -> Ask {
        let mut lease = self.fresh(wall);
        let transitions = seen.lease.lease_transitions.unwrap_or_default();
        if self.is_mine(seen) {
            lease.acquire_time.clone_from(&seen.lease.acquire_time);
            lease.lease_transitions = Some(transitions);
        } else {
            lease.lease_transitions = Some(transitions.saturating_add(1));
        }
        Ask::Update(lease, seen.version.clone())
    }
}

/// Empty if the Lease is free.
fn holder(lease: &LeaseSpec) -> &str {
    lease.holder_identity.as_deref().unwrap_or_default()
}

impl Seen {
    fn is_held(&self) -> bool {
        !holder(&self.lease).is_empty()
    }

    /// Whether its holder may still write, as far as others can tell.
    fn is_valid(&self, now: Instant) -> bool {
        let seconds = self.lease.lease_duration_seconds.unwrap_or_default();
        let seconds = u64::try_from(seconds).unwrap_or_default();
        now < self.since + Duration::from_secs(seconds)
    }
}

#[cfg(test)]
mod tests;
