//! What is noted of each decision: one counter, one histogram, and for refusals one log line, at
//! most one per owner and minute (case 69).

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::metrics::{DecisionLabels, Hook, NO_INJECTOR};
use meshgate_core::decision::Decision;
use meshgate_core::decision::reason::Reason;
use meshgate_core::text::one_line;
use meshgate_core::view::pod::PodView;

use super::request::Request;

pub(super) fn labels(hook: Hook, decision: &Decision<'_>, dry_run: bool) -> DecisionLabels {
    let injector = match decision.injector {
        Some(name) => Cow::Owned(name.to_owned()),
        None => Cow::Borrowed(NO_INJECTOR),
    };
    DecisionLabels {
        hook,
        decision: decision.verdict.as_str(),
        reason: decision.reason.as_str(),
        injector,
        dry_run,
    }
}

pub(super) fn bad_call_labels(hook: Hook) -> DecisionLabels {
    DecisionLabels {
        hook,
        decision: "bad_call",
        reason: Reason::BadRequest.as_str(),
        injector: Cow::Borrowed(NO_INJECTOR),
        dry_run: false,
    }
}

/// Longest name in a log line, in characters: the longest that Kubernetes takes. The gate sees names
/// before the API server has checked them, and they are remembered for a while.
const MAX_NAME: usize = 253;

fn name(text: &str) -> String {
    one_line(text, MAX_NAME)
}

/// A refusal as the log line has it, apart from the request and the view it was made from.
#[derive(Debug)]
pub(super) struct Refusal {
    labels: DecisionLabels,
    client: IpAddr,
    uid: String,
    namespace: String,
    pod: String,
    owner_kind: String,
    owner: String,
    message: String,
}

impl Refusal {
    /// `None` unless the decision refuses. `pod` is `None` if it could not be read.
    pub(super) fn of(
        labels: &DecisionLabels,
        client: IpAddr,
        request: &Request<'_>,
        pod: Option<&PodView<'_>>,
        decision: &Decision<'_>,
    ) -> Option<Self> {
        if decision.verdict.allows() {
            return None;
        }
        let owner = pod.and_then(PodView::owner);
        Some(Self {
            labels: labels.clone(),
            client,
            uid: name(request.uid()),
            namespace: name(request.namespace()),
            pod: name(pod.map(PodView::display_name).unwrap_or_default()),
            owner_kind: owner.map(|owner| name(&owner.kind)).unwrap_or_default(),
            owner: owner.map(|owner| name(&owner.name)).unwrap_or_default(),
            message: decision.message.clone(),
        })
    }

    /// Whose refusals have their lines together: those of the namespace, or of the client where it may have
    /// invented the namespace.
    fn group(&self) -> String {
        let before_rules = [
            Reason::NamespaceUnknown,
            Reason::NotSynced,
            Reason::DeadlineExceeded,
            Reason::UnreadableObject,
        ];
        if before_rules
            .iter()
            .any(|one| one.as_str() == self.labels.reason)
        {
            return format!("client {}", self.client);
        }
        self.namespace.clone()
    }

    /// What will be refused again: the owner, or the pod itself if it has none.
    fn who(&self) -> String {
        if self.owner.is_empty() {
            format!("{}/Pod/{}", self.namespace, self.pod)
        } else {
            format!("{}/{}/{}", self.namespace, self.owner_kind, self.owner)
        }
    }

    fn log(&self, suppressed: u64, view_age: Option<Duration>) {
        tracing::warn!(
            hook = self.labels.hook.as_str(),
            decision = self.labels.decision,
            reason = self.labels.reason,
            injector = &*self.labels.injector,
            namespace = self.namespace,
            pod = self.pod,
            owner_kind = self.owner_kind,
            owner = self.owner,
            uid = self.uid,
            client = %self.client,
            dry_run = self.labels.dry_run,
            suppressed,
            view_age_seconds = view_age.map(|age| age.as_secs()),
            "pod refused: {}",
            self.message
        );
    }
}

/// Keeps the log quiet: refused controllers try again and again.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// By group, and there by owner.
    groups: HashMap<String, HashMap<String, Owner>>,
    /// Owners in all of them.
    owners: usize,
    /// When those were last forgotten whose minute was over.
    swept: Option<Instant>,
    /// Refusals of owners for whom there was no room, since that was last said.
    beyond: u64,
    told: Option<Instant>,
}

#[derive(Debug)]
struct Owner {
    logged: Instant,
    suppressed: u64,
}

/// One line per owner in this time.
const QUIET: Duration = Duration::from_secs(60);
/// Owners that are remembered. Beyond them refusals are counted and not logged, but for the first owner of
/// a group.
const MOST_OWNERS: usize = 10_000;
/// The same for one group: a user who invents owners in one namespace hides no refusal in others.
const MOST_OF_GROUP: usize = 500;
/// Time between two looks through all of them: refusing must stay as cheap as admitting.
const SWEEP: Duration = Duration::from_secs(1);

impl RefusalLog {
    /// Logs a refusal, or counts it for the next line of the same owner. `view_age` is that of a view
    /// that follows an API server.
    pub(super) fn refused(&self, refusal: &Refusal, now: Instant, view_age: Option<Duration>) {
        if let Some(suppressed) = self.turn(refusal.group(), refusal.who(), now) {
            refusal.log(suppressed, view_age);
        }
        if let Some(refusals) = self.memory.lock().beyond(now) {
            tracing::warn!(
                refusals,
                "not logged, as more than {MOST_OF_GROUP} owners of one namespace or client, or {MOST_OWNERS} in \
                 all, were refused within a minute"
            );
        }
    }

    /// How many were suppressed since the last line, if it is time for one.
    fn turn(&self, group: String, who: String, now: Instant) -> Option<u64> {
        let mut memory = self.memory.lock();
        let known = memory.groups.get_mut(&group);
        if let Some(owner) = known.and_then(|owners| owners.get_mut(&who)) {
            if now.duration_since(owner.logged) < QUIET {
                owner.suppressed += 1;
                return None;
            }
            owner.logged = now;
            return Some(std::mem::take(&mut owner.suppressed));
        }
        if !memory.has_room(&group) {
            memory.sweep(now);
            if !memory.has_room(&group) {
                memory.beyond += 1;
                return None;
            }
        }
        let owner = Owner {
            logged: now,
            suppressed: 0,
        };
        memory.owners += 1;
        memory.groups.entry(group).or_default().insert(who, owner);
        Some(0)
    }
}

impl Memory {
    fn has_room(&self, group: &str) -> bool {
        let own = self.groups.get(group).map_or(0, HashMap::len);
        own < MOST_OF_GROUP && (own == 0 || self.owners < MOST_OWNERS)
    }

    /// How many were passed over, if there are any and it is time to say so.
    fn beyond(&mut self, now: Instant) -> Option<u64> {
        let is_due = |told: Instant| now.duration_since(told) >= QUIET;
        if self.beyond == 0 || !self.told.is_none_or(is_due) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.beyond))
    }

    fn sweep(&mut self, now: Instant) {
        let is_due = |swept: Instant| now.duration_since(swept) >= SWEEP;
        if self.swept.is_none_or(is_due) {
            self.swept = Some(now);
            self.groups.retain(|_, owners| {
                owners.retain(|_, owner| now.duration_since(owner.logged) < QUIET);
                !owners.is_empty()
            });
            self.owners = self.groups.values().map(HashMap::len).sum();
        }
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
