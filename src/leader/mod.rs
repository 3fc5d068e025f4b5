//! Which of several processes acts: a Lease, held as client-go's leader election holds it.
//!
//! `plan` decides, `act` asks the API server, [`Elector`] does the one after the other for as long as
//! the program runs. [`Claim`] is what those see of it who act; [`Fenced`] is the client that they do
//! it with, and that writes nothing without.

mod act;
mod claim;
mod fence;
mod plan;
mod record;
mod telling;

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use kube::Client;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::kube_api::wall_clock;
use crate::lifecycle::Latch;
use crate::metrics::Metrics;

pub use self::act::Place;
pub use self::claim::{Claim, NotHeld};
pub use self::fence::Fenced;

use self::act::Store;
use self::claim::Claimant;
use self::plan::{Answer, Ask, Contender, Next, Now, RETRY_PERIOD};
use self::telling::{Told, tell_terms};

/// A pause is longer than the retry period by up to this part of it, so that two do not try in step.
/// (client-go's followers take 1.2: they would find a Lease that was given back up to 4.4 s late.)
const JITTER: f64 = 0.2;
/// Requests in one try: a write by what is known, a look, a write by what was seen, and one more
/// look for whoever was beaten to it.
const EXCHANGES: u32 = 4;

/// Contends for the Lease as long as the program runs.
pub struct Elector {
    store: Store,
    contender: Contender,
    claimant: Claimant,
    metrics: Arc<Metrics>,
    latch: Latch,
    identity: String,
    told: Told,
}

impl Elector {
    /// One that contends by a name of its own that begins with `host`. The latch opens as soon as the
    /// API server has answered once: a follower is as ready as the leader (case 61). The client is best
    /// one that nobody else uses, so that renewals wait for nobody.
    pub fn new(client: Client, place: Place, host: &str, noted: (Arc<Metrics>, Latch)) -> Self {
        let identity = format!("{host}_{:016x}", random());
        let (metrics, latch) = noted;
        metrics.leads(false);
        Self {
            store: Store::new(client, place),
            contender: Contender::new(identity.clone()),
            claimant: Claimant::new(),
            metrics,
            latch,
            identity,
            told: Told::default(),
        }
    }

    /// The claim, for those who act.
    pub fn claim(&self) -> Claim {
        self.claimant.claim()
    }

    /// Contends until told to stop; gives the Lease back then, if it holds it, once everything has
    /// ended that was sent by the claim.
    pub async fn run(mut self, stop: CancellationToken) {
        let noted = (Arc::clone(&self.metrics), self.latch.clone());
        let telling = tell_terms(self.claim(), self.identity.clone(), noted, stop.clone());
        let contending =
            async { while stop.run_until_cancelled(self.contend()).await.is_some() {} };
        tokio::join!(telling, contending);
        self.release().await;
    }

    /// One try, and the pause after it.
    async fn contend(&mut self) {
        self.attempt().await;
        sleep(RETRY_PERIOD.mul_f64(1.0 + JITTER * fraction())).await;
    }

    async fn attempt(&mut self) {
        let mut ask = self.contender.begin(now());
        for _ in 0..EXCHANGES {
            let sent = Instant::now().into_std();
            let answer = match self.store.ask(ask).await {
                Ok(answer) => {
                    self.note_answer();
                    answer
                }
                Err(why) => {
                    self.note_problem(why);
                    Answer::Failed
                }
            };
            let next = self.contender.answered(answer, sent, now());
            self.claimant.is_now(self.contender.claim());
            self.tell();
            match next {
                Next::Ask(another) => ask = another,
                Next::Rest => return,
            }
        }
    }

    async fn release(&mut self) {
        self.claimant.is_now(None);
        self.claimant.is_quiet().await;
        let mut ask = self.contender.release(now());
        for _ in 0..EXCHANGES {
            let Some(asked) = ask else { return };
            let sent = Instant::now().into_std();
            match self.store.ask(asked).await {
                Ok(Answer::Written(..)) => {
                    self.metrics.leads(false);
                    tracing::info!("no longer the leader: the Lease is given back");
                    return;
                }
                Ok(Answer::Conflict) => ask = Some(Ask::Look),
                Ok(answer) => {
                    // Whatever would come next: it is given back, if it is ours.
                    drop(self.contender.answered(answer, sent, now()));
                    ask = self.contender.release(now());
                }
                Err(why) => {
                    tracing::warn!(
                        "the Lease cannot be given back, others take it when its time is over: {why}"
                    );
                    return;
                }
            }
        }
    }
}

fn now() -> Now {
    Now {
        steady: Instant::now().into_std(),
        wall: wall_clock(),
    }
}

/// Differs in each process and each time: that is all that is asked of it.
fn random() -> u64 {
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

/// From 0 to 1.
fn fraction() -> f64 {
    f64::from(u32::try_from(random() >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
