//! Finds out whether the API server has taken up the policies: by a dry run that they refuse.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::controllers::api::{MANAGER, call};
use crate::controllers::pace::doubled;
use crate::render::in_force;

use super::{Keeper, RESYNC, SETTLE};

/// The first pause after a dry run that proved nothing; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After so many in a row it is told: an API server takes up policies within a second or two.
const PATIENCE: u32 = 6;

/// Why nothing is proved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unproved {
    /// The dry run was not refused, or with another proof.
    #[error("the API server has not taken up the policies as they are now (yet)")]
    NotYet,
    /// It was refused by something else, or could not be asked for.
    #[error("{0}")]
    Failed(String),
}

/// Asks once.
///
/// # Errors
/// The API server lets it pass, refuses it for another reason, or cannot be asked.
pub(super) async fn attempt(client: &Client, namespace: &str, proof: &str) -> Result<(), Unproved> {
    let mut object = ConfigMap::default();
    object.metadata.generate_name = Some("meshgate-in-force-".to_owned());
    object.metadata.labels = Some(BTreeMap::from([(
        in_force::LABEL.to_owned(),
        String::new(),
    )]));
    let params = PostParams {
        dry_run: true,
        field_manager: Some(MANAGER.to_owned()),
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let what = || format!("dry run of a ConfigMap in namespace {namespace}");
    match call(what, api.create(&params, &object)).await {
        Ok(_) => Err(Unproved::NotYet),
        Err(error) => {
            let said = error.to_string();
            match (
                said.contains(&in_force::refusal(proof)),
                said.contains(in_force::NAME),
            ) {
                (true, _) => Ok(()),
                (false, true) => Err(Unproved::NotYet),
                (false, false) => Err(Unproved::Failed(said)),
            }
        }
    }
}

/// What was proved, and when to try again. The clock is passed in.
#[derive(Debug, Default)]
pub(super) struct InForce {
    proved: Option<(String, Instant)>,
    failures: u32,
    due: Option<Instant>,
    told: bool,
}

impl InForce {
    /// Whether an API server has these policies.
    pub(super) fn is_proved(&self, proof: &str) -> bool {
        self.proved.as_ref().is_some_and(|(own, _)| own == proof)
    }

    /// Until when others may have to take them up as well; `None` if that is not known.
    pub(super) fn settles(&self, proof: &str) -> Option<Instant> {
        let (own, since) = self.proved.as_ref()?;
        (own == proof).then(|| *since + SETTLE)
    }

    /// When to try again.
    pub(super) fn due(&self, now: Instant) -> Instant {
        self.due.unwrap_or(now)
    }

    /// They have refused.
    pub(super) fn succeeded(&mut self, proof: &str, now: Instant) {
        *self = Self {
            proved: Some((proof.to_owned(), now)),
            ..Self::default()
        };
    }

    /// They have not. True if that is to be told.
    pub(super) fn failed(&mut self, now: Instant) -> bool {
        self.failures += 1;
        let pause = doubled(FIRST_PAUSE, self.failures - 1);
        self.due = Some(now + pause.min(LONGEST_PAUSE));
        let is_news = self.failures >= PATIENCE && !self.told;
        self.told |= is_news;
        is_news
    }
}

impl Keeper {
    /// Has the policies refuse a dry run, if they are not known to be in force and it is time. Says when
    /// to look again; `None` if that is at once, as they have refused it.
    pub(super) async fn try_policies(
        &mut self,
        proof: Option<&str>,
        namespace: &str,
    ) -> Option<Instant> {
        let now = Instant::now();
        let Some(proof) = proof else {
            return Some(now + RESYNC);
        };
        if self.in_force.is_proved(proof) {
            let settles = self.in_force.settles(proof).filter(|at| *at > now);
            return Some(settles.unwrap_or(now + RESYNC));
        }
        if self.in_force.due(now) > now {
            return Some(self.in_force.due(now));
        }
        match attempt(&self.context.client, namespace, proof).await {
            Ok(()) => {
                tracing::info!("the policies are in force");
                self.in_force.succeeded(proof, Instant::now());
                None
            }
            Err(why) => {
                if self.in_force.failed(Instant::now()) {
                    tracing::error!("it is not known whether the policies are in force: {why}");
                }
                Some(self.in_force.due(now))
            }
        }
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
        force.succeeded("a", now);
        assert!(force.is_proved("a") && !force.is_proved("b"));
        assert_eq!(force.settles("a"), Some(now + SETTLE));
        assert_eq!(force.settles("b"), None);
        assert_eq!(force.due(now), now);
    }
}
