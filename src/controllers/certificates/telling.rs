//! What the keeper of certificates says in the log, each once.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::certs::held::{CERT, KEY};
use crate::certs::rotation::{Step, Why};

use super::secret::Place;

/// So far a clock may be behind the API server's without a word.
const BEHIND: Duration = Duration::from_secs(60);

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct Told {
    problem: String,
    waiting: String,
    clock: bool,
}

impl Told {
    /// Something went wrong.
    pub(super) fn problem(&mut self, problem: &str) {
        if self.problem != problem {
            tracing::error!("certificates cannot be kept: {problem}; trying again");
            problem.clone_into(&mut self.problem);
        }
    }

    /// What is about to be done about what.
    pub(super) fn step(&mut self, step: &Step, place: &Place) {
        self.problem.clear();
        match step {
            Step::MakeCa { why, .. } | Step::IssueLeaf { why, .. } if why.is_damage() => {
                tracing::error!(
                    secret = %place,
                    "{why}; expected {CERT} and {KEY} of type kubernetes.io/tls as meshgate writes them; it is written anew"
                );
            }
            Step::Wait { why } => {
                let what = format!(
                    "{why}; waiting until the registered caBundle holds the CA that will issue it"
                );
                self.waits(place, &what);
            }
            Step::MakeCa { .. }
            | Step::IssueLeaf { .. }
            | Step::KeepCas { .. }
            | Step::KeepLeaf { .. }
            | Step::Rest { .. } => self.waiting.clear(),
        }
    }

    /// What was done.
    pub(super) fn done(&self, step: &Step, place: &Place) {
        match step {
            Step::MakeCa { keep, why } => {
                let older = keep.len();
                tracing::info!(secret = %place, older, "a new CA was made: {why}");
            }
            Step::IssueLeaf { lifetime, why, .. } => {
                tracing::info!(secret = %place, ?lifetime, "a serving certificate was issued: {why}");
            }
            Step::KeepCas { bundle } | Step::KeepLeaf { bundle } => {
                let cas = bundle.len();
                tracing::info!(secret = %place, cas, "ca.crt written");
            }
            Step::Wait { .. } | Step::Rest { .. } => {}
        }
    }

    /// What is waited for.
    pub(super) fn waits(&mut self, place: &Place, what: &str) {
        if self.waiting != what {
            tracing::warn!(secret = %place, "{what}");
            what.clone_into(&mut self.waiting);
        }
    }

    /// An object that the API server made in our future (case 55).
    pub(super) fn clock(&mut self, created: Option<Timestamp>, now: Timestamp) {
        let Some(created) = created else { return };
        let behind = created.duration_since(now);
        let allowed = SignedDuration::try_from(BEHIND).unwrap_or(SignedDuration::MAX);
        if behind > allowed && !self.clock {
            tracing::warn!(%now, %created, "the clock of this machine is behind: it says a time before a Secret was made");
            self.clock = true;
        }
    }
}

/// Whether a step puts right what somebody has damaged.
pub(super) fn is_repair(step: &Step) -> bool {
    match step {
        Step::MakeCa { why, .. } | Step::IssueLeaf { why, .. } => {
            why.is_damage() || *why == Why::Missing
        }
        Step::KeepCas { .. } | Step::KeepLeaf { .. } | Step::Wait { .. } | Step::Rest { .. } => {
            false
        }
    }
}
