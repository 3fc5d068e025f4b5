//! Who holds the Lease, and what is to be asked of the API server next. Pure: both clocks are
//! passed in.
//!
//! The rules are those of client-go's `tools/leaderelection`: whoever finds the Lease free, or
//! unchanged for its duration, writes itself into it; the holder writes it anew all the time, and
//! gives up when that has failed for the renew deadline. How long is measured by one's own steady
//! clock from the moment at which a change was *seen*: the clocks of machines are never compared
//! (case 55). Each write carries the resourceVersion that was seen, so that of two only one comes
//! through.
//!
//! Stricter than client-go in two things. The claim counts from before the write that got or
//! renewed it was sent, not from its answer: others may have seen it that early. And a Lease that
//! somebody deleted is not taken before the holder's time is over.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::record::Record;

/// How long others wait after a change before they take the Lease.
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a claim lasts without a renewal. Clocks that differ in speed by less than the ratio of
/// the two never let two claims overlap.
pub(super) const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Pause between two tries.
pub(super) const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// How long one request for the Lease may take, as in client-go.
pub(super) const REQUEST_DEADLINE: Duration = Duration::from_secs(5);
/// The duration in a Lease that was given back.
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

/// The Lease as it was last seen, and since when it has been so.
#[derive(Debug, Clone)]
struct Seen {
    record: Record,
    version: String,
    since: Instant,
}

/// The right to act, for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claimed {
    /// It is over then, if it is not renewed.
    pub(super) until: Instant,
    /// The how-manieth time this process has got it: what was planned before is void.
    pub(super) term: u64,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    /// Read the Lease.
    Look,
    /// Create it.
    Create(Record),
    /// Write it over the version that was seen.
    Update(Record, String),
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The Lease was read, and its version.
    Found(Record, String),
    /// There is none.
    Missing,
    /// It was written; its version now.
    Written(Record, String),
    /// Somebody else has written it.
    Conflict,
    /// Nobody can tell what became of it.
    Failed,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask this at once.
    Ask(Ask),
    /// Nothing, until the next try.
    Rest,
}

/// Both clocks: the steady one, by which everything is decided, and the one for people.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) steady: Instant,
    pub(super) wall: Timestamp,
}

impl Contender {
    /// One with a name that no other process has.
    pub(super) fn new(identity: String) -> Self {
        Self {
            identity,
            seen: None,
            claim: None,
            terms: 0,
        }
    }

    /// Who holds the Lease, as far as is known; empty if nobody does.
    pub(super) fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |seen| &seen.record.holder)
    }

    /// The claim, which may be over by now.
    pub(super) fn claim(&self) -> Option<Claimed> {
        self.claim
    }

    /// Begins a try. A holder writes what it knows, without a look at first.
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
            Answer::Found(record, version) => self.found(record, version, now),
            Answer::Missing => self.missing(now),
            Answer::Written(record, version) => {
                self.written(record, version, (sent, now.steady));
                Next::Rest
            }
            // What a holder knows is out of date: its last write came through without an answer,
            // or the Lease is somebody else's. Whoever has just looked was beaten to it.
            Answer::Conflict => match &self.seen {
                Some(seen) if self.is_mine(seen) => Next::Ask(Ask::Look),
                _ => Next::Rest,
            },
            Answer::Failed => Next::Rest,
        }
    }

    /// Gives the claim up. Returns what tells the others, if the Lease was ours as far as is known.
    /// Only for whoever has nothing on its way any more that the claim was needed for.
    pub(super) fn release(&mut self, now: Now) -> Option<Ask> {
        self.claim = None;
        let seen = self.seen.as_ref().filter(|seen| self.is_mine(seen))?;
        let record = Record {
            holder: String::new(),
            seconds: RELEASED_SECONDS,
            acquired: Some(now.wall),
            renewed: Some(now.wall),
            transitions: seen.record.transitions,
        };
        Some(Ask::Update(record, seen.version.clone()))
    }

    fn found(&mut self, record: Record, version: String, now: Now) -> Next {
        let before = self.seen.take().filter(|seen| seen.record == record);
        let since = before.map_or(now.steady, |seen| seen.since);
        let seen = Seen {
            record,
            version,
            since,
        };
        let is_mine = self.is_mine(&seen);
        if !is_mine {
            // Whatever we thought: it is somebody else's, or nobody's.
            self.claim = None;
        }
        let is_held = !seen.record.holder.is_empty() && seen.is_valid(now.steady);
        let next = match is_held && !is_mine {
            true => Next::Rest,
            false => Next::Ask(self.update(&seen, now.wall)),
        };
        self.seen = Some(seen);
        next
    }

    fn missing(&mut self, now: Now) -> Next {
        let is_held = self.seen.as_ref().is_some_and(|seen| {
            let is_others = !seen.record.holder.is_empty() && !self.is_mine(seen);
            is_others && seen.is_valid(now.steady)
        });
        match is_held {
            true => Next::Rest,
            false => Next::Ask(Ask::Create(self.fresh(now.wall))),
        }
    }

    fn written(&mut self, record: Record, version: String, (sent, now): (Instant, Instant)) {
        let is_mine = record.holder == self.identity;
        self.seen = Some(Seen {
            record,
            version,
            since: now,
        });
        if !is_mine {
            self.claim = None;
            return;
        }
        let is_renewal = self.claim.is_some_and(|claim| now < claim.until);
        self.terms += u64::from(!is_renewal);
        self.claim = Some(Claimed {
            until: sent + RENEW_DEADLINE,
            term: self.terms,
        });
    }

    fn is_mine(&self, seen: &Seen) -> bool {
        seen.record.holder == self.identity
    }

    /// The record of somebody who has just got it.
    fn fresh(&self, wall: Timestamp) -> Record {
        Record {
            holder: self.identity.clone(),
            seconds: i32::try_from(LEASE_DURATION.as_secs()).unwrap_or(i32::MAX),
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: 0,
        }
    }

    /// What was seen, as ours from now on, or still ours.
    fn update(&self, seen: &Seen, wall: Timestamp) -> Ask {
        let mut record = self.fresh(wall);
        match self.is_mine(seen) {
            true => {
                record.acquired = seen.record.acquired;
                record.transitions = seen.record.transitions;
            }
            false => record.transitions = seen.record.transitions.saturating_add(1),
        }
        Ask::Update(record, seen.version.clone())
    }
}

impl Seen {
    /// Whether its holder may still act, as far as anybody else can tell.
    fn is_valid(&self, now: Instant) -> bool {
        let seconds = u64::try_from(self.record.seconds).unwrap_or_default();
        now < self.since + Duration::from_secs(seconds)
    }
}

#[cfg(test)]
mod tests;
