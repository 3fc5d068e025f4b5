//! Reports the [`Status`]: in the log when it is news, in `/readyz`, as metrics and as Events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::controllers::Context;
use crate::kube_api::event::{self, Event};
use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{CallError, MANAGER};
use crate::lifecycle::wall_clock;
use crate::metrics::gauge_of;
use meshgate_core::list::listed;
use meshgate_core::render::{CONFIGURATION, MirrorForm};

use super::observed::{Object, Observed};
use super::plan::Hold;
use super::proof::{self, Subject, Unproved};
use super::status::{EventThrottle, Grade, Line, Status};

pub(super) struct Reporter {
    context: Arc<Context>,
    /// What was logged last.
    logged: String,
    /// The last line that was known.
    line: Option<Line>,
    throttle: EventThrottle,
}

impl Reporter {
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            logged: String::new(),
            line: None,
            throttle: EventThrottle::default(),
        }
    }

    /// Reports a status. Returns when there is an Event to write, if nothing changes until then.
    pub(super) async fn report(&mut self, status: &Status, observed: &Observed) -> Option<Instant> {
        let metrics = &self.context.metrics.registration;
        metrics.armed.set(status.enforces.into());
        metrics.narrowed.set(gauge_of(status.narrowed.len()));
        metrics.refused.set(gauge_of(status.refused));
        if let Some(line) = &status.line {
            self.tell(line);
            self.line = Some(line.clone());
        }
        let line = self.line.as_ref()?;
        let now = Instant::now();
        if let Some(event) = self.throttle.news(line, now) {
            let gate = Id::new(Kind::MutatingWebhooks, CONFIGURATION);
            let live = observed.objects.get(&gate);
            self.event(&gate, live, &event).await;
        }
        self.throttle.due(now)
    }

    async fn event(&self, id: &Id, live: Option<&Object>, event: &Event) {
        let uid = live.and_then(|live| live.metadata.uid.as_deref());
        let recorded = event::record(&self.context.client, id, uid, event).await;
        if let Err(error) = recorded {
            tracing::warn!("cannot create Event {}: {error}", event.reason);
        }
    }

    /// Tells the line `registration`, and logs it if it is news.
    fn tell(&mut self, Line { text, grade }: &Line) {
        self.context.check.pass_with(text);
        if *grade == Grade::Unreached || self.logged == *text {
            return;
        }
        if *grade == Grade::Fine {
            tracing::info!("registration: {text}");
        } else {
            tracing::warn!("registration: {text}");
        }
        self.logged.clone_from(text);
    }

    /// Reports that a look failed.
    pub(super) fn failed(&mut self, error: &CallError) {
        let text = format!("cannot be kept, trying again: {error}");
        self.context.check.pass_with(&text);
        if self.logged != text {
            tracing::error!("registration: {text}");
            self.logged = text;
        }
    }

    /// Reports that the registration goes with meshgate's namespace.
    pub(super) fn withdrawn(&mut self) {
        self.tell(&Line {
            text: "withdrawn: meshgate's namespace is being deleted".to_owned(),
            grade: Grade::Wrong,
        });
        self.context.metrics.registration.armed.set(0);
    }

    /// Reports what dry runs have not proved.
    pub(super) fn unproved(&self, news: Vec<(Subject, Unproved)>, status: &Status, url: &str) {
        let armed = if status.is_complete || status.hold == Hold::AwaitRollout {
            "what is armed stays armed: pods that require an injector are REFUSED"
        } else {
            "NOT ARMED: pods that require an injector are let through"
        };
        for (subject, why) in news {
            if subject == Subject::Reach {
                tracing::error!(url, "{armed} until the API server reaches meshgate: {why}");
            } else {
                tracing::error!(
                    "it is not proved that {}: {why}",
                    proof::words(subject).proved
                );
            }
        }
    }

    /// Reports that the mirror is not what the flag asks for, if so.
    pub(super) fn mirror(&self, mirror: MirrorForm) {
        if mirror == MirrorForm::Webhook && self.context.form.mirror == Some(MirrorForm::Policy) {
            tracing::warn!(
                "this API server serves no MutatingAdmissionPolicy (Kubernetes 1.36 and later do): a webhook \
                 mirrors annotations of namespaces, in spite of --mirror=policy"
            );
        }
    }

    /// Reports an object that was not written because another client keeps changing it.
    pub(super) fn contended(&self, id: &Id, live: Option<&Object>) {
        let fields = live.and_then(|live| live.metadata.managed_fields.as_ref());
        let managers = fields.into_iter().flatten();
        let managers = managers.filter_map(|one| one.manager.as_deref());
        let others: BTreeSet<&str> = managers.filter(|name| *name != MANAGER).collect();
        tracing::error!(object = %id, others = listed(others), "another client keeps reverting meshgate's changes; backing off");
        self.context.metrics.registration.contended.inc();
    }

    /// Reports on which injectors enforcement is suspended. Returns when the first suspension ends.
    pub(super) fn suspensions(&self, observed: &Observed) -> Option<Instant> {
        let notes = || observed.suspended().map(|(_, note)| note);
        let subjects = notes().flat_map(|note| note.subjects());
        self.context.metrics.glass_broken(subjects);
        let now = wall_clock();
        // One that is over may stay for a while, where another client keeps writing it.
        let ends = notes().filter_map(|note| note.until);
        let end = ends.filter(|end| *end > now).min()?;
        let left = Duration::try_from(end.duration_since(now));
        // The wall clock may be set: each look reads it again.
        Instant::now().checked_add(left.unwrap_or_default())
    }

    /// Reports that enforcement is on again.
    pub(super) async fn resumed(&self, id: &Id, live: Option<&Object>) {
        let note = live.and_then(|live| live.note.as_ref());
        let why = match note {
            Some(note) if note.is_over(wall_clock()) => "the suspension has expired",
            Some(_) => "the suspension had no end within 24 hours",
            None => "entries were suspended without who and why",
        };
        let note = note.map(ToString::to_string).unwrap_or_default();
        tracing::warn!(object = %id, note, "enforcement resumed: {why}");
        let event = Event {
            reason: event::ENFORCEMENT_RESUMED,
            message: format!("{why}: {note}"),
            is_warning: false,
        };
        self.event(id, live, &event).await;
    }
}
