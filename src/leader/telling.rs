//! What an elector says of itself: in the log when it is news, in the readiness, as a metric.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::Latch;
use crate::metrics::Metrics;

use super::{Claim, Elector};

const CANNOT: &str = "the Lease cannot be read or written";

/// What was last said.
#[derive(Debug, Default)]
pub(super) struct Told {
    holder: String,
    problem: String,
    /// The API server has answered once.
    has_answer: bool,
}

impl Elector {
    /// Says who leads, in the readiness, and in the log if that is news.
    pub(super) fn tell(&mut self) {
        let now = Instant::now().into_std();
        let leads = self
            .contender
            .claim()
            .is_some_and(|claim| now < claim.until);
        let holder = self.contender.holder();
        let is_others = !leads && !holder.is_empty() && holder != self.identity;
        if self.told.holder != holder {
            if is_others {
                tracing::info!(leader = holder, "follower: somebody else leads");
            }
            holder.clone_into(&mut self.told.holder);
        }
        let state = match (leads, is_others) {
            (true, _) => "leader".to_owned(),
            (false, true) => format!("follower: {holder} leads"),
            (false, false) => "nobody leads (yet)".to_owned(),
        };
        // What it was ready for once it stays ready for (case 61).
        match (self.told.problem.as_str(), self.told.has_answer) {
            ("", _) => self.latch.open_with(state),
            (problem, true) => self
                .latch
                .open_with(format!("{state}; {CANNOT}: {problem}")),
            (problem, false) => self.latch.close(format!("{CANNOT}: {problem}")),
        }
    }

    /// Notes that the API server has answered.
    pub(super) fn note_answer(&mut self) {
        self.told.has_answer = true;
        self.told.problem.clear();
    }

    /// Notes that the API server cannot be asked, and says it, if that is news.
    pub(super) fn note_problem(&mut self, why: String) {
        if self.told.problem != why {
            tracing::warn!("{CANNOT}: {why}; trying again");
            self.told.problem = why;
        }
    }
}

/// Says when the claim is got, and when it is over: at that moment, whatever is being asked meanwhile.
pub(super) async fn tell_terms(
    mut claim: Claim,
    identity: String,
    (metrics, latch): (Arc<Metrics>, Latch),
    stop: CancellationToken,
) {
    while let Some(term) = stop.run_until_cancelled(claim.held()).await {
        metrics.leads(true);
        tracing::info!(identity, "leader: this process writes from now on");
        if stop.run_until_cancelled(claim.lost(term)).await.is_none() {
            return;
        }
        metrics.leads(false);
        latch.open_with("nobody leads: this process could not renew the Lease in time");
        tracing::warn!(
            "no longer the leader: the Lease could not be renewed in time, or somebody else has taken \
             it; this process writes nothing, and contends again"
        );
    }
}
