//! Reports the [`Status`]: in the log when it is news, in `/readyz`, as metrics and as Events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::controllers::Context;
use crate::kube_api::event::{self, Event};
use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{CallError, MANAGER, wall_clock};
use crate::render::CONFIGURATION;

use super::observed::{Object, Observed};
use super::plan::Hold;
use super::proof::{Subject, Unproved};
use super::status::{EventThrottle, Grade, Line, News, Status};

pub(super) struct Reporter {
    context: Arc<Context>,
    /// What was logged last.
    state: String,
    problem: String,
    /// The last line that was known.
    line: Option<Line>,
    throttle: EventThrottle,
}

impl Reporter {
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            state: String::new(),
            problem: String::new(),
            line: None,
            throttle: EventThrottle::default(),
        }
    }

    /// Reports a status. Returns when there is an Event to write, if nothing changes until then.
    pub(super) async fn report(&mut self, status: &Status, observed: &Observed) -> Option<Instant> {
        let metrics = &self.context.metrics;
        metrics.registration_armed(status.enforces);
        metrics.registration_narrowed(status.narrowed);
        if let Some(line) = &status.line {
            self.context.latch.open_with(&line.text);
            if line.grade != Grade::Unreached && self.state != line.text {
                if line.grade == Grade::Wrong {
                    tracing::warn!("registration: {}", line.text);
                } else {
                    tracing::info!("registration: {}", line.text);
                }
                self.state.clone_from(&line.text);
            }
            self.line = Some(line.clone());
        }
        let line = self.line.as_ref()?;
        let now = Instant::now();
        if let Some(news) = self.throttle.news(line, now) {
            let event = Event {
                reason: match news {
                    News::Wrong => event::NOT_AS_WANTED,
                    News::Right => event::AS_WANTED,
                },
                message: line.text.clone(),
                is_warning: news == News::Wrong,
            };
            let gate = Id {
                kind: Kind::MutatingWebhooks,
                name: CONFIGURATION.to_owned(),
            };
            let live = observed.objects.get(&gate);
            self.event(&gate, live, &event).await;
        }
        self.throttle.due(now)
    }

    async fn event(&self, id: &Id, live: Option<&Object>, event: &Event) {
        let live = live.map(Object::to_value);
        let recorded = event::record(&self.context.client, (id, live.as_ref()), event).await;
        if let Err(error) = recorded {
            tracing::warn!("cannot create Event {}: {error}", event.reason);
        }
    }

    /// Reports that a look failed.
    pub(super) fn failed(&mut self, error: &CallError) {
        let problem = error.to_string();
        if self.problem != problem {
            tracing::error!("the registration cannot be kept: {problem}; trying again");
            let latch = &self.context.latch;
            latch.open_with(format!("cannot be kept: {problem}"));
            self.problem = problem;
        }
    }

    /// Notes that a look did not fail.
    pub(super) fn looked(&mut self) {
        self.problem.clear();
    }

    /// Reports what dry runs have not proved.
    pub(super) fn unproved(&self, news: Vec<(Subject, Unproved)>, status: &Status, url: &str) {
        for (subject, why) in news {
            let refuses = status.is_complete || status.hold == Hold::AwaitRollout;
            match subject {
                Subject::Reach if refuses => tracing::error!(
                    url,
                    "what is armed stays armed: pods that require an injector are REFUSED until the API \
                     server reaches meshgate: {why}"
                ),
                Subject::Reach => tracing::error!(
                    url,
                    "NOT ARMED: pods that require an injector are let through until the API server reaches \
                     meshgate: {why}"
                ),
                Subject::Check => {
                    tracing::error!("it is not known whether the policies are in force: {why}");
                }
                Subject::Mirror => tracing::error!(
                    "it is not known whether the mirror of namespaces' annotations is in force: {why}; \
                     where the admission plugin MutatingAdmissionPolicy is off, use --mirror=webhook"
                ),
            }
        }
    }

    /// Reports what is proved.
    pub(super) fn proved(subject: Subject, url: &str) {
        match subject {
            Subject::Reach => tracing::info!(url, "the API server has reached meshgate"),
            Subject::Check => tracing::info!("the policies are in force"),
            Subject::Mirror => tracing::info!("the mirror of namespaces' annotations is in force"),
        }
    }

    /// Reports that the registration goes with our namespace.
    pub(super) fn withdrawn(&self) {
        let namespace = &self.context.form.settings.namespace;
        tracing::warn!(
            namespace,
            "meshgate's namespace is being deleted: the registration goes with it"
        );
        let latch = &self.context.latch;
        latch.open_with("withdrawn: meshgate's namespace was deleted");
        self.context.metrics.registration_armed(false);
    }

    /// Reports an object that was not written because another client keeps changing it.
    pub(super) fn contended(&self, id: &Id, live: Option<&Object>) {
        let fields = live.and_then(|live| live.metadata.managed_fields.as_ref());
        let managers = fields.into_iter().flatten();
        let managers = managers.filter_map(|one| one.manager.as_deref());
        let others: BTreeSet<&str> = managers.filter(|name| *name != MANAGER).collect();
        let others = others.into_iter().collect::<Vec<_>>().join(", ");
        tracing::error!(object = %id, others, "another client keeps reverting meshgate's changes; backing off");
        self.context.metrics.registration_contended();
    }

    /// Reports on which injectors enforcement is suspended. Returns when the first suspension ends.
    pub(super) fn suspensions(&self, observed: &Observed) -> Option<Instant> {
        let notes = || observed.suspended().map(|(_, note)| note);
        let subjects = notes().flat_map(|note| note.subjects());
        self.context.metrics.glass_broken(subjects);
        let end = notes().filter_map(|note| note.until).min()?;
        let left = Duration::try_from(end.duration_since(wall_clock()));
        // The wall clock may be set: each look reads it again.
        Instant::now().checked_add(left.unwrap_or_default())
    }

    /// Reports that enforcement is on again.
    pub(super) async fn resumed(&self, id: &Id, live: Option<&Object>) {
        let note = live.and_then(|live| live.note.as_ref());
        let note = note.map(ToString::to_string).unwrap_or_default();
        tracing::warn!(object = %id, note, "enforcement resumed: the suspension has expired");
        let event = Event {
            reason: "EnforcementResumed",
            message: format!("the suspension has expired: {note}"),
            is_warning: false,
        };
        self.event(id, live, &event).await;
    }
}
