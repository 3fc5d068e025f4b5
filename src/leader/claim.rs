//! The right to write, as controllers see it: until when, for which term, which writes are under way.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::lifecycle::Group;

use super::plan::Claimed;

/// A claim, held or not. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Claim {
    state: watch::Receiver<State>,
    writes: Group,
}

/// The other end of a [`Claim`]: the elector says here what it is now.
#[derive(Debug)]
pub(super) struct Claimant {
    state: watch::Sender<State>,
    writes: Group,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No other process contends.
    Always,
    Claimed(Option<Claimed>),
}

/// The claim is not held (any more), or in a later term than that of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing is written: this process does not hold the Lease (any more)")]
pub struct NotHeld;

impl Claimant {
    pub(super) fn new() -> Self {
        Self {
            state: watch::Sender::new(State::Claimed(None)),
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
        let new = State::Claimed(claimed);
        self.state
            .send_if_modified(|state| std::mem::replace(state, new) != new);
    }

    /// Returns when the last write by this claim has ended.
    pub(super) async fn is_quiet(&self) {
        self.writes.finished().await;
    }
}

impl Claim {
    /// One that is always held, for a process that no other contends with.
    pub fn always() -> Self {
        // A receiver keeps the last value when its sender has gone.
        Self {
            state: watch::channel(State::Always).1,
            writes: Group::new("write"),
        }
    }

    /// Waits until it is held. Returns the term.
    pub async fn held(&mut self) -> u64 {
        loop {
            let state = *self.state.borrow_and_update();
            if let Some(term) = state.term(Instant::now()) {
                return term;
            }
            self.changed().await;
        }
    }

    /// Waits until this term is over: for ever, if the claim is always held.
    pub async fn lost(&mut self, term: u64) {
        loop {
            let state = *self.state.borrow_and_update();
            if state.term(Instant::now()) != Some(term) {
                return;
            }
            match state.end() {
                None => self.changed().await,
                Some(end) => tokio::select! {
                    () = sleep_until(end) => {}
                    () = self.changed() => {}
                },
            }
        }
    }

    /// Until when a write that takes at least `least` may be under way; `None` is for ever. Waits for
    /// the next renewal if the rest of the claim is shorter.
    ///
    /// # Errors
    /// The term is over.
    pub(super) async fn room(
        &mut self,
        term: u64,
        least: Duration,
    ) -> Result<Option<Instant>, NotHeld> {
        loop {
            let state = *self.state.borrow_and_update();
            if state.term(Instant::now()) != Some(term) {
                return Err(NotHeld);
            }
            let Some(end) = state.end() else {
                return Ok(None);
            };
            if Instant::now() + least <= end {
                return Ok(Some(end));
            }
            tokio::select! {
                () = sleep_until(end) => {}
                () = self.changed() => {}
            }
        }
    }

    pub(super) fn writes(&self) -> &Group {
        &self.writes
    }

    async fn changed(&mut self) {
        // The elector has ended: the state stays as it is.
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl State {
    fn term(self, now: Instant) -> Option<u64> {
        match self {
            Self::Always => Some(0),
            Self::Claimed(claimed) => {
                let claimed = claimed.filter(|claimed| now.into_std() < claimed.until);
                claimed.map(|claimed| claimed.term)
            }
        }
    }

    fn end(self) -> Option<Instant> {
        match self {
            Self::Always | Self::Claimed(None) => None,
            Self::Claimed(Some(claimed)) => Some(claimed.until.into()),
        }
    }
}
