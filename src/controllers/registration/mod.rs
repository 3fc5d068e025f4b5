//! Writes the registration, arms it once the API server has reached meshgate, and keeps it so.
//!
//! One loop: look, plan, write, look again until nothing is left to do. Then wait until an object of
//! the registration, meshgate's namespace or a serving replica changes, and at most for `RESYNC`.
//!
//! - `calls`: all calls to the API server; what they read becomes `observed`, parsed once.
//! - `plan`: what to write next; `entries` arms webhook entries, `foreign_conditions` keeps what
//!   other clients have added.
//! - `proof`: what dry runs prove.
//! - `status`: how the registration is, once per look; `report` tells it.
//! - `triggers`: what is watched.
//! - `leave`: the last look, when meshgate's namespace is being deleted.

mod calls;
mod entries;
mod foreign_conditions;
mod leave;
pub(crate) mod observed;
mod plan;
mod proof;
mod report;
mod status;
#[cfg(test)]
mod tests;
mod triggers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::kube_api::backoff::doubling;
use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{self, CallError};
use crate::lifecycle::wall_clock;
use meshgate_core::injector::profile::Mode;
use meshgate_core::render::{self, FailurePolicy, MirrorForm, Settings};

use super::Context;
use super::trust::Trust;
use super::write_limiter::{Turn, WriteLimiter};

pub(crate) use self::foreign_conditions::foreign;
use self::observed::{InstallNamespace, Object, Observed, Replicas};
use self::plan::{Action, Progress};
use self::proof::{Proofs, SETTLE, Subject};
use self::report::Reporter;
use self::status::{Facts, Look, url};
use self::triggers::Triggers;

/// Time between two looks at most, whatever the watches say.
const RESYNC: Duration = Duration::from_secs(30);
/// Changes come in bundles: meshgate looks this long after the first of one.
const BUNDLE: Duration = Duration::from_millis(50);
/// After a look that failed.
const BACKOFF: ExponentialBuilder = doubling(Duration::from_millis(500), Duration::from_secs(15));

/// Runs until the token is cancelled.
pub(super) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let mut reconciler = Reconciler::new(context);
    stop.run_until_cancelled(reconciler.reconcile()).await;
    reconciler.leave_in_time().await;
}

/// For a process that is stopped and does not lead: takes the registration away if meshgate's namespace
/// is being deleted, and does nothing else. The Lease goes with the namespace and cannot be created
/// again, so no other process might ever lead.
pub(super) async fn withdraw(context: Context) {
    Reconciler::new(Arc::new(context)).leave_in_time().await;
}

struct Reconciler {
    context: Arc<Context>,
    labelled: watch::Receiver<bool>,
    unlabelled: watch::Receiver<usize>,
    trust: watch::Receiver<Option<Trust>>,
    limiter: WriteLimiter,
    /// What the API server refused to write, and how it said so.
    refused: BTreeMap<Id, String>,
    proofs: Proofs,
    reporter: Reporter,
    writers: Vec<String>,
    withdrawn: bool,
    /// Since when there is nothing to do but to remove what is stale.
    quiet_since: Option<Instant>,
    /// After looks that fail.
    pauses: ExponentialBackoff,
    /// At the last look: all that is to be armed is armed, and the rest is there.
    is_complete: bool,
}

impl Reconciler {
    fn new(context: Arc<Context>) -> Self {
        Self {
            labelled: context.labelled.subscribe(),
            unlabelled: context.unlabelled.subscribe(),
            trust: context.trust.subscribe(),
            reporter: Reporter::new(Arc::clone(&context)),
            context,
            limiter: WriteLimiter::default(),
            refused: BTreeMap::new(),
            proofs: Proofs::default(),
            writers: Vec::new(),
            withdrawn: false,
            quiet_since: None,
            pauses: BACKOFF.build(),
            is_complete: false,
        }
    }

    async fn reconcile(&mut self) {
        // An entry that no API server can verify is not written.
        if self.trust.wait_for(Option::is_some).await.is_err() {
            return;
        }
        let mut triggers = None;
        loop {
            let next = match self.look(&mut triggers).await {
                Ok(next) => {
                    self.pauses = BACKOFF.build();
                    next
                }
                // Another client wrote first.
                Err(error) if error.is_conflict() => Some(Instant::now() + BUNDLE),
                Err(error) => {
                    self.reporter.failed(&error);
                    self.pauses.next().map(|pause| Instant::now() + pause)
                }
            };
            if let Some(at) = next {
                self.wait(at, triggers.as_mut()).await;
            }
        }
    }

