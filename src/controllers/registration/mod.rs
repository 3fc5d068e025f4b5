//! Writes the registration, arms it once the API server has reached us, and keeps it so.
//!
//! One loop: look, plan, write, look again until nothing is left to do; then wait until one of our
//! objects or our namespace changes, and at most for `RESYNC`.

mod act;
mod bulletin;
mod contains;
mod dry_run;
mod entries;
mod fleet;
mod glass;
mod in_force;
mod mirrored;
mod narrowed;
mod observe;
mod plan;
mod policies;
mod reach;
mod telling;
mod terms;
mod trusting;
mod wake;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::render::{self, FailurePolicy, MirrorForm, Settings};

use super::pace::{Pace, Turn};
use super::trust::Trust;
use super::{Context, registration::plan::Action};
use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{self, CallError, wall_clock};

use self::bulletin::Bulletin;
use self::fleet::{Fleet, Replicas};
use self::in_force::InForce;
use self::plan::{Hold, Home, Observed, Plan, Progress};
use self::reach::Reach;
use self::wake::Wake;

/// A look is had at least this often, whatever the watches say.
const RESYNC: Duration = Duration::from_secs(30);
/// Changes come in bundles: a look is had this long after the first of one.
const BUNDLE: Duration = Duration::from_millis(50);
/// How long all has to be there before what it replaces goes (another mirror, labels): API servers
/// take up policies and webhooks from caches of their own.
const SETTLE: Duration = Duration::from_secs(5);
/// How long the last look may take, when it is told to stop.
const LAST_LOOK: Duration = Duration::from_secs(3);
/// The first pause after a call that failed; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Runs until told to stop.
pub(super) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let mut keeper = Keeper::new(context);
    stop.run_until_cancelled(keeper.keep()).await;
    keeper.leave_in_time().await;
}

/// For who is stopped and does not lead: takes the registration away if our namespace is being deleted, since
/// then nobody may ever lead again (the Lease goes too, and cannot be made anew), and does nothing else.
pub(super) async fn withdraw(context: Context) {
    Keeper::new(Arc::new(context)).leave_in_time().await;
}

struct Keeper {
    context: Arc<Context>,
    labelled: watch::Receiver<bool>,
    unlabelled: watch::Receiver<usize>,
    trust: watch::Receiver<Option<Trust>>,
    pace: Pace,
    reach: Reach,
    in_force: InForce,
    mirror: InForce,
    writers: Vec<String>,
    withdrawn: bool,
    /// Since when there is nothing to do but to remove what is stale.
    quiet_since: Option<Instant>,
    failures: u32,
    /// What was last told of the state and of problems.
    told: String,
    told_problem: String,
    armed: bool,
    /// What the last plan left to be done later.
    hold: Hold,
    /// Why we were not reached, at the last try.
    unreached: String,
    /// The serving replicas, if they are looked at.
    fleet: Option<Fleet>,
    /// What is said of the state now, and whether somebody should look.
    said: Option<(String, bool)>,
    bulletin: Bulletin,
}

/// When to look again.
enum Next {
    /// At once: something was written.
    Now,
    /// When something changes, at this time at the latest.
    By(Instant),
}

impl Keeper {
    fn new(context: Arc<Context>) -> Self {
        Self {
            labelled: context.labelled.subscribe(),
            unlabelled: context.unlabelled.subscribe(),
            trust: context.trust.subscribe(),
            context,
            pace: Pace::default(),
            reach: Reach::default(),
            in_force: InForce::default(),
            mirror: InForce::default(),
            writers: Vec::new(),
            withdrawn: false,
            quiet_since: None,
            failures: 0,
            told: String::new(),
            told_problem: String::new(),
            armed: false,
            hold: Hold::None,
            unreached: String::new(),
            fleet: None,
            said: None,
            bulletin: Bulletin::default(),
        }
    }

    async fn keep(&mut self) {
        // Nothing is written by which nobody could verify us.
        if self.trust.wait_for(Option::is_some).await.is_err() {
            return;
        }
        let mut wake: Option<Wake> = None;
        loop {
            let looked = self.look(&mut wake).await;
            let next = match looked {
                Ok(next) => {
                    self.failures = 0;
                    self.told_problem.clear();
                    next
                }
                // Somebody was quicker: look again.
                Err(error) if error.is_conflict() => Next::By(Instant::now() + BUNDLE),
                Err(error) => Next::By(self.failed(&error)),
            };
            if let Next::By(at) = next {
                self.wait(at, wake.as_mut()).await;
            }
        }
    }

    async fn leave_in_time(&mut self) {
        if tokio::time::timeout(LAST_LOOK, self.leave()).await.is_err() {
            tracing::debug!("stopped before it was known whether our namespace is being deleted");
        }
    }

    /// What is left to do when it is told to stop: nothing, as what is written stays. But whoever
    /// deletes our namespace stops us as well, and may be quicker than the watch that tells of it.
    async fn leave(&mut self) {
        let context = Arc::clone(&self.context);
        let namespace = &context.form.settings.namespace;
        if let Ok((Home::Terminating, _)) = observe::home(&context.client, namespace).await {
            loop {
                match self.look(&mut None).await {
                    Ok(Next::Now) => {}
                    Ok(Next::By(_)) => return,
                    // There is no later look: it is tried for as long as there is time.
                    Err(_) => tokio::time::sleep(BUNDLE).await,
                }
            }
        }
    }

