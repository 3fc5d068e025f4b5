//! Keeps the certificates, and says what callers have to trust.
//!
//! Our own CA and leaf in two Secrets (`own`), or what somebody else makes (`given`). Level-based: a
//! look every few seconds at all that counts, one step at a time, so that neither a lost event nor a
//! machine that was suspended matters. What to do is decided in `certs::rotation`.

pub mod args;
mod given;
pub mod own;
pub mod registered;
pub mod secret;
mod telling;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::certs::bundle;
use crate::certs::rotation::{self, Step};

use crate::render;

use super::Context;
use super::pace::doubled;
use super::trust::Trust;
use crate::kube_api::CallError;

use self::own::{Own, Secrets, StepError};
use self::registered::Watch;
use self::secret::Place;
use self::telling::Told;

/// A look is had this often.
const LOOK: Duration = Duration::from_secs(5);
/// The same where somebody else makes the certificates: replicas wait until theirs is registered.
const GIVEN: Duration = Duration::from_secs(2);
/// The same while a leaf waits to be issued.
const IMPATIENT: Duration = Duration::from_millis(500);
/// The pause after a write.
const BREATH: Duration = Duration::from_millis(50);
/// Writes in a row without a longer pause: a start and a rotation take fewer.
const FREE: u32 = 12;
/// The pause after so many, as somebody keeps undoing them; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Tells the time of day, by which certificates end.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Where certificates come from.
#[derive(Clone)]
pub struct Settings {
    /// Who makes them.
    pub source: Source,
    /// What time it is.
    pub clock: Clock,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Who makes the certificates.
#[derive(Debug, Clone)]
pub enum Source {
    /// meshgate does.
    Own(Own),
    /// Somebody else writes this Secret.
    Secret(String),
    /// Somebody else writes this Secret, and cainjector the registration, from this
    /// `NAMESPACE/NAME` of a Certificate.
    Injected(String),
    /// The CA is in this file; without one it is a public CA.
    File(Option<PathBuf>),
}

/// Runs until told to stop. Only looks at what is registered; writes nothing but the Secrets.
pub async fn run(context: Arc<Context>, stop: CancellationToken) {
    let mut keeper = Keeper::new(context);
    stop.run_until_cancelled(keeper.keep()).await;
}

struct Keeper {
    context: Arc<Context>,
    registered: Watch,
    /// Writes and failures in a row.
    in_a_row: u32,
    told: Told,
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// At once: something was written.
    Now,
    /// After this time.
    In(Duration),
}

impl Keeper {
    fn new(context: Arc<Context>) -> Self {
        let address = render::client_config("", &context.form.settings);
        Self {
            context,
            registered: Watch::of(address),
            in_a_row: 0,
            told: Told::default(),
        }
    }

