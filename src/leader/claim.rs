//! The right to write, as controllers see it: until when, for which term, which writes are under way.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::lifecycle::Group;

use super::plan::Claimed;

/// A claim, held or not. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Claim {
    state: watch::Receiver<Option<Claimed>>,
    pub(super) writes: Group,
}

/// The other end of a [`Claim`]: the elector says here what it is now.
#[derive(Debug)]
pub(super) struct Claimant {
    state: watch::Sender<Option<Claimed>>,
    pub(super) writes: Group,
}

/// For ever, to a process.
const ALWAYS: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The claim is not held (any more), or in a later term than that of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing is written: this process does not hold the Lease (any more)")]
pub struct NotHeld;

impl Claimant {
    pub(super) fn new() -> Self {
        Self {
            state: watch::Sender::new(None),
            writes: Group::new("write"),
        }
    }

    pub(super) fn claim(&self) -> Claim {
        Claim {
            state: self.state.subscribe(),
            writes: self.writes.clone(),
        }
    }

    pub(super) fn is_now(&self, claimed: Option<Claimed>) {
        self.state
            .send_if_modified(|state| std::mem::replace(state, claimed) != claimed);
    }

    /// Returns when the last write by this claim has ended.
    pub(super) async fn is_quiet(&self) {
        self.writes.finished().await;
    }
}

impl Claim {
    /// One that is always held, for a process that no other contends with.
    pub fn always() -> Self {
        let claimant = Claimant::new();
        claimant.is_now(Some(Claimed {
            until: Instant::now().into_std() + ALWAYS,
            term: 0,
        }));
        // A receiver keeps the last value when its sender has gone.
        claimant.claim()
    }

    /// Waits until it is held. Returns the term.
    pub async fn held(&mut self) -> u64 {
        loop {
            if let Some(claimed) = self.now() {
                return claimed.term;
            }
            self.changed().await;
        }
    }

    /// Waits until this term is over: for ever, if the claim is always held.
    pub async fn lost(&mut self, term: u64) {
        loop {
            let Some(claimed) = self.now().filter(|now| now.term == term) else {
                return;
            };
            self.changed_until(claimed.until.into()).await;
        }
    }

    /// Until when a write that takes at least `least` may be under way. Waits for the next renewal if the
    /// rest of the claim is shorter.
    ///
    /// # Errors
    /// The term is over.
    pub(super) async fn room(&mut self, term: u64, least: Duration) -> Result<Instant, NotHeld> {
        loop {
            let claimed = self.now().filter(|now| now.term == term);
            let end = claimed.ok_or(NotHeld)?.until.into();
            if Instant::now() + least <= end {
                return Ok(end);
            }
            self.changed_until(end).await;
        }
    }

    /// What is claimed, if that has not ended.
    fn now(&mut self) -> Option<Claimed> {
        let claimed = *self.state.borrow_and_update();
        claimed.filter(|claimed| Instant::now().into_std() < claimed.until)
    }

    /// Waits for a change, but not beyond `end`.
    async fn changed_until(&mut self, end: Instant) {
        // Late is a change as well.
        drop(timeout_at(end, self.changed()).await);
    }

    async fn changed(&mut self) {
        // The elector has ended: the state stays as it is.
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
