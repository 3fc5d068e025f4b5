//! What dry runs prove: that the API server reaches meshgate, and that it uses policies as they were written.
//! Pure: the clock is passed in, and [`super::calls`] asks.
//!
//! Each [`Subject`] is proved alike. meshgate asks for a dry run of a ConfigMap with the label of the subject, which
//! nothing but one entry or policy of ours matches. The answer shows a *proof*, a hash of what is to be
//! proved: so an older version, still in a cache of the API server, proves nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use serde_json::json;

use crate::kube_api::backoff::doubling;
use crate::kube_api::kind::{Id, Kind};
use meshgate_core::render::{
    self, CHECK_PROOF, MIRROR, MIRROR_PROOF, POLICIES, REACH_ENTRY, Settings, proof,
};

pub(super) use meshgate_core::render::proof::Subject;

use super::foreign_conditions::contains;
use super::observed::{Object, Observed};

/// How long a thing has to be there before what it replaces goes: API servers beside the one that was
/// asked take up policies and webhooks from caches of their own.
pub(super) const SETTLE: Duration = Duration::from_secs(5);
/// Pause where the API server may only not have taken it up yet, for so many tries.
const CACHE_PAUSE: Duration = Duration::from_millis(100);
const CACHE_TRIES: u32 = 10;
/// After these.
const BACKOFF: ExponentialBuilder = doubling(Duration::from_millis(500), LONGEST);
const LONGEST: Duration = Duration::from_secs(5);
/// A failure is reported after this time, since an API server takes up policies within a second or
/// two; and again after the other, while it lasts.
const PATIENCE: Duration = Duration::from_secs(5);
const REMINDER: Duration = Duration::from_secs(60);

/// What a subject is called.
pub(super) struct Words {
    /// What shows the proof.
    pub(super) what: &'static str,
    /// What is so once it is shown.
    pub(super) proved: &'static str,
}

pub(super) fn words(subject: Subject) -> Words {
    match subject {
        Subject::Check => Words {
            what: "the policies of the check as they are now",
            proved: "the policies are in force",
        },
        Subject::Mirror => Words {
            what: "the mirror of namespaces' annotations as it is now; where its admission plugin \
                   MutatingAdmissionPolicy is off, --mirror=webhook does the same",
            proved: "the mirror of namespaces' annotations is in force",
        },
        Subject::Reach => Words {
            what: "the entry reach.meshgate.io as it is now",
            proved: "the API server has reached meshgate",
        },
    }
}

/// The annotations of what would have been created, or why it was refused.
pub(super) type Answer = Result<BTreeMap<String, String>, String>;

/// Why nothing is proved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unproved {
    /// The dry run came back without the proof, or with another one.
    #[error("the API server does not use (yet) {0}")]
    NotYet(&'static str),
    /// The API server refused the dry run for another reason, or did not answer.
    #[error("{0}")]
    Failed(String),
}

/// The proofs of all subjects.
#[derive(Debug, Default)]
pub(super) struct Proofs([Proof; 3]);

impl Proofs {
    pub(super) fn of(&self, subject: Subject) -> &Proof {
        &self.0[subject as usize]
    }

    pub(super) fn of_mut(&mut self, subject: Subject) -> &mut Proof {
        &mut self.0[subject as usize]
    }

    /// Why subjects are not proved, where that is to be reported.
    pub(super) fn take_news(&mut self) -> Vec<(Subject, Unproved)> {
        let news = |subject| Some((subject, self.of_mut(subject).news.take()?));
        Subject::ALL.into_iter().filter_map(news).collect()
    }

    /// Notes what is to be proved now.
    pub(super) fn turn_to(&mut self, observed: &Observed, wanted: &[Object], settings: &Settings) {
        let is_as_wanted = |one: &Object| {
            let live = observed.live(one);
            let pair = live.zip(proving(one, observed, wanted));
            pair.is_some_and(|(live, one)| live.note.is_some() || contains(live, &one))
        };
        let are_written = |names: &[&str]| {
            let mut own = wanted.iter();
            own.all(|one| !names.contains(&one.id.name.as_str()) || is_as_wanted(one))
        };
        let check = policies(observed, wanted).filter(|_| are_policies_wanted(wanted));
        let check_is_written = are_written(&[CHECK_PROOF]);
        self.of_mut(Subject::Check).turn_to(check, check_is_written);
        let mirror = mirror(wanted).map(str::to_owned);
        let mirror_is_written = are_written(&[MIRROR, MIRROR_PROOF]);
        self.of_mut(Subject::Mirror)
            .turn_to(mirror, mirror_is_written);
        let reach = Some(proof::of_reach(settings));
        let reach_is_written = is_reach_written(observed, wanted);
        self.of_mut(Subject::Reach).turn_to(reach, reach_is_written);
    }
}

/// What was proved of a subject, and when to try again.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// What is to be proved; `None` if there is nothing (yet).
    wanted: Option<String>,
    /// It can be tried: the API server holds what shows the proof.
    is_written: bool,
    proved: Option<(String, Instant)>,
    /// The first failure, and all since.
    since: Option<Instant>,
    /// Tries that the cache may explain.
    cache_tries: u32,
    pauses: Option<ExponentialBackoff>,
    due: Option<Instant>,
    failure: Option<Unproved>,
    told: Option<(Unproved, Instant)>,
    /// What is to be reported.
    news: Option<Unproved>,
}

impl Proof {
    /// Another proof is tried at once, and reported anew.
    pub(super) fn turn_to(&mut self, wanted: Option<String>, is_written: bool) {
        if self.wanted != wanted {
            *self = Self {
                proved: self.proved.take(),
                wanted,
                ..Self::default()
            };
        }
        self.is_written = is_written;
    }

