//! Which of several processes acts: a Lease, held as client-go's leader election holds it.
//!
//! `plan` decides, `act` asks the API server, and [`Elector`] alternates between them for as long as
//! the program runs. Controllers see a [`Claim`], and write with [`Fenced`], a client that refuses to
//! write without it.

mod act;
mod claim;
mod fence;
mod plan;
mod status;

use std::hash::{BuildHasher, Hasher};

use kube::Client;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::lifecycle::wall_clock;

pub use self::act::LeaseName;
pub use self::claim::{Claim, NotHeld};
pub use self::fence::Fenced;
pub use self::status::Reporting;

use self::act::Store;
use self::claim::Claimant;
use self::plan::{Answer, Ask, Contender, Next, Now, RETRY_PERIOD};
use self::status::{Told, tell_terms};

/// A pause is longer than the retry period by up to this part of it, so that processes do not try in
/// step. (client-go's followers take 1.2: they would find a released Lease up to 4.4 s late.)
const JITTER: f64 = 0.2;
/// Requests in one try: a write by what is known, a look, a write by what was seen, and one more
/// look after a conflict.
const EXCHANGES: u32 = 4;

/// Contends for the Lease as long as the program runs.
pub struct Elector {
    store: Store,
    contender: Contender,
    claimant: Claimant,
    reporting: Reporting,
    identity: String,
    told: Told,
}

impl Elector {
    /// Its name in the Lease begins with `host` and is unique to this process. The health check passes with
    /// the API server's first answer: a follower is as ready as the leader (case 61). Give it a client
    /// of its own, so that renewals wait for no other request.
    pub fn new(client: Client, lease: LeaseName, host: &str, reporting: Reporting) -> Self {
        let identity = format!("{host}_{:016x}", random());
        reporting.metrics.leader.set(0);
        Self {
            store: Store::new(client, lease),
            contender: Contender::new(identity.clone()),
            claimant: Claimant::new(),
            reporting,
            identity,
            told: Told::default(),
        }
    }

    pub fn claim(&self) -> Claim {
        self.claimant.claim()
    }

    /// Contends until told to stop. Then releases the Lease, after the last write by the claim has ended.
    pub async fn run(mut self, stop: CancellationToken) {
        let (identity, reporting) = (self.identity.clone(), self.reporting.clone());
        let telling = tell_terms(self.claim(), identity, reporting, stop.clone());
        let contending =
            async { while stop.run_until_cancelled(self.contend()).await.is_some() {} };
        tokio::join!(telling, contending);
        self.release().await;
    }

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
                    self.note_problem(why.to_string());
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
                    self.reporting.metrics.leader.set(0);
                    tracing::info!("no longer the leader: this process has released the Lease");
                    return;
                }
                Ok(Answer::Conflict) => ask = Some(Ask::Look),
                Ok(answer) => {
                    // Whatever the plan would do next, the Lease is released if it is ours.
                    drop(self.contender.answered(answer, sent, now()));
                    ask = self.contender.release(now());
                }
                Err(why) => {
                    tracing::warn!(
                        "cannot release the Lease, so that others take it only when it expires: {why}"
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

/// Seeded anew by the system at each call. Good enough for names and jitter.
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
