//! What the keeper says of itself: in the log when it is news, in the readiness, as metrics.

use std::time::Instant;

use serde_json::Value;

use crate::controllers::pace::doubled;
use crate::break_glass;
use crate::injector::profile::Mode;
use crate::kube_api::CallError;
use crate::kube_api::event::{self, Event};
use crate::kube_api::kind::{Id, Kind};
use crate::render::{self, CONFIGURATION, Enforcement, MIRROR, Settings};

use super::bulletin::News;
use super::fleet::Fleet;
use super::narrowed::{self, Narrowed};
use super::plan::{Hold, Observed};
use super::{FIRST_PAUSE, Keeper, LONGEST_PAUSE, RESYNC, entries, mirrored, policies};

impl Keeper {
    /// Says what went wrong, if that is news, and when to try again.
    pub(super) fn failed(&mut self, error: &CallError) -> Instant {
        self.failures += 1;
        let problem = error.to_string();
        if self.told_problem != problem {
            tracing::error!("the registration cannot be kept: {problem}; trying again");
            self.context
                .latch
                .open_with(format!("cannot be kept: {problem}"));
            self.told_problem = problem;
        }
        let pause = doubled(FIRST_PAUSE, self.failures - 1);
        Instant::now() + pause.min(LONGEST_PAUSE)
    }

    /// Notes whether all is armed that is to be. Says how many entries are, of how many.
    pub(super) fn note_armed(
        &mut self,
        observed: &Observed,
        wanted: &[Value],
        force: Option<&str>,
    ) -> (usize, usize) {
        let counted = wanted.iter().filter_map(|object| {
            let live = Id::of(object).and_then(|id| observed.objects.get(&id));
            Some(entries::armed(object, live)).filter(|(_, all)| *all > 0)
        });
        let (armed, all) = counted.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        let mut ids = wanted.iter().filter_map(Id::of);
        let is_proved = force.is_some_and(|proof| self.in_force.is_proved(proof));
        let is_guaranteed = is_proved || !policies::are_wanted(wanted);
        let is_complete = ids.all(|id| observed.objects.contains_key(&id));
        self.armed = armed == all && is_complete && is_guaranteed;
        // Until policies are in force, webhooks stay as they are.
        let by_others = !is_guaranteed && policies::are_webhooks_armed(observed);
        let enforces = (self.armed || by_others) && self.is_to_enforce();
        self.context.metrics.registration_armed(enforces);
        (armed, all)
    }

    /// Whether there is an injector without which a pod is to be refused.
    fn is_to_enforce(&self) -> bool {
        let mut injectors = self.context.injectors.iter();
        injectors.any(|one| one.is_looked_at() && one.profile.mode == Mode::Enforce)
    }

    /// Notes which entries somebody has narrowed.
    pub(super) fn note_narrowed(&self, observed: &Observed, wanted: &[Value]) -> Vec<Narrowed> {
        let narrowed: Vec<Narrowed> = match self.hold == Hold::Another {
            // What is live was written for another configuration.
            true => Vec::new(),
            false => wanted
                .iter()
                .filter_map(|object| Some((object, observed.objects.get(&Id::of(object)?)?)))
                // What the command does to it is told as broken glass.
                .filter(|(_, live)| break_glass::of(live).is_none_or(|note| note.until.is_none()))
                .flat_map(|(object, live)| narrowed::narrowed(object, live))
                .collect(),
        };
        self.context.metrics.registration_narrowed(narrowed.len());
        narrowed
    }