    /// Whether there is something to prove.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    pub(super) fn is_proved(&self) -> bool {
        self.proved_at().is_some()
    }

    fn proved_at(&self) -> Option<Instant> {
        let (own, at) = self.proved.as_ref()?;
        (self.wanted.as_ref() == Some(own)).then_some(*at)
    }

    /// Whether the other API servers have had time to take it up as well.
    pub(super) fn has_settled(&self, now: Instant) -> bool {
        self.proved_at().is_some_and(|at| at + SETTLE <= now)
    }

    /// When there is something to do; `None` if that is not known.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        match self.proved_at() {
            Some(at) => Some(at + SETTLE).filter(|settles| *settles > now),
            None if self.is_written && self.is_wanted() => Some(self.due.unwrap_or(now)),
            None => None,
        }
    }

    /// Whether a dry run is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.is_proved() && self.due(now).is_some_and(|due| due <= now)
    }

    /// Why it was not proved at the last try.
    pub(super) fn failure(&self) -> Option<&Unproved> {
        self.failure.as_ref()
    }

    /// Whether it takes longer than it should.
    pub(super) fn is_late(&self) -> bool {
        self.told.is_some()
    }

    /// Takes the answer to a dry run. True if that is the proof.
    pub(super) fn answered(&mut self, subject: Subject, answer: Answer, now: Instant) -> bool {
        let wanted = self.wanted.clone().unwrap_or_default();
        let why = match subject.is_proved(answer, &wanted) {
            Ok(true) => {
                *self = Self {
                    proved: Some((wanted.clone(), now)),
                    wanted: Some(wanted),
                    is_written: true,
                    ..Self::default()
                };
                return true;
            }
            Ok(false) => Unproved::NotYet(words(subject).what),
            Err(said) => Unproved::Failed(said),
        };
        // That meshgate is not reached is told before the API server has had time.
        let is_urgent = subject == Subject::Reach && matches!(why, Unproved::Failed(_));
        self.failed(why, is_urgent, now);
        false
    }

    fn failed(&mut self, why: Unproved, is_urgent: bool, now: Instant) {
        let pause = if matches!(why, Unproved::NotYet(_)) && self.cache_tries < CACHE_TRIES {
            self.cache_tries += 1;
            CACHE_PAUSE
        } else {
            let pauses = self.pauses.get_or_insert_with(|| BACKOFF.build());
            pauses.next().unwrap_or(LONGEST)
        };
        self.due = Some(now + pause);
        let since = *self.since.get_or_insert(now);
        let is_early = now.duration_since(since) < PATIENCE && !is_urgent;
        let told = self.told.as_ref();
        let is_told =
            told.is_some_and(|(told, at)| *told == why && now.duration_since(*at) < REMINDER);
        self.failure = Some(why.clone());
        if !is_early && !is_told {
            self.told = Some((why.clone(), now));
            self.news = Some(why);
        }
    }
}

/// Whether policies are to make the guarantee.
pub(super) fn are_policies_wanted(wanted: &[Object]) -> bool {
    wanted.iter().any(is_policy_of_proof)
}

/// Whether this is the policy that proves the others.
fn is_policy_of_proof(object: &Object) -> bool {
    object.id.kind == Kind::ValidatingPolicy && object.id.name == CHECK_PROOF
}

/// Whether this is a policy or a binding that is the check of an injector.
pub(super) fn is_check(id: &Id) -> bool {
    let kinds = [Kind::ValidatingPolicy, Kind::ValidatingPolicyBinding];
    kinds.contains(&id.kind) && id.name.ends_with(POLICIES)
}

/// The object with what it is to prove; `None` if that is not there yet.
pub(super) fn proving(object: &Object, observed: &Observed, wanted: &[Object]) -> Option<Object> {
    if !is_policy_of_proof(object) {
        return Some(object.clone());
    }
    let mut value = object.to_value();
    proof::refuse_with(&mut value, &policies(observed, wanted)?);
    Object::parse(value).ok()
}

/// The proof of all wanted policies as they are now; `None` while one of them is not written, or not as
/// it is wanted. One with a break-glass annotation is as it is to be.
pub(super) fn policies(observed: &Observed, wanted: &[Object]) -> Option<String> {
    let mut facts = Vec::new();
    for object in wanted.iter().filter(|object| is_check(&object.id)) {
        let live = observed.live(object)?;
        if live.note.is_none() && !contains(live, object) {
            return None;
        }
        let metadata = &live.metadata;
        let id = object.id.to_string();
        facts.push(json!([id, metadata.uid, metadata.generation]).to_string());
    }
    Some(render::hash(&facts.join("\n")))
}

/// The proof of the wanted mirror; `None` if that is no policy, or there is none. A pod that follows its
/// new namespace before the mirror is in force might bypass both webhooks, so nothing is called
/// armed before.
fn mirror(wanted: &[Object]) -> Option<&str> {
    let is_proof =
        |one: &&Object| one.id.kind == Kind::MutatingPolicy && one.id.name == MIRROR_PROOF;
    wanted.iter().find(is_proof)?.annotation(proof::PROOF)
}

/// Whether the API server holds the entry by which it reaches meshgate as it is wanted.
fn is_reach_written(observed: &Observed, wanted: &[Object]) -> bool {
    wanted.iter().any(|object| {
        let live = observed
            .live(object)
            .and_then(|live| live.entry(REACH_ENTRY));
        let pair = object.entry(REACH_ENTRY).zip(live);
        pair.is_some_and(|(wanted, live)| contains(live, wanted))
    })
}
