//! Finds out whether the API server has taken up policies, those of the check or the mirror: by dry
//! runs that they refuse or write into.

use std::fmt;
use std::time::{Duration, Instant};

use kube::Client;

use crate::controllers::pace::doubled;
use crate::render::proof;

use super::{Keeper, RESYNC, SETTLE, dry_run};

/// The first pause after a dry run that proved nothing; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After so many in a row it is told: an API server takes up policies within a second or two.
const PATIENCE: u32 = 6;

/// Why nothing is proved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unproved {
    /// The dry run came back without the proof, or with another one.
    #[error("the API server does not use them as they are now (yet)")]
    NotYet,
    /// It was refused by something else, or could not be asked for.
    #[error("{0}")]
    Failed(String),
}

/// Which policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// The check as policies.
    Check,
    /// What mirrors annotations of namespaces.
    Mirror,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Check => "the policies are",
            Self::Mirror => "the mirror of namespaces' annotations is",
        })
    }
}

impl Subject {
    /// What may be done if it never is.
    fn advice(self) -> &'static str {
        match self {
            Self::Check => "",
            Self::Mirror => {
                "; where the admission plugin MutatingAdmissionPolicy is switched off, --mirror=webhook does the \
                 same"
            }
        }
    }

    /// Asks once.
    ///
    /// # Errors
    /// The API server has them otherwise or not at all, refuses the dry run for another reason, or
    /// cannot be asked.
    async fn attempt(self, client: &Client, home: &str, proof: &str) -> Result<(), Unproved> {
        let subject = match self {
            Self::Check => proof::Subject::Check,
            Self::Mirror => proof::Subject::Mirror,
        };
        let answer = dry_run::annotated(client, home, subject.label()).await;
        let answer = answer.map_err(|error| error.to_string());
        let is_proved = subject.is_proved(answer, proof).map_err(Unproved::Failed)?;
        is_proved.then_some(()).ok_or(Unproved::NotYet)
    }
}

/// What was proved, and when to try again. The clock is passed in.
#[derive(Debug, Default)]
pub(super) struct InForce {
    proved: Option<(String, Instant)>,
    trying: Option<String>,
    failures: u32,
    due: Option<Instant>,
    told: bool,
}

impl InForce {
    /// Whether an API server has these policies.
    pub(super) fn is_proved(&self, proof: &str) -> bool {
        self.proved.as_ref().is_some_and(|(own, _)| own == proof)
    }

    /// Until when other API servers may have to take them up as well; `None` if that is not known.
    pub(super) fn settles(&self, proof: &str) -> Option<Instant> {
        let (own, since) = self.proved.as_ref()?;
        (own == proof).then(|| *since + SETTLE)
    }

    /// Another proof is tried at once, and told of anew.
    fn turn_to(&mut self, proof: &str) {
        if self.trying.as_deref() != Some(proof) {
            *self = Self {
                proved: self.proved.take(),
                trying: Some(proof.to_owned()),
                ..Self::default()
            };
        }
    }

    /// When to try again.
    fn due(&self, now: Instant) -> Instant {
        self.due.unwrap_or(now)
    }

    /// Whether it was told that nothing is proved for longer than that takes.
    pub(super) fn is_late(&self) -> bool {
        self.told
    }

    /// Asks the API server, if nothing is proved and it is time. Says when to look again; `None` if that
    /// is at once, as it is proved now. Without a proof there is nothing to ask about yet.
    async fn prove(
        &mut self,
        subject: Subject,
        proof: Option<&str>,
        (client, home): (&Client, &str),
    ) -> Option<Instant> {
        let now = Instant::now();
        let Some(proof) = proof else {
            return Some(now + RESYNC);
        };
        if let Some(settles) = self.settles(proof) {
            return Some(if settles > now { settles } else { now + RESYNC });
        }
        self.turn_to(proof);
        if self.due(now) > now {
            return Some(self.due(now));
        }
        match subject.attempt(client, home, proof).await {
            Ok(()) => {
                tracing::info!("{subject} in force");
                self.succeeded(proof, Instant::now());
                None
            }
            Err(why) => {
                if self.failed(Instant::now()) {
                    let advice = match why {
                        Unproved::NotYet => subject.advice(),
                        Unproved::Failed(_) => "",
                    };
                    tracing::error!("it is not known whether {subject} in force: {why}{advice}");
                }
                Some(self.due(now))
            }
        }
    }

    /// The API server has shown it.
    fn succeeded(&mut self, proof: &str, now: Instant) {
        *self = Self {
            proved: Some((proof.to_owned(), now)),
            ..Self::default()
        };
    }

    /// It has not. True if that is to be told.
    fn failed(&mut self, now: Instant) -> bool {
        self.failures += 1;
        let pause = doubled(FIRST_PAUSE, self.failures - 1);
        self.due = Some(now + pause.min(LONGEST_PAUSE));
        let is_news = self.failures >= PATIENCE && !self.told;
        self.told |= is_news;
        is_news
    }
}

impl Keeper {
    /// Has the API server show that it uses the policies of the check and the mirror, as far as there is
    /// something to be proved. Says when to look again; `None` if that is at once.
    pub(super) async fn prove(
        &mut self,
        (check, mirror): (Option<&str>, Option<&str>),
        home: &str,
    ) -> Option<Instant> {
        let asked = (&self.context.client, home);
        let check = self.in_force.prove(Subject::Check, check, asked).await?;
        let mirror = self.mirror.prove(Subject::Mirror, mirror, asked).await?;
        Some(check.min(mirror))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_proved_holds_for_that_proof_and_settles() {
        let now = Instant::now();
        let mut force = InForce::default();
        assert_eq!(force.due(now), now);
        let told: Vec<bool> = (0..8).map(|_| force.failed(now)).collect();
        assert_eq!(told.iter().filter(|told| **told).count(), 1);
        assert_eq!(force.due(now), now + LONGEST_PAUSE);
        force.turn_to("b");
        assert!(force.due(now) == now && !force.is_late());
        force.failed(now);
        force.turn_to("b");
        assert!(force.due(now) > now);
        force.succeeded("a", now);
        assert!(force.is_proved("a") && !force.is_proved("b"));
        assert_eq!(force.settles("a"), Some(now + SETTLE));
        assert_eq!(force.settles("b"), None);
        assert_eq!(force.due(now), now);
    }
}
