//! Following a Secret through the API: every replica by itself, with no right to write anything
//! (cases 51, 52 and 54).
//!
//! A new pair is served once what is registered verifies it (see `certs::swap`); what was served
//! before stays until then, and for as long as it is valid whatever becomes of the Secret.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, interval, sleep_until};

use crate::certs::bundle::Ca;
use crate::certs::held::Content;
use crate::certs::pair::ServingPair;
use crate::certs::rotation::Registered;
use crate::certs::swap::{LAST_MOMENT, Serving, Swap, Verdict, may_swap};
use crate::certs::verify::verifying;
use crate::controllers::certificates::registered::Watch;
use crate::controllers::certificates::secret::Place;

use super::super::now;
use super::{Following, INTERVAL};

/// A look is had at least this often, whatever the watch says.
const RESYNC: Duration = Duration::from_secs(30);
/// The same after a look that failed, or while there is nothing to serve with.
const AGAIN: Duration = Duration::from_secs(1);
/// What is registered is looked at this often while a new pair waits.
const IMPATIENT: Duration = Duration::from_millis(250);
/// After so many looks, no more often than after other trouble.
const LONG: u32 = 240;

/// Follows the Secret until it is dropped.
pub(super) async fn follow(place: Place, following: &Following) {
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
    place: Place,
    following: &'f Following,
    registered: Watch,
    /// The generation that was refused last.
    refused: Option<Content>,
    /// What the readiness says besides.
    remark: String,
    told: String,
    /// Looks at what is registered while the same pair waits.
    waits: u32,
}

impl<'f> Follower<'f> {
    fn new(place: Place, following: &'f Following) -> Self {
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

    /// One look; says when to look again.
    async fn look(&mut self) -> Duration {
        let seen = match self.place.read().await {
            Ok(Some(seen)) => seen,
            Ok(None) => {
                let place = &self.place;
                let why = format!(
                    "Secret {place} is missing: expected meshgate control, or whoever makes it, to write it"
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

    /// The pair of a content; why not, in words, and once for each generation in the log.
    fn judge(&mut self, content: Content) -> Result<ServingPair, String> {
        let place = &self.place;
        let read = content.pair().and_then(|(cert, key)| {
            // One that is not valid yet is looked at again and again, like any other.
            ServingPair::from_pem(cert, key, now()).map_err(|error| error.to_string())
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
                    self.following.metrics.certificate_refused();
                    self.refused = Some(content);
                }
                Err(format!("Secret {place} cannot be served with: {why}"))
            }
        }
    }

    /// Serves a new pair if that is safe.
    async fn offer(&mut self, pair: ServingPair) -> Duration {
        let registered = self.registered.look(self.place.client()).await;
        let (swap, problem) = match &registered {
            Ok(registered) => (self.swap(&pair, registered), String::new()),
            // Whoever has nothing to lose begins with what there is.
            Err(_) if self.serving() != Serving::Leaf => (Swap::Now, String::new()),
            Err(error) => (Swap::Unverified, format!(" ({error})")),
        };
        let (subject, until) = (pair.subject().to_owned(), pair.not_after());
        match swap {
            Swap::Now => {
                tracing::info!(secret = %self.place, subject, %until, "serving with a new certificate");
                self.following.pair.swap(pair);
                self.quiet();
                RESYNC
            }
            Swap::Settle => {
                self.wait(format!(
                    "the one until {until} waits for API servers' caches"
                ));
                self.patience()
            }
            Swap::Unverified => {
                self.wait(format!("the one until {until} waits: the registered caBundle does not verify it{problem}"));
                self.patience()
            }
        }
    }

    fn swap(&self, new: &ServingPair, registered: &Registered) -> Swap {
        let now = now();
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
        let left = Duration::try_from(pair.not_after().duration_since(now()));
        match left.is_ok_and(|left| left > LAST_MOMENT) {
            true => Serving::Leaf,
            false => Serving::Ending,
        }
    }

    /// How long to wait until what is registered is looked at again.
    fn patience(&mut self) -> Duration {
        self.waits = self.waits.saturating_add(1);
        match self.waits > LONG {
            true => AGAIN,
            false => IMPATIENT,
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

    /// Something is not as it should be: in the readiness, and in the log when it is news.
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
