//! What an elector says of itself: in the log when it is news, in the readiness, as a metric.

use tokio::time::Instant;

use super::Elector;

impl Elector {
    /// Says who leads, if that is news.
    pub(super) fn tell(&mut self) {
        let now = Instant::now().into_std();
        let claim = self.contender.claim().filter(|claim| now < claim.until);
        let leads = claim.is_some();
        self.metrics.leads(leads);
        match (std::mem::replace(&mut self.told.leads, leads), leads) {
            (false, true) => tracing::info!(
                identity = self.identity,
                "leader: this process writes from now on"
            ),
            (true, false) => tracing::warn!(
                "no longer the leader: the Lease could not be renewed in time, or somebody else has \
                 taken it; this process writes nothing, and contends again"
            ),
            (true, true) | (false, false) => {}
        }
        let holder = self.contender.holder();
        let state = match (leads, holder) {
            (true, _) => "leader".to_owned(),
            (false, "") => "nobody leads (yet)".to_owned(),
            (false, holder) if holder == self.identity => {
                "not the leader: not renewed in time".to_owned()
            }
            (false, holder) => format!("follower: {holder} leads"),
        };
        self.latch.open_with(state);
        if self.told.holder.as_deref() != Some(holder) {
            if !leads && !holder.is_empty() && holder != self.identity {
                tracing::info!(leader = holder, "follower: somebody else leads");
            }
            self.told.holder = Some(holder.to_owned());
        }
    }

    /// Says that the API server cannot be asked. What it was ready for it stays ready for (case 61).
    pub(super) fn tell_problem(&mut self, why: String) {
        if self.told.holder.is_some() {
            self.latch
                .open_with(format!("the Lease cannot be read or written: {why}"));
        } else {
            self.latch
                .close(format!("the Lease cannot be read or written: {why}"));
        }
        if self.told.problem != why {
            tracing::warn!("the Lease cannot be read or written: {why}; trying again");
            self.told.problem = why;
        }
    }
}
