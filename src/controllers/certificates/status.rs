//! What the certificates' reconciler reports in the log, each thing once.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::certs::rotation::{Step, Why};
use crate::certs::secret_data::{CERT, KEY};

use super::secret::SecretRef;

/// A clock may be so far behind the API server's without a warning.
const BEHIND: Duration = Duration::from_secs(60);

/// What was reported last.
#[derive(Debug, Default)]
pub(super) struct Told {
    problem: String,
    waiting: String,
    clock: bool,
}

impl Told {
    pub(super) fn problem(&mut self, problem: &str) {
        if self.problem != problem {
            tracing::error!("cannot keep the certificates: {problem}; trying again");
            problem.clone_into(&mut self.problem);
        }
    }

    /// Before a step.
    pub(super) fn step(&mut self, step: &Step, place: &SecretRef) {
        self.problem.clear();
        match step {
            Step::MakeCa { why, .. } | Step::IssueLeaf { why, .. } if why.is_damage() => {
                tracing::error!(
                    secret = %place,
                    "{why}; expected {CERT} and {KEY} of type kubernetes.io/tls as meshgate writes them; meshgate writes it anew"
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

    /// After a step.
    pub(super) fn done(&self, step: &Step, place: &SecretRef) {
        match step {
            Step::MakeCa { keep, why } => {
                let older = keep.len();
                tracing::info!(secret = %place, older, "made a new CA: {why}");
            }
            Step::IssueLeaf { lifetime, why, .. } => {
                tracing::info!(secret = %place, ?lifetime, "issued a serving certificate: {why}");
            }
            Step::KeepCas { bundle } | Step::KeepLeaf { bundle } => {
                let cas = bundle.len();
                tracing::info!(secret = %place, cas, "wrote ca.crt");
            }
            Step::Wait { .. } | Step::Rest { .. } => {}
        }
    }

    pub(super) fn waits(&mut self, place: &SecretRef, what: &str) {
        if self.waiting != what {
            tracing::warn!(secret = %place, "{what}");
            what.clone_into(&mut self.waiting);
        }
    }

    /// An object that the API server made in this machine's future (case 55).
    pub(super) fn clock(&mut self, created: Option<Timestamp>, now: Timestamp) {
        let Some(created) = created else { return };
        let behind = created.duration_since(now);
        let allowed = SignedDuration::try_from(BEHIND).unwrap_or(SignedDuration::MAX);
        if behind > allowed && !self.clock {
            tracing::warn!(%now, %created, "the clock of this machine is behind: it shows a time before a Secret was made");
            self.clock = true;
        }
    }
}

/// Whether a step repairs a Secret.
pub(super) fn is_repair(step: &Step) -> bool {
    let (Step::MakeCa { why, .. } | Step::IssueLeaf { why, .. }) = step else {
        return false;
    };
    why.is_damage() || *why == Why::Missing
}