    async fn keep(&mut self) {
        loop {
            let pause = match self.look().await {
                Ok(Next::In(pause)) => {
                    self.in_a_row = 0;
                    pause
                }
                Ok(Next::Now) => self.next_pause(),
                // Somebody was quicker: what they wrote counts.
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
        self.in_a_row += 1;
        let Some(beyond) = self.in_a_row.checked_sub(FREE) else {
            return BREATH;
        };
        doubled(FIRST_PAUSE, beyond).min(LONGEST_PAUSE)
    }

    async fn look(&mut self) -> Result<Next, StepError> {
        let Settings { source, clock } = self.context.form.certificates.clone();
        match source {
            Source::Own(own) => self.look_at_own(&own, &clock).await,
            Source::Secret(name) => self.look_at_secret(&name, clock()).await,
            Source::Injected(certificate) => {
                self.publish(Trust::Injected(certificate), 0);
                Ok(Next::In(LOOK))
            }
            Source::File(path) => self.look_at_file(path.as_deref(), clock()).await,
        }
    }

    async fn look_at_own(&mut self, own: &Own, clock: &Clock) -> Result<Next, StepError> {
        let client = self.client();
        let registered = self.registered.look(&client).await?;
        let secrets = Secrets::read(&client, self.namespace(), own).await?;
        let now = clock();
        let observed = secrets.observed(own, registered, now);
        if let Some(bundle) = own::trust(&observed, now) {
            self.publish(Trust::Bundle(bundle::pem(&bundle)), bundle.len());
        }
        for (name, end) in own::ends(&observed) {
            let end = end.map_or(0, Timestamp::as_second);
            self.context.metrics.certificate_not_after(name, end);
        }
        for seen in [&secrets.seen_ca, &secrets.seen_leaf].into_iter().flatten() {
            self.told.clock(seen.created(), now);
        }
        let step = rotation::next(&observed, now);
        self.told.step(&step, secrets.place_of(&step));
        match step {
            Step::Wait { .. } => return Ok(Next::In(IMPATIENT)),
            Step::Rest { .. } => {
                return Ok(match secrets.adopt().await? {
                    true => Next::Now,
                    false => Next::In(LOOK),
                });
            }
            Step::MakeCa { .. }
            | Step::KeepCas { .. }
            | Step::IssueLeaf { .. }
            | Step::KeepLeaf { .. } => {}
        }
        secrets.act(&step, own, now).await?;
        self.told.done(&step, secrets.place_of(&step));
        if telling::is_repair(&step) {
            self.context.metrics.certificate_repaired();
        }
        Ok(Next::Now)
    }

    async fn look_at_secret(&mut self, name: &str, now: Timestamp) -> Result<Next, StepError> {
        let client = self.client();
        let place = Place::new(&client, self.namespace(), name);
        let Some(seen) = place.read().await? else {
            self.told
                .waits(&place, "it is missing: expected cert-manager to make it");
            return Ok(Next::In(GIVEN));
        };
        // One that is about to be written holds nothing yet; then it is no public CA.
        if let Err(why) = seen.content.pair() {
            self.told.waits(&place, &why);
            return Ok(Next::In(GIVEN));
        }
        self.told.clock(seen.created(), now);
        let cas = seen.content.cas.as_deref();
        self.publish_given(cas, now, &format!("ca.crt of Secret {place}"))
            .await?;
        Ok(Next::In(GIVEN))
    }

    async fn look_at_file(
        &mut self,
        path: Option<&std::path::Path>,
        now: Timestamp,
    ) -> Result<Next, StepError> {
        let Some(path) = path else {
            self.publish(Trust::System, 0);
            return Ok(Next::In(LOOK));
        };
        let text = given::file(path).map_err(StepError::Content)?;
        self.publish_given(Some(&text), now, &path.display().to_string())
            .await?;
        Ok(Next::In(GIVEN))
    }

    async fn publish_given(
        &mut self,
        cas: Option<&[u8]>,
        now: Timestamp,
        from: &str,
    ) -> Result<(), CallError> {
        let registered = self.registered.look(&self.client()).await?;
        match given::trust(cas, &registered, now) {
            Ok(Trust::Bundle(pem)) => {
                let count = bundle::read(pem.as_bytes()).map_or(0, |all| all.len());
                self.publish(Trust::Bundle(pem), count);
            }
            Ok(other) => self.publish(other, 0),
            Err(why) => self.told.problem(&format!("{from}: {why}")),
        }
        Ok(())
    }

    /// Says what callers are to trust, if that is news.
    fn publish(&self, trust: Trust, cas: usize) {
        self.context.metrics.ca_bundle_certs(cas);
        let is_news = self.context.trust.send_if_modified(|before| {
            let is_news = before.as_ref() != Some(&trust);
            *before = Some(trust);
            is_news
        });
        if is_news {
            tracing::info!(cas, "what callers are to trust has changed");
        }
    }

    fn client(&self) -> Client {
        self.context.client.clone()
    }

    fn namespace(&self) -> &str {
        &self.context.form.settings.namespace
    }
}