    /// Waits until there is a reason to look.
    async fn wait(&mut self, at: Instant, wake: Option<&mut Wake>) {
        let changed = async {
            match wake {
                Some(wake) => wake.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep_until(at.into()) => {}
            () = changed => tokio::time::sleep(BUNDLE).await,
            // The sender is ours, so that it is never gone.
            _ = self.labelled.changed() => {}
            _ = self.unlabelled.changed() => {}
            _ = self.trust.changed() => {}
        }
    }

    /// One look, and the writes that it calls for.
    async fn look(&mut self, wake: &mut Option<Wake>) -> Result<Next, CallError> {
        let client = self.context.client.clone();
        let served = kube_api::served(&client).await?;
        if self.writers.is_empty() {
            self.writers = vec![kube_api::own_name(&client).await?];
        }
        let mut settings = self.settings(&served);
        if wake.as_ref().is_none_or(|wake| !wake.is_for(&served)) {
            let has_fleet = self.context.form.configuration.is_some();
            let home = (settings.namespace.as_str(), has_fleet);
            *wake = Some(Wake::new(&client, home, &served));
        }
        let named = render::registration(&self.context.injectors, &settings).objects;
        let ids: Vec<Id> = named.iter().filter_map(Id::of).collect();
        let observed = self.observe(&served, &ids, &settings).await?;
        settings.owner_uid = observed.owner_uid().map(str::to_owned);
        settings.namespace_uid = observed.owning_uid().map(str::to_owned);
        let wanted = render::registration(&self.context.injectors, &settings).objects;
        let proof = render::proof::of_reach(&settings);
        let force = policies::proof(&observed, &wanted).filter(|_| policies::are_wanted(&wanted));
        let mirror = mirrored::proof(&wanted);
        let progress = self.progress(&proof, force.as_deref(), mirror);
        let plan = plan::plan(&observed, &wanted, progress);
        self.note_plan(&plan);
        let mut next = self.note_glass(&observed, Instant::now() + RESYNC);
        let mut wrote = false;
        for action in plan.actions {
            match self.act(action, &observed).await? {
                None => wrote = true,
                Some(until) => next = next.min(until),
            }
        }
        if wrote {
            return Ok(Next::Now);
        }
        if let Some(since) = self.quiet_since.filter(|since| since.elapsed() < SETTLE) {
            next = next.min(since + SETTLE);
        }
        if observed.home != Home::Active {
            return Ok(Next::By(next));
        }
        let written = force.filter(|proof| policies::is_written(&observed, proof));
        let mirror = mirror.filter(|_| mirrored::is_written(&observed, &wanted));
        let proofs = (written.as_deref(), mirror);
        let Some(due) = self.prove(proofs, &settings.namespace).await else {
            return Ok(Next::Now);
        };
        next = next.min(due);
        let armed = self.note_armed(&observed, &wanted, written.as_deref());
        if self.try_to_be_reached(&observed, &wanted, &settings).await {
            return Ok(Next::Now);
        }
        if !self.reach.is_proven(&proof) {
            next = next.min(self.reach.due(&proof, Instant::now()));
        }
        let state = self.state(armed, &settings, &wanted);
        let narrowed = self.note_narrowed(&observed, &wanted);
        self.tell_state(state, &narrowed, &plan.hands_off);
        Ok(Next::By(next.min(self.tell_event(&observed).await)))
    }

    /// Looks at all that the plan depends on.
    async fn observe(
        &mut self,
        served: &BTreeSet<Kind>,
        ids: &[Id],
        settings: &Settings,
    ) -> Result<Observed, CallError> {
        let client = self.context.client.clone();
        let mut observed = observe::objects_of(&client, served, ids).await?;
        let (home, uid) = observe::home(&client, &settings.namespace).await?;
        observed.home = self.note_home(home);
        observed.home_uid = uid;
        let now = (self.context.form.certificates.clock)();
        observed.note_covered(settings.ca_bundle.as_deref(), now);
        self.look_at_fleet(&settings.namespace).await?;
        Ok(observed)
    }

    fn settings(&self, served: &BTreeSet<Kind>) -> Settings {
        let found = match served.contains(&Kind::MutatingPolicy) {
            true => MirrorForm::Policy,
            false => MirrorForm::Webhook,
        };
        let mut settings = Settings {
            failure_policy: FailurePolicy::Fail,
            mirror: self.context.form.mirror.unwrap_or(found),
            writers: self.writers.clone(),
            ..self.context.form.settings.clone()
        };
        if let Some(trust) = &*self.trust.borrow() {
            trust.enter(&mut settings);
        }
        settings
    }

    fn progress(&self, proof: &str, force: Option<&str>, mirror: Option<&str>) -> Progress {
        let has_settled =
            |of: &InForce, proof| of.settles(proof).is_some_and(|at| at <= Instant::now());
        Progress {
            in_force: force.is_some_and(|force| has_settled(&self.in_force, force)),
            mirror_in_force: mirror.is_none_or(|mirror| has_settled(&self.mirror, mirror)),
            now: wall_clock(),
            labelled: *self.labelled.borrow(),
            reached: self.reach.is_proven(proof),
            settled: self.is_settled(),
            replicas: self.replicas(),
        }
    }

    fn replicas(&self) -> Replicas {
        let fleet = self.fleet.as_ref();
        fleet.map_or(Replicas::Equal, Fleet::replicas)
    }

    /// Looks whether the serving replicas have this configuration, if it is known how they say so.
    async fn look_at_fleet(&mut self, namespace: &str) -> Result<(), CallError> {
        if let Some(configuration) = &self.context.form.configuration {
            let client = &self.context.client;
            self.fleet = Some(observe::fleet(client, namespace, configuration).await?);
        }
        Ok(())
    }

    /// Remembers how far the plan says that all is, and lets the labels of namespaces follow.
    fn note_plan(&mut self, plan: &Plan) {
        self.hold = plan.hold;
        if plan.mirrored {
            self.context.mirrored.send_replace(true);
        }
        let mut actions = plan.actions.iter();
        let is_quiet = actions.all(|one| matches!(one, Action::Delete { .. }));
        let is_equal = self.replicas() == Replicas::Equal;
        self.quiet_since = match is_quiet && self.armed && is_equal {
            true => self.quiet_since.or_else(|| Some(Instant::now())),
            false => None,
        };
        if self.is_settled() {
            self.context.in_force.send_replace(true);
        }
    }

    fn is_settled(&self) -> bool {
        let since = self.quiet_since;
        since.is_some_and(|since| since.elapsed() >= SETTLE)
    }

    /// Remembers that our namespace was deleted: somebody wants us gone, and it is not to come
    /// back by our own doing. Says what its state means for the plan.
    fn note_home(&mut self, home: Home) -> Home {
        let namespace = &self.context.form.settings.namespace;
        match home {
            Home::Terminating if !self.withdrawn => {
                tracing::warn!(
                    namespace,
                    "our namespace is being deleted: the registration goes with it"
                );
                let latch = &self.context.latch;
                latch.open_with("withdrawn: our namespace was deleted");
                self.context.metrics.registration_armed(false);
                self.withdrawn = true;
                self.armed = false;
                self.reach = Reach::default();
                self.mirror = InForce::default();
            }
            Home::Active if self.withdrawn => {
                tracing::info!(
                    namespace,
                    "our namespace is back: the registration is written again"
                );
                self.withdrawn = false;
            }
            Home::Missing if self.withdrawn => return Home::Withdrawn,
            Home::Missing if self.context.form.creates_home => return Home::Wanted,
            Home::Missing | Home::Wanted | Home::Active | Home::Terminating | Home::Withdrawn => {}
        }
        home
    }

    /// Does one write, unless it is too soon for it: then when it may be done.
    async fn act(
        &mut self,
        action: Action,
        observed: &Observed,
    ) -> Result<Option<Instant>, CallError> {
        let client = &self.context.client;
        let (id, what) = match &action {
            Action::CreateHome => {
                let namespace = &self.context.form.settings.namespace;
                act::create_home(client, namespace).await?;
                tracing::info!(namespace, "our namespace created");
                return Ok(None);
            }
            Action::Apply { id, .. } => (id, "written"),
            Action::Widen { id, .. } => (id, "widened"),
            Action::Mend { id, .. } => (id, "mended"),
            Action::Delete { id } => (id, "deleted"),
        };
        if let Turn::Wait { until, first } = self.pace.turn(id, Instant::now()) {
            if first {
                let others = managers(observed.objects.get(id));
                tracing::error!(
                    object = %id,
                    others,
                    "somebody keeps changing what meshgate writes: it is put back ever more slowly"
                );
                self.context.metrics.registration_contended();
            }
            return Ok(Some(until));
        }
        self.pace.wrote(id, Instant::now());
        match &action {
            Action::Apply { id, object } => act::apply(client, id, object).await?,
            Action::Widen { id, patch } => act::merge(client, id, patch).await?,
            Action::Mend { id, patch } => {
                act::merge(client, id, patch).await?;
                self.tell_mended(id, observed).await;
            }
            Action::Delete { id } => act::delete(client, id, observed.objects.get(id)).await?,
            Action::CreateHome => {}
        }
        tracing::info!(object = %id, "{what}");
        self.context
            .metrics
            .registration_written(id.kind.names().kind, what);
        Ok(None)
    }
}

/// Who else has written an object, by their field managers.
fn managers(object: Option<&Value>) -> String {
    let fields = object.and_then(|object| object["metadata"]["managedFields"].as_array());
    let names = fields.into_iter().flatten();
    let names = names.filter_map(|one| one["manager"].as_str());
    let others: BTreeSet<&str> = names.filter(|name| *name != kube_api::MANAGER).collect();
    others.into_iter().collect::<Vec<_>>().join(", ")
}