    /// Waits until there is a reason to look.
    async fn wait(&mut self, at: Instant, triggers: Option<&mut Triggers>) {
        let changed = async {
            match triggers {
                Some(triggers) => triggers.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep_until(at.into()) => {}
            () = changed => tokio::time::sleep(BUNDLE).await,
            // The sender is in the context, so it is never gone.
            _ = self.labelled.changed() => {}
            _ = self.unlabelled.changed() => {}
            _ = self.trust.changed() => {}
        }
    }

    /// One look, and the writes that it calls for. Returns when to look again if nothing changes until
    /// then; `None` if at once, as something was written or proved.
    async fn look(
        &mut self,
        triggers: &mut Option<Triggers>,
    ) -> Result<Option<Instant>, CallError> {
        let client = self.context.client.clone();
        let served = kube_api::served(&client).await?;
        if self.writers.is_empty() {
            self.writers = vec![kube_api::own_name(&client).await?];
        }
        let mut settings = self.settings(&served);
        if triggers.as_ref().is_none_or(|own| !own.is_for(&served)) {
            let has_fleet = self.context.form.configuration.is_some();
            let new = Triggers::new(&client, &served, &settings.namespace, has_fleet);
            *triggers = Some(new);
            self.reporter.mirror(settings.mirror);
        }
        let observed = self.observe(&served, &settings).await?;
        settings.owner_uid = observed.owner_uid().map(str::to_owned);
        settings.namespace_uid = observed.owning_uid().map(str::to_owned);
        let wanted = self.wanted(&settings);
        self.proofs.turn_to(&observed, &wanted, &settings);
        let look = Look {
            plan: plan::plan(&observed, &wanted, self.progress(&observed)),
            observed,
            settings,
            wanted,
        };
        self.note_plan(&look);
        let mut due = vec![Instant::now() + RESYNC];
        due.extend(self.reporter.suspensions(&look.observed));
        let mut wrote = false;
        for action in &look.plan.actions {
            match self.act(action, &look.observed).await? {
                None => wrote = true,
                Some(until) => due.push(until),
            }
        }
        if wrote {
            return Ok(None);
        }
        let planned: BTreeSet<&Id> = look.plan.actions.iter().filter_map(Action::id).collect();
        self.refused.retain(|id, _| planned.contains(id));
        let settles = self.quiet_since.map(|since| since + SETTLE);
        due.extend(settles.filter(|at| *at > Instant::now()));
        if look.observed.namespace == InstallNamespace::Active {
            if self.prove(&look.settings).await {
                return Ok(None);
            }
            due.extend(self.conclude(&look).await);
        }
        Ok(due.into_iter().min())
    }

    /// Computes the status of this look and reports it. Returns when there is more to do, if nothing changes
    /// until then.
    async fn conclude(&mut self, look: &Look) -> Vec<Instant> {
        let facts = Facts {
            look,
            proofs: &self.proofs,
            is_to_enforce: self.is_to_enforce(),
            labelled: *self.labelled.borrow(),
            unlabelled: *self.unlabelled.borrow(),
            refused: &self.refused,
        };
        let status = facts.status();
        self.is_complete = status.is_complete;
        let news = self.proofs.take_news();
        self.reporter.unproved(news, &status, &url(&look.settings));
        let event = self.reporter.report(&status, &look.observed).await;
        let now = Instant::now();
        let proofs = Subject::ALL.map(|one| self.proofs.of(one).due(now));
        proofs.into_iter().chain([event]).flatten().collect()
    }

    /// Reads all that the plan depends on.
    async fn observe(
        &mut self,
        served: &BTreeSet<Kind>,
        settings: &Settings,
    ) -> Result<Observed, CallError> {
        let client = self.context.client.clone();
        let names = self.wanted(settings).into_iter().map(|object| object.id);
        let objects = calls::objects_of(&client, served, names).await?;
        let namespace = &settings.namespace;
        let (state, namespace_uid) = calls::install_namespace(&client, namespace).await?;
        let fleet = match &self.context.form.configuration {
            Some(configuration) => Some(calls::fleet(&client, namespace, configuration).await?),
            None => None,
        };
        let mut observed = Observed {
            objects,
            namespace: self.note_namespace(state),
            namespace_uid,
            fleet,
            refused: self.refused.keys().cloned().collect(),
            ..Observed::default()
        };
        let now = (self.context.form.certificates.clock)();
        observed.covered = entries::covered(&observed, settings.ca_bundle.as_deref(), now);
        Ok(observed)
    }

    fn settings(&self, served: &BTreeSet<Kind>) -> Settings {
        let mirror = match self.context.form.mirror {
            None | Some(MirrorForm::Policy) if served.contains(&Kind::MutatingPolicy) => {
                MirrorForm::Policy
            }
            _ => MirrorForm::Webhook,
        };
        let ca_bundle = match &*self.trust.borrow() {
            Some(Trust::Bundle(pem)) => Some(pem.clone()),
            Some(Trust::System) | None => None,
        };
        Settings {
            failure_policy: FailurePolicy::Fail,
            mirror,
            writers: self.writers.clone(),
            ca_bundle,
            ..self.context.form.settings.clone()
        }
    }

    fn wanted(&self, settings: &Settings) -> Vec<Object> {
        let rendered = render::registration(&self.context.injectors, settings);
        entries::wanted(rendered.objects)
    }

    fn progress(&self, observed: &Observed) -> Progress {
        let now = Instant::now();
        let mirror = self.proofs.of(Subject::Mirror);
        Progress {
            labelled: *self.labelled.borrow(),
            reached: self.proofs.of(Subject::Reach).is_proved(),
            settled: self.is_settled(),
            replicas: observed.replicas(),
            in_force: self.proofs.of(Subject::Check).has_settled(now),
            mirror_in_force: !mirror.is_wanted() || mirror.has_settled(now),
            now: wall_clock(),
        }
    }

    /// Whether there is an injector without which a pod is to be refused.
    fn is_to_enforce(&self) -> bool {
        let mut injectors = self.context.injectors.iter();
        injectors.any(|one| one.is_looked_at() && one.profile.mode == Mode::Enforce)
    }

    /// Notes how far the plan is, and lets the labels of namespaces follow.
    fn note_plan(&mut self, Look { plan, observed, .. }: &Look) {
        if plan.mirrored {
            self.context.mirrored.send_replace(true);
        }
        let mut actions = plan.actions.iter();
        let is_quiet = actions.all(|one| matches!(one, Action::Delete(_) | Action::Resume { .. }));
        let is_equal = observed.replicas() == Replicas::Equal;
        if is_quiet && self.is_complete && is_equal {
            self.quiet_since.get_or_insert_with(Instant::now);
        } else {
            self.quiet_since = None;
        }
        if self.is_settled() {
            self.context.in_force.send_replace(true);
        }
    }

    fn is_settled(&self) -> bool {
        let since = self.quiet_since;
        since.is_some_and(|since| since.elapsed() >= SETTLE)
    }

    /// Notes that meshgate's namespace was deleted: the registration does not come back until an
    /// administrator creates it again. Returns what its state means for the plan.
    fn note_namespace(&mut self, found: InstallNamespace) -> InstallNamespace {
        if found == InstallNamespace::Terminating && !self.withdrawn {
            self.reporter.withdrawn();
            self.withdrawn = true;
            self.is_complete = false;
            self.proofs = Proofs::default();
        } else if found == InstallNamespace::Active && self.withdrawn {
            tracing::info!("meshgate's namespace exists again: the registration is written again");
            self.withdrawn = false;
        } else if found == InstallNamespace::Missing && self.withdrawn {
            return InstallNamespace::Withdrawn;
        } else if found == InstallNamespace::Missing && self.context.form.creates_namespace {
            return InstallNamespace::Wanted;
        }
        found
    }

    /// Does one write, unless it is too soon for it: then when it may be done.
    async fn act(
        &mut self,
        action: &Action,
        observed: &Observed,
    ) -> Result<Option<Instant>, CallError> {
        let client = &self.context.client;
        let (id, what) = match action {
            Action::CreateNamespace => {
                let namespace = &self.context.form.settings.namespace;
                calls::create_namespace(client, namespace).await?;
                tracing::info!(namespace, "meshgate's namespace created");
                return Ok(None);
            }
            Action::Apply(object) => (&object.id, "written"),
            Action::Widen { id, .. } => (id, "widened"),
            Action::Resume { id, .. } => (id, "resumed"),
            Action::Delete(id) => (id, "deleted"),
        };
        let live = observed.objects.get(id);
        if let Turn::Wait { until, first } = self.limiter.turn(id, Instant::now()) {
            if first {
                self.reporter.contended(id, live);
            }
            return Ok(Some(until));
        }
        let written = calls::write(client, action, live).await;
        let refusal = written.as_ref().err().filter(|one| one.is_refused());
        let (refusal, now) = (refusal.map(ToString::to_string), Instant::now());
        self.limiter.wrote(id, refusal.is_some(), now);
        if let Some(refusal) = refusal {
            // The rest of the plan does not wait for it.
            tracing::error!(object = %id, "the API server refuses a write: {refusal}");
            self.refused.insert(id.clone(), refusal);
            return Ok(Some(now));
        }
        written?;
        self.refused.remove(id);
        if matches!(action, Action::Resume { .. }) {
            self.reporter.resumed(id, live).await;
        }
        tracing::info!(object = %id, "{what}");
        let metrics = &self.context.metrics;
        metrics.registration_written(id.kind.as_str(), what);
        Ok(None)
    }

    /// Has the API server show what is written and not proved yet, by one dry run each. True as soon as
    /// something is proved.
    async fn prove(&mut self, settings: &Settings) -> bool {
        for subject in Subject::ALL {
            if !self.proofs.of(subject).is_due(Instant::now()) {
                continue;
            }
            let client = &self.context.client;
            let answer = calls::dry_run(client, &settings.namespace, subject.label()).await;
            let answer = answer.map_err(|error| error.to_string());
            let proof = self.proofs.of_mut(subject);
            if proof.answered(subject, answer, Instant::now()) {
                tracing::info!(url = url(settings), "{}", proof::words(subject).proved);
                return true;
            }
        }
        false
    }
}
