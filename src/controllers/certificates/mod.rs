//! Keeps the certificates, and publishes what callers have to trust.
//!
//! meshgate's own CA and leaf are in two Secrets (`own`); others come from cert-manager or from files
//! (`given`). Every few seconds it looks at all that matters and takes one step, so that neither a lost
//! event nor a suspended machine matters. `certs::rotation` decides the step. A serving replica follows
//! its Secret with [`follower`].

pub mod args;
pub mod follower;
mod given;
pub mod own;
pub mod registered;
pub mod secret;
mod status;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backon::ExponentialBuilder;
use jiff::Timestamp;
use kube::Client;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::certs::bundle::{self, Ca};
use crate::certs::rotation::{self, Step};
use crate::kube_api::CallError;
use crate::kube_api::backoff::{Pauses, doubling, short_first};
use crate::metrics::gauge_of;
use meshgate_core::render;

use super::Context;
use super::trust::Trust;

use self::own::{Own, Secrets, StepError};
use self::registered::Watch;
use self::secret::SecretRef;
use self::status::Told;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);
/// The same where another party makes the certificates: replicas wait until theirs is registered.
const GIVEN: Duration = Duration::from_secs(2);
/// The same while a leaf waits to be issued.
const IMPATIENT: Duration = Duration::from_millis(500);
/// The pause after a write.
const BREATH: Duration = Duration::from_millis(50);
/// Writes in a row without a longer pause: a start and a rotation take fewer.
const FREE: usize = 12;
/// The pauses after so many, when another client keeps undoing them.
const BACKOFF: ExponentialBuilder = doubling(Duration::from_millis(500), LONGEST);
const LONGEST: Duration = Duration::from_secs(15);

/// The time of day, by which certificates expire.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Clone)]
pub struct Settings {
    pub source: Source,
    pub clock: Clock,
}

/// Where certificates come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// meshgate makes them.
    Own(Own),
    /// cert-manager, or another party, writes this Secret.
    Secret(String),
    /// The CA is in this file; without one it is a public CA.
    File(Option<PathBuf>),
}

/// Runs until told to stop. Reads the registration, and writes nothing but the Secrets.
pub async fn run(context: Arc<Context>, stop: CancellationToken) {
    let mut reconciler = Reconciler::new(context);
    stop.run_until_cancelled(Box::pin(reconciler.run())).await;
}

struct Reconciler {
    context: Arc<Context>,
    registered: Watch,
    /// Between writes and failures in a row.
    pauses: Pauses,
    told: Told,
}

fn pauses() -> Pauses {
    short_first(FREE, BREATH, BACKOFF)
}

/// The pause until the next look; `None` after a write, which may call for the next one.
type Next = Option<Duration>;

impl Reconciler {
    fn new(context: Arc<Context>) -> Self {
        let address = render::client_config("", &context.form.settings);
        Self {
            context,
            registered: Watch::of(address),
            pauses: pauses(),
            told: Told::default(),
        }
    }

    async fn run(&mut self) {
        loop {
            let pause = match self.look().await {
                Ok(Some(pause)) => {
                    self.pauses = pauses();
                    pause
                }
                Ok(None) => self.next_pause(),
                // Another client wrote first: look at what it wrote.
                Err(error) if error.is_conflict() => self.next_pause(),
                Err(error) => {
                    self.told.problem(&error.to_string());
                    self.next_pause().max(IMPATIENT)
                }
            };
            sleep(pause).await;
        }
    }

    fn next_pause(&mut self) -> Duration {
        self.pauses.next().unwrap_or(LONGEST)
    }

    async fn look(&mut self) -> Result<Next, StepError> {
        let Settings { source, clock } = self.context.form.certificates.clone();
        match source {
            Source::Own(own) => self.look_at_own(&own, &clock).await,
            Source::Secret(name) => self.look_at_secret(&name, clock()).await,
            Source::File(path) => self.look_at_file(path.as_deref(), clock()).await,
        }
    }

