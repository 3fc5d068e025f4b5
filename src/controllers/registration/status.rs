//! How the registration is, computed once per look: the log, `/readyz`, metrics and Events report it.
//! Pure: the clock is passed in.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::kube_api::event::{AS_WANTED, Event, NOT_AS_WANTED};
use crate::kube_api::kind::Id;
use meshgate_core::list::listed;
use meshgate_core::render::{Client, Enforcement, MIRROR, Settings};

use super::entries;
use super::foreign_conditions::{contains, narrowed};
use super::observed::{Entry, Fleet, Object, Observed};
use super::plan::{Hold, Plan};
use super::proof::{Proofs, Subject, are_policies_wanted, is_check};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// `None` while it is not known, between the first write and the first dry run.
    pub(super) line: Option<Line>,
    /// All that is to be armed is armed, and the rest is there.
    pub(super) is_complete: bool,
    /// Pods that require an injector are refused, also while meshgate cannot be called.
    pub(super) enforces: bool,
    /// How many policies and bindings that refuse pods an administrator has suspended.
    pub(super) suspended: usize,
    /// What is asked about fewer pods than wanted.
    pub(super) narrowed: Vec<String>,
    /// How many objects the API server refused to write.
    pub(super) refused: usize,
    pub(super) hold: Hold,
}

/// The line `registration` of `/readyz?verbose`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) grade: Grade,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grade {
    Fine,
    /// An administrator should look.
    Wrong,
    /// The same; the dry run that failed has been logged.
    Unreached,
}

/// One look at the cluster, and what it calls for.
pub(super) struct Look {
    pub(super) observed: Observed,
    pub(super) settings: Settings,
    pub(super) wanted: Vec<Object>,
    pub(super) plan: Plan,
}

/// What a status is computed from.
pub(super) struct Facts<'f> {
    pub(super) look: &'f Look,
    pub(super) proofs: &'f Proofs,
    /// There is an injector in mode `enforce`.
    pub(super) is_to_enforce: bool,
    /// Existing namespaces have their labels, and so many could not be labelled.
    pub(super) labelled: bool,
    pub(super) unlabelled: usize,
    /// What the API server refused to write, and how it said so.
    pub(super) refused: &'f BTreeMap<Id, String>,
}