    /// How far it is: what is armed, if anything is to be. `None` while it is not known, and then
    /// others say for what it waits.
    pub(super) fn state(
        &self,
        (armed, all): (usize, usize),
        settings: &Settings,
        wanted: &[Value],
    ) -> Option<(String, bool)> {
        if self.hold == Hold::First {
            let why = "nothing is written before a serving replica is ready";
            return Some((why.to_owned(), false));
        }
        if self.hold == Hold::Another && self.reach.is_proven(&render::proof::of_reach(settings)) {
            let why = "armed for another configuration, until all serving replicas have this one";
            return Some((why.to_owned(), false));
        }
        let counted = format!("armed: {armed} of {all} entries");
        let is_policy = settings.enforcement == Enforcement::Policy;
        if !self.is_to_enforce() {
            let why = "nothing enforces: no injector is in mode enforce";
            return Some((format!("{why} ({counted})"), false));
        }
        if is_policy {
            return Some(match self.armed {
                true => (format!("the policy enforces ({counted})"), false),
                false => ("the policy is not in force (yet)".to_owned(), true),
            });
        }
        if self.reach.is_proven(&render::proof::of_reach(settings)) {
            let is_mirrored =
                mirrored::proof(wanted).is_none_or(|proof| self.mirror.is_proved(proof));
            if armed == all && !is_mirrored {
                let why = format!(
                    "the API server does not use the mirror {MIRROR} as it is now (yet), so labels of new \
                     namespaces come late; {armed} of {all} entries are armed"
                );
                return Some((why, self.mirror.is_late()));
            }
            return Some((counted, armed < all));
        }
        let is_labelled = *self.labelled.borrow();
        let waiting = "waiting for the labels of existing namespaces".to_owned();
        (!is_labelled && self.hold == Hold::None).then_some((waiting, false))
    }

    /// Says how far the registration is, and what keeps it from being as it is wanted, if that is
    /// news.
    pub(super) fn tell_state(
        &mut self,
        state: Option<(String, bool)>,
        narrowed: &[Narrowed],
        hands_off: &[Id],
    ) {
        let listed = |items: Vec<String>| (!items.is_empty()).then(|| items.join(", "));
        let hands_off = listed(hands_off.iter().map(ToString::to_string).collect());
        let narrowed = listed(narrowed.iter().map(ToString::to_string).collect());
        let unlabelled = *self.unlabelled.borrow();
        let but = [
            hands_off.map(|names| format!("left alone by a break-glass annotation: {names}")),
            narrowed.map(|names| format!("asked about fewer pods than wanted: {names}")),
            (unlabelled > 0).then(|| format!("{unlabelled} namespaces without their label")),
        ];
        let mut but: Vec<String> = but.into_iter().flatten().collect();
        let is_kept_back = !but.is_empty();
        // That is what a rollout looks like: nothing to warn of.
        let remark = self.fleet.as_ref().and_then(Fleet::remark);
        but.extend(remark.map(|remark| remark.to_string()));
        match state {
            Some((state, is_bad)) => {
                let is_bad = is_bad || is_kept_back;
                self.tell([vec![state], but].concat().join("; "), is_bad);
            }
            None if self.unreached.is_empty() => {}
            // That was told when it was found out.
            None => {
                let state = [vec![self.unreached.clone()], but].concat().join("; ");
                self.said = Some((state.clone(), true));
                self.context.latch.open_with(state);
            }
        }
    }

    /// Tells what is wrong as an Event about the configuration, if that is news. Says when to look for more.
    pub(super) async fn tell_event(&mut self, observed: &Observed) -> Instant {
        let now = Instant::now();
        let Some((state, is_wrong)) = self.said.clone() else {
            return now + RESYNC;
        };
        if let Some(news) = self.bulletin.news(&state, is_wrong, now) {
            let id = Id {
                kind: Kind::MutatingWebhooks,
                name: CONFIGURATION.to_owned(),
            };
            let event = Event {
                reason: match news {
                    News::Wrong => event::NOT_AS_WANTED,
                    News::Right => event::AS_WANTED,
                },
                message: state,
                is_warning: news == News::Wrong,
            };
            let live = observed.objects.get(&id);
            if let Err(error) = event::record(&self.context.client, (&id, live), &event).await {
                tracing::warn!("no Event tells of the registration: {error}");
            }
        }
        self.bulletin.due(now).unwrap_or(now + RESYNC)
    }

    fn tell(&mut self, state: String, is_bad: bool) {
        self.said = Some((state.clone(), is_bad));
        self.context.latch.open_with(&state);
        if self.told == state {
            return;
        }
        match is_bad {
            true => tracing::warn!("registration: {state}"),
            false => tracing::info!("registration: {state}"),
        }
        self.told = state;
    }
}

/// Where the API server is to call us.
pub(super) fn url(settings: &Settings) -> String {
    match &settings.client {
        render::Client::Url(url) => url.clone(),
        render::Client::Service {
            namespace,
            name,
            port,
        } => format!("https://{name}.{namespace}.svc:{port}"),
    }
}
