//! How a serving replica follows its Secret through the API, with no right to write anything (cases
//! 51, 52 and 54).
//!
//! It serves a new pair once what is registered verifies it (see `certs::swap`). Until then, and
//! whatever happens to the Secret, it serves the pair of before for as long as that is valid.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, interval, sleep_until};

use crate::certs::bundle::Ca;
use crate::certs::live::LivePair;
use crate::certs::pair::ServingPair;
use crate::certs::rotation::Registered;
use crate::certs::secret_data::Content;
use crate::certs::swap::{LAST_MOMENT, Serving, Swap, Verdict, may_swap};
use crate::certs::verify::verifying;
use crate::lifecycle::{HealthCheck, wall_clock};
use crate::metrics::Metrics;

use super::registered::Watch;
use super::secret::SecretRef;

/// The readiness tells the end of the certificate anew this often.
pub const INTERVAL: Duration = Duration::from_secs(2);
/// The longest time between two looks, whatever the watch says.
const RESYNC: Duration = Duration::from_secs(30);
/// The same after a failed look, or while there is nothing to serve with.
const AGAIN: Duration = Duration::from_secs(1);
/// Between two looks at what is registered while a new pair waits.
const IMPATIENT: Duration = Duration::from_millis(250);
/// After so many looks, [`AGAIN`] is the pause.
const LONG: u32 = 240;

/// The pair that is served, and where its state is reported.
pub struct Following {
    pub pair: LivePair,
    pub metrics: Arc<Metrics>,
    pub check: HealthCheck,
}

impl Following {
    /// Not ready once the certificate has expired: API servers would refuse it.
    pub fn tell_end(&self, remark: &str) {
        let Some(pair) = self.pair.current() else {
            return self.check.fail(remark);
        };
        let end = pair.leaf().not_after;
        if end > wall_clock() {
            self.check.pass_with(format!("valid until {end}{remark}"));
        } else {
            self.check.fail(format!("expired at {end}{remark}"));
        }
    }
}

/// Follows the Secret until it is dropped.
pub async fn follow(place: SecretRef, following: &Following) {
    let mut follower = Follower::new(place, following);
    let mut changes = follower.place.changes();
    let mut ends = interval(INTERVAL);
    let mut at = Instant::now();
    loop {
        tokio::select! {
            () = sleep_until(at) => at = Instant::now() + follower.look().await,
            Some(()) = changes.next() => at = Instant::now(),
            _ = ends.tick() => {}
        }
        following.tell_end(&follower.remark);
    }
}

struct Follower<'f> {
    place: SecretRef,
    following: &'f Following,
    registered: Watch,
    /// The generation that was refused last.
    refused: Option<Content>,
    /// What the readiness tells beside the end of the certificate.
    remark: String,
    told: String,
    /// Looks at what is registered while the same pair waits.
    waits: u32,
}

impl<'f> Follower<'f> {
    fn new(place: SecretRef, following: &'f Following) -> Self {
        Self {
            remark: format!("Secret {place} is not read yet"),
            place,
            following,
            registered: Watch::default(),
            refused: None,
            told: String::new(),
            waits: 0,
        }
    }

    /// Returns the pause until the next look.
    async fn look(&mut self) -> Duration {
        let seen = match self.place.read().await {
            Ok(Some(seen)) => seen,
            Ok(None) => {
                let place = &self.place;
                let why = format!(
                    "Secret {place} is missing: expected meshgate control, or the issuer, to write it"
                );
                return self.trouble(why);
            }
            Err(error) => return self.trouble(error.to_string()),
        };
        let pair = match self.judge(seen.content) {
            Ok(pair) => pair,
            Err(why) => return self.trouble(why),
        };
        let current = self.following.pair.current();
        if current.is_some_and(|current| current.chain() == pair.chain()) {
            self.quiet();
            return RESYNC;
        }
        self.offer(pair).await
    }

    /// The pair of a content. Logs each generation that is refused once.
    fn judge(&mut self, content: Content) -> Result<ServingPair, String> {
        let place = &self.place;
        let read = content.pair().and_then(|(cert, key)| {
            // One that is not valid yet is tried again with each look.
            ServingPair::from_pem(cert, key, wall_clock()).map_err(|error| error.to_string())
        });
        match read {
            Ok(pair) => {
                self.refused = None;
                Ok(pair)
            }
            Err(why) => {
                if self.refused.as_ref() != Some(&content) {
                    tracing::error!(
                        secret = %place,
                        "refused, the last good pair stays in use: {why}"
                    );
                    self.following.metrics.certificate_refusals.inc();
                    self.refused = Some(content);
                }
                Err(format!("Secret {place} cannot be served with: {why}"))
            }
        }
    }

    /// Serves a new pair if that is safe.
    async fn offer(&mut self, pair: ServingPair) -> Duration {
        let registered = self.registered.look(&self.place.client).await;
        let (swap, problem) = match &registered {
            Ok(registered) => (self.swap(&pair, registered), String::new()),
            // A replica without a valid pair has nothing to lose.
            Err(_) if self.serving() != Serving::Leaf => (Swap::Now, String::new()),
            Err(error) => (Swap::Unverified, format!(" ({error})")),
        };
        let (subject, until) = (pair.leaf().subject.clone(), pair.leaf().not_after);
        let why = match swap {
            Swap::Now => {
                tracing::info!(secret = %self.place, subject, %until, "serving with a new certificate");
                self.following.pair.swap(pair);
                self.quiet();
                return RESYNC;
            }
            Swap::Settle => " for API servers' caches".to_owned(),
            Swap::Unverified => {
                format!(": the registered caBundle does not verify it{problem}")
            }
        };
        self.wait(format!("the one until {until} waits{why}"));
        self.waits = self.waits.saturating_add(1);
        if self.waits > LONG { AGAIN } else { IMPATIENT }
    }

    fn swap(&self, new: &ServingPair, registered: &Registered) -> Swap {
        let now = wall_clock();
        let current = self.following.pair.current();
        let verdict = |bundle: &Vec<Ca>| {
            let current = current
                .as_ref()
                .map(|pair| verifying(pair.chain(), bundle, now));
            let current = current.unwrap_or_default();
            let new = verifying(new.chain(), bundle, now);
            Verdict {
                current: !current.is_empty(),
                new: !new.is_empty(),
                same: current.iter().any(|ca| new.contains(ca)),
            }
        };
        let entries = registered.entries.iter().flatten();
        let verdicts: Vec<Verdict> = entries.map(verdict).collect();
        may_swap(&verdicts, self.serving(), registered.unchanged_for)
    }

    fn serving(&self) -> Serving {
        let Some(pair) = self.following.pair.current() else {
            return Serving::Nothing;
        };
        let left = Duration::try_from(pair.leaf().not_after.duration_since(wall_clock()));
        if left.is_ok_and(|left| left > LAST_MOMENT) {
            Serving::Leaf
        } else {
            Serving::Ending
        }
    }

    fn quiet(&mut self) {
        self.remark.clear();
        self.told.clear();
        self.waits = 0;
    }

    fn trouble(&mut self, why: String) -> Duration {
        self.wait(why);
        AGAIN
    }

    /// Reports trouble: in the readiness, and in the log when it is news.
    fn wait(&mut self, why: String) {
        if self.told != why {
            tracing::warn!("certificate: {why}");
            self.told.clone_from(&why);
        }
        self.remark = match self.following.pair.current() {
            Some(_) => format!("; {why}"),
            None => why,
        };
    }
}