impl Facts<'_> {
    pub(super) fn status(&self) -> Status {
        let Look {
            observed, wanted, ..
        } = self.look;
        let counts = wanted
            .iter()
            .map(|one| entries::armed(one, observed.live(one)));
        let (armed, all) = counts.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        let is_there = wanted.iter().all(|one| observed.live(one).is_some());
        let is_proved = self.proofs.of(Subject::Check).is_proved();
        let is_guaranteed = is_proved || !are_policies_wanted(wanted);
        let is_complete = armed == all && is_there && is_guaranteed;
        // Until policies are in force, webhooks stay as they are; a suspended one refuses nothing.
        let by_webhooks = !is_guaranteed && entries::has_armed(observed, Entry::is_armed);
        // Suspended bindings are proved too, as they are: they refuse nothing.
        let is_suspended = |one: &&Object| {
            let live = observed.live(one).filter(|live| live.note.is_some());
            is_check(&one.id) && live.is_some_and(|live| !contains(live, one))
        };
        let suspended = wanted.iter().filter(is_suspended).count();
        // Narrowed entries are not counted as armed; policies are not counted.
        let narrowed = self.narrowed();
        let is_off = suspended > 0 || narrowed.iter().any(|(one, _)| one.spec.is_some());
        let mut status = Status {
            line: None,
            is_complete,
            enforces: (is_complete || by_webhooks) && self.is_to_enforce && !is_off,
            suspended,
            narrowed: narrowed.into_iter().map(|(_, text)| text).collect(),
            refused: self.refused.len(),
            hold: self.look.plan.hold,
        };
        status.line = self.line(armed, all, &status);
        status
    }

    fn narrowed(&self) -> Vec<(&Object, String)> {
        // Then entries in the cluster were written for another configuration.
        if self.look.plan.hold == Hold::AwaitRollout {
            return Vec::new();
        }
        let pairs = self.look.wanted.iter();
        let pairs = pairs.filter_map(|wanted| Some((wanted, self.look.observed.live(wanted)?)));
        // What `break-glass` adds is reported as a suspension.
        let is_suspended = |live: &Object| live.note.as_ref().is_some_and(|n| n.until.is_some());
        let pairs = pairs.filter(|(_, live)| !is_suspended(live));
        let of_one = |(wanted, live)| {
            let texts = narrowed(wanted, live).into_iter();
            texts.map(move |text| (wanted, text))
        };
        pairs.flat_map(of_one).collect()
    }

    fn line(&self, armed: usize, all: usize, status: &Status) -> Option<Line> {
        let (state, mut grade) = self.state(armed, all, status)?;
        let mut parts = vec![state];
        let hands_off = &self.look.plan.hands_off;
        if !hands_off.is_empty() {
            let hands_off = listed(hands_off);
            parts.push(format!(
                "left alone by a break-glass annotation: {hands_off}"
            ));
        }
        if !status.narrowed.is_empty() {
            let narrowed = listed(&status.narrowed);
            parts.push(format!("asked about fewer pods than wanted: {narrowed}"));
        }
        if self.unlabelled > 0 {
            let count = self.unlabelled;
            parts.push(format!("{count} namespaces without their label"));
        }
        if !self.refused.is_empty() {
            let refused = listed(self.refused.values());
            parts.push(format!(
                "the API server refuses writes: do them, or change the ClusterRole meshgate-control or the policy that \
                 refuses them: {refused}"
            ));
        }
        if parts.len() > 1 && grade == Grade::Fine {
            grade = Grade::Wrong;
        }
        // A rollout looks like this: no reason for a warning.
        parts.extend(self.look.observed.fleet.as_ref().and_then(Fleet::remark));
        let text = parts.join("; ");
        Some(Line { text, grade })
    }

    /// What is armed, if anything is to be; `None` while that is not known.
    fn state(&self, armed: usize, all: usize, status: &Status) -> Option<(String, Grade)> {
        let counted = format!("armed: {armed} of {all} entries");
        let is_reached = self.proofs.of(Subject::Reach).is_proved();
        let mirror = self.proofs.of(Subject::Mirror);
        let is_mirrored = mirror.is_proved() || !mirror.is_wanted();
        let is_policy = self.look.settings.enforcement == Enforcement::Policy;
        let (text, is_wrong) = if status.hold == Hold::AwaitReplicas {
            let text = "nothing is written before a serving replica is ready";
            (text.to_owned(), false)
        } else if status.hold == Hold::AwaitRollout && is_reached {
            let text = "armed for another configuration, until all serving replicas have this one";
            (text.to_owned(), false)
        } else if !self.is_to_enforce {
            let text = "nothing enforces: no injector is in mode enforce";
            (format!("{text} ({counted})"), false)
        } else if is_policy && status.suspended > 0 {
            (
                format!("break-glass suspends enforcement, at least in part ({counted})"),
                true,
            )
        } else if is_policy && status.is_complete {
            (format!("the policy enforces ({counted})"), false)
        } else if is_policy {
            ("the policy is not in force (yet)".to_owned(), true)
        } else if is_reached && armed == all && !is_mirrored {
            let text = format!(
                "the API server does not use the mirror {MIRROR} as it is now (yet), so labels of new \
                 namespaces come late; {armed} of {all} entries are armed"
            );
            (text, mirror.is_late())
        } else if is_reached {
            (counted, armed < all)
        } else if !self.labelled && status.hold == Hold::Nothing {
            let text = "waiting for the labels of existing namespaces";
            (text.to_owned(), false)
        } else {
            let why = self.proofs.of(Subject::Reach).failure()?;
            let url = url(&self.look.settings);
            return Some((format!("not reached at {url}: {why}"), Grade::Unreached));
        };
        Some((text, if is_wrong { Grade::Wrong } else { Grade::Fine }))
    }
}

/// Where the API server is to call meshgate.
pub(super) fn url(settings: &Settings) -> String {
    match &settings.client {
        Client::Url(url) => url.clone(),
        Client::Service {
            namespace,
            name,
            port,
        } => format!("https://{name}.{namespace}.svc:{port}"),
    }
}

/// What is wrong for this long is told by an Event: at the start much is on its way.
const PATIENCE: Duration = Duration::from_secs(10);
/// What stays wrong is told again: the API server keeps Events for an hour.
const REMINDER: Duration = Duration::from_secs(15 * 60);
/// At most one Event in this time, even if the state changes.
const PAUSE: Duration = Duration::from_secs(30);

/// Which states are told by Events.
#[derive(Debug, Default)]
pub(super) struct EventThrottle {
    wrong_since: Option<Instant>,
    told: Option<(String, Instant)>,
}

impl EventThrottle {
    /// The Event to write, if one is due: of what is wrong, or was told to be and is so no longer.
    pub(super) fn news(&mut self, line: &Line, now: Instant) -> Option<Event> {
        let about = |reason, is_warning| Event {
            reason,
            message: line.text.clone(),
            is_warning,
        };
        if line.grade == Grade::Fine {
            self.wrong_since = None;
            return self.told.take().map(|_| about(AS_WANTED, false));
        }
        let since = *self.wrong_since.get_or_insert(now);
        if now.duration_since(since) < PATIENCE {
            return None;
        }
        if let Some((told, at)) = &self.told {
            let pause = if *told == line.text { REMINDER } else { PAUSE };
            if now.duration_since(*at) < pause {
                return None;
            }
        }
        self.told = Some((line.text.clone(), now));
        Some(about(NOT_AS_WANTED, true))
    }

    /// When there is news, if nothing changes until then.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let since = self.wrong_since?;
        Some(match &self.told {
            None => since + PATIENCE,
            Some((_, at)) => (*at + REMINDER).max(now + PAUSE),
        })
    }
}
