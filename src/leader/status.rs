//! What an elector reports: news in the log, its state in the readiness and as a metric.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::HealthCheck;
use crate::metrics::Metrics;

use super::{Claim, Elector};

const CANNOT: &str = "the Lease cannot be read or written";

/// Where a part of the program reports its state.
#[derive(Clone)]
pub struct Reporting {
    pub metrics: Arc<Metrics>,
    pub check: HealthCheck,
}

/// What was reported last.
#[derive(Debug, Default)]
pub(super) struct Told {
    holder: String,
    problem: String,
    has_answer: bool,
}

impl Elector {
    /// Reports who leads: in the readiness, and in the log when it changes.
    pub(super) fn tell(&mut self) {
        let now = Instant::now().into_std();
        let claim = self.contender.claim();
        let leads = claim.is_some_and(|claim| now < claim.until);
        let holder = self.contender.holder();
        let follows = !leads && !holder.is_empty() && holder != self.identity;
        if self.told.holder != holder {
            if follows {
                tracing::info!(leader = holder, "follower: another process leads");
            }
            holder.clone_into(&mut self.told.holder);
        }
        let state = if leads {
            "leader".to_owned()
        } else if follows {
            format!("follower: {holder} leads")
        } else {
            "no process leads (yet)".to_owned()
        };
        let (told, check) = (&self.told, &self.reporting.check);
        // Once ready, it stays ready when the API server fails (case 61).
        if told.problem.is_empty() {
            check.pass_with(state);
        } else if told.has_answer {
            check.pass_with(format!("{state}; {CANNOT}: {}", told.problem));
        } else {
            check.fail(format!("{CANNOT}: {}", told.problem));
        }
    }

    pub(super) fn note_answer(&mut self) {
        self.told.has_answer = true;
        self.told.problem.clear();
    }

    pub(super) fn note_problem(&mut self, why: String) {
        if self.told.problem != why {
            tracing::warn!("{CANNOT}: {why}; trying again");
            self.told.problem = why;
        }
    }
}

/// Reports the begin and the end of each term at that moment, whichever request is on its way.
pub(super) async fn tell_terms(
    mut claim: Claim,
    identity: String,
    reporting: Reporting,
    stop: CancellationToken,
) {
    let Reporting { metrics, check } = reporting;
    while let Some(term) = stop.run_until_cancelled(claim.held()).await {
        metrics.leader.set(1);
        tracing::info!(identity, "leader: this process writes from now on");
        if stop.run_until_cancelled(claim.lost(term)).await.is_none() {
            return;
        }
        metrics.leader.set(0);
        check.pass_with("no process leads: this one could not renew the Lease in time");
        tracing::warn!(
            "no longer the leader: this process could not renew the Lease in time, or another one \
             took it; this process writes nothing and contends again"
        );
    }
}