    async fn look_at_own(&mut self, own: &Own, clock: &Clock) -> Result<Next, StepError> {
        let client = self.client();
        let registered = self.registered.look(&client).await?;
        let secrets = Secrets::read(&client, self.namespace(), own).await?;
        let now = clock();
        let observed = secrets.observed(own, registered, now);
        let trusted = rotation::trusted(&observed, now);
        // Before there is a CA, it is not known what callers are to trust.
        if !trusted.is_empty() {
            self.publish(Some(&trusted));
        }
        for (name, end) in own::ends(&observed) {
            let end = end.map_or(0, Timestamp::as_second);
            self.context.metrics.certificates.ends_at(name, end);
        }
        for seen in [&secrets.seen_ca, &secrets.seen_leaf].into_iter().flatten() {
            self.told.clock(seen.created(), now);
        }
        let step = rotation::next(&observed, now);
        self.told.step(&step, secrets.place_of(&step));
        match step {
            Step::Wait { .. } => return Ok(Some(IMPATIENT)),
            Step::Rest { .. } => {
                let has_written = secrets.adopt().await?;
                return Ok((!has_written).then_some(LOOK));
            }
            Step::MakeCa { .. }
            | Step::KeepCas { .. }
            | Step::IssueLeaf { .. }
            | Step::KeepLeaf { .. } => {}
        }
        secrets.act(&step, own, now).await?;
        self.told.done(&step, secrets.place_of(&step));
        if status::is_repair(&step) {
            self.context.metrics.certificates.repairs.inc();
        }
        Ok(None)
    }

    async fn look_at_secret(&mut self, name: &str, now: Timestamp) -> Result<Next, StepError> {
        let client = self.client();
        let place = SecretRef::new(&client, self.namespace(), name);
        let Some(seen) = place.read().await? else {
            self.told
                .waits(&place, "it is missing: expected cert-manager to write it");
            return Ok(Some(GIVEN));
        };
        // Before it is filled it holds nothing: no `ca.crt` does not mean a public CA then.
        if let Err(why) = seen.content.pair() {
            self.told.waits(&place, &why);
            return Ok(Some(GIVEN));
        }
        self.told.clock(seen.created(), now);
        let cas = seen.content.cas.as_deref();
        self.publish_given(cas, now, &format!("ca.crt of Secret {place}"))
            .await?;
        Ok(Some(GIVEN))
    }

    async fn look_at_file(
        &mut self,
        path: Option<&Path>,
        now: Timestamp,
    ) -> Result<Next, StepError> {
        let Some(path) = path else {
            self.publish(None);
            return Ok(Some(LOOK));
        };
        let text = given::file(path).map_err(StepError::Content)?;
        self.publish_given(Some(&text), now, &path.display().to_string())
            .await?;
        Ok(Some(GIVEN))
    }

    async fn publish_given(
        &mut self,
        cas: Option<&[u8]>,
        now: Timestamp,
        from: &str,
    ) -> Result<(), CallError> {
        let registered = self.registered.look(&self.client()).await?;
        match given::trusted(cas, &registered, now) {
            Ok(trusted) => self.publish(trusted.as_deref()),
            Err(why) => self.told.problem(&format!("{from}: {why}")),
        }
        Ok(())
    }

    /// `None` for a public CA.
    fn publish(&self, trusted: Option<&[Ca]>) {
        let cas = trusted.map_or(0, <[Ca]>::len);
        let bundle = &self.context.metrics.certificates.bundle;
        bundle.set(gauge_of(cas));
        let trust = trusted.map_or(Trust::System, |cas| Trust::Bundle(bundle::pem(cas)));
        let is_news = self.context.trust.send_if_modified(|before| {
            let is_news = before.as_ref() != Some(&trust);
            *before = Some(trust);
            is_news
        });
        if is_news {
            tracing::info!(cas, "the trust that callers need has changed");
        }
    }

    fn client(&self) -> Client {
        self.context.client.clone()
    }

    fn namespace(&self) -> &str {
        &self.context.form.settings.namespace
    }
}
