//! Finds out whether the API server reaches us: by a dry run that only our own entry meets.

use std::time::{Duration, Instant};

use kube::Client;
use serde_json::Value;

use crate::controllers::pace::doubled;
use crate::kube_api::kind::Id;
use crate::render::proof::{self, Subject};
use crate::render::{REACH_ENTRY, Settings};

use super::plan::{Hold, Observed};
use super::telling::url;
use super::{Keeper, contains, dry_run, terms};

/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// What stays wrong is told again after this time.
const REMINDER: Duration = Duration::from_secs(60);
/// Pause where the API server has only not heard of the entry yet.
const CACHE_PAUSE: Duration = Duration::from_millis(100);

/// Why we were not reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreached {
    /// The API server did not call the entry as it is now.
    #[error("the API server does not use the entry reach.meshgate.io as it is now (yet)")]
    NotAsked,
    /// It called and failed, or refused the dry run.
    #[error("{0}")]
    Failed(String),
}

/// Asks once.
///
/// # Errors
/// What the API server said, or that it did not call.
pub(super) async fn attempt(
    client: &Client,
    namespace: &str,
    proof: &str,
) -> Result<(), Unreached> {
    let answer = dry_run::annotated(client, namespace, Subject::Reach.label()).await;
    let answer = answer.map_err(|error| error.to_string());
    match Subject::Reach.is_proved(answer, proof) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Unreached::NotAsked),
        Err(said) => Err(Unreached::Failed(said)),
    }
}

/// By which client configuration we were reached, and when to try again. The clock is passed in.
#[derive(Debug, Default)]
pub(super) struct Reach {
    proven: Option<String>,
    trying: Option<String>,
    failures: u32,
    due: Option<Instant>,
    told: Option<(Unreached, Instant)>,
}

impl Reach {
    /// Whether the API server has reached us by the configuration of this proof.
    pub(super) fn is_proven(&self, proof: &str) -> bool {
        self.proven.as_deref() == Some(proof)
    }

    /// When the next attempt is due; at once for a configuration that was not tried yet.
    pub(super) fn due(&mut self, proof: &str, now: Instant) -> Instant {
        if self.trying.as_deref() != Some(proof) {
            *self = Self {
                proven: self.proven.take(),
                trying: Some(proof.to_owned()),
                ..Self::default()
            };
        }
        self.due.unwrap_or(now)
    }

    /// We were reached.
    pub(super) fn succeeded(&mut self, proof: &str) {
        *self = Self {
            proven: Some(proof.to_owned()),
            ..Self::default()
        };
    }

    /// We were not. True if that is news, or was told long ago.
    pub(super) fn failed(&mut self, why: &Unreached, now: Instant) -> bool {
        self.failures += 1;
        // A cache is a matter of milliseconds; one that takes longer is a failure like others.
        let is_cache = *why == Unreached::NotAsked && self.failures <= 10;
        let pause = if is_cache {
            CACHE_PAUSE
        } else {
            doubled(FIRST_PAUSE, self.failures - 1).min(LONGEST_PAUSE)
        };
        self.due = Some(now + pause);
        let is_told = self
            .told
            .as_ref()
            .is_some_and(|(told, at)| told == why && now.duration_since(*at) < REMINDER);
        if is_cache || is_told {
            return false;
        }
        self.told = Some((why.clone(), now));
        true
    }
}

impl Keeper {
    /// Asks the API server to call us, if the entry for that is in place and it is time. True if
    /// it did, for the first time.
    pub(super) async fn try_to_be_reached(
        &mut self,
        observed: &Observed,
        wanted: &[Value],
        settings: &Settings,
    ) -> bool {
        let proof = proof::of_reach(settings);
        let now = Instant::now();
        let is_due = self.reach.due(&proof, now) <= now;
        if self.reach.is_proven(&proof) || !is_due || !has_reach_entry(observed, wanted) {
            return false;
        }
        match attempt(&self.context.client, &settings.namespace, &proof).await {
            Ok(()) => {
                tracing::info!(url = url(settings), "the API server has reached meshgate");
                self.reach.succeeded(&proof);
                self.unreached.clear();
                true
            }
            Err(why) => {
                let url = url(settings);
                // Whatever was said in between: this is what it waits for.
                let state = format!("not reached at {url}: {why}");
                self.context.latch.open_with(&state);
                self.unreached = state;
                if self.reach.failed(&why, Instant::now()) {
                    let armed = match self.armed || self.hold == Hold::Another {
                        true => {
                            "what is armed stays armed: pods that require an injector are REFUSED"
                        }
                        false => "NOT ARMED: pods that require an injector are let through",
                    };
                    tracing::error!(url, "{armed} until the API server reaches meshgate: {why}");
                }
                false
            }
        }
    }
}

/// Whether the entry that proves that we are reached is live as it is wanted.
fn has_reach_entry(observed: &Observed, wanted: &[Value]) -> bool {
    let name = Value::from(REACH_ENTRY);
    wanted.iter().any(|object| {
        let live = Id::of(object).and_then(|id| observed.objects.get(&id));
        let entries = (
            terms::entry_of(object, &name),
            live.and_then(|live| terms::entry_of(live, &name)),
        );
        let (Some(entry), Some(live)) = entries else {
            return false;
        };
        contains::contains(live, entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_news_is_told_once() {
        let mut reach = Reach::default();
        let now = Instant::now();
        assert_eq!(reach.due("a", now), now);
        assert!(!reach.failed(&Unreached::NotAsked, now));
        assert_eq!(reach.due("a", now), now + CACHE_PAUSE);
        let refused = Unreached::Failed("connection refused".to_owned());
        assert!(reach.failed(&refused, now));
        assert!(!reach.failed(&refused, now));
        assert!(reach.due("a", now) > now + FIRST_PAUSE);
        for _ in 0..40 {
            reach.failed(&refused, now);
        }
        assert_eq!(reach.due("a", now), now + LONGEST_PAUSE);
        assert!(reach.failed(&refused, now + REMINDER));
        assert!(reach.failed(&Unreached::Failed("EOF".to_owned()), now));
        // Another address is tried at once, and what was proven stays so until it is.
        reach.succeeded("a");
        assert_eq!(reach.due("b", now), now);
        assert!(reach.is_proven("a") && !reach.is_proven("b"));
        reach.failed(&refused, now);
        assert!(reach.is_proven("a"));
        reach.succeeded("b");
        assert!(reach.is_proven("b") && !reach.is_proven("a"));
    }
}
