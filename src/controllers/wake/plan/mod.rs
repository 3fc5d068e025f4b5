//! Which owners are woken now. Pure: the time is passed in.
//!
//! A scout first: one owner per set of injectors. A pod of that set with its sidecars is the proof, then
//! the rest follow, the oldest first. A new leader finds what it needs in the annotations of owners; what is remembered
//! here only saves writes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::cluster::workloads::Uid;

use super::blocked::{Blocked, Outlook, Set};

/// Writes per second. An API server takes several hundred without delay.
pub(super) const RATE: i32 = 50;
/// Writes at once after a pause.
pub(super) const BURST: i32 = 25;
/// A scout has so long to get its pod.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_secs(3);
/// Then the next one waits so long, doubling.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// An owner that stays short is woken again after so long, doubling.
pub(super) const AGAIN: SignedDuration = SignedDuration::from_secs(10);
const LONGEST_AGAIN: SignedDuration = SignedDuration::from_secs(600);
/// A proof is good for so long: an injector may break while its endpoints stay ready.
pub(super) const FRESH: SignedDuration = SignedDuration::from_secs(60);
/// Between two writes to an owner that changed meanwhile, and after a write that failed.
const CONFLICT: SignedDuration = SignedDuration::from_millis(250);
const FAILURE: SignedDuration = SignedDuration::from_secs(5);

/// An owner to wake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wake {
    pub(super) uid: Uid,
    pub(super) set: Set,
    pub(super) is_scout: bool,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Accepted,
    /// The owner has changed, or is gone.
    Conflict,
    /// Its injectors went away before it was sent.
    Dropped,
    /// The API server wants fewer requests: for how long.
    Throttled(SignedDuration),
    Failed,
}

/// What is remembered between two plans.
#[derive(Debug, Default)]
pub(super) struct Waves {
    waves: BTreeMap<Set, Wave>,
    tries: BTreeMap<Uid, Try>,
    /// The bucket is empty until then, less the burst.
    spent: Timestamp,
    /// The API server asked for a pause.
    paused: Timestamp,
}

/// The state of one set of injectors that blocked owners wait for.
#[derive(Debug, Default)]
struct Wave {
    /// Since when all of the set are usable.
    usable: Option<Timestamp>,
    /// The last pod that had its sidecars.
    proof: Option<Timestamp>,
    /// The last scout, and how many there were without a proof.
    scout: Option<Timestamp>,
    scouts: u32,
}

/// What was done about one owner.
#[derive(Debug, Default)]
struct Try {
    woken: Option<Timestamp>,
    count: u32,
    not_before: Timestamp,
    /// It was woken as a scout of this set, which was not proved yet.
    scout: Option<Set>,
    /// What it was woken for until then does not count.
    void: Option<Timestamp>,
}

/// `first`, doubled so often, and no longer than `longest`.
fn doubled(first: SignedDuration, doublings: u32, longest: SignedDuration) -> SignedDuration {
    first.saturating_mul(1 << doublings.min(16)).min(longest)
}

impl Wave {
    fn is_proved(&self, now: Timestamp) -> bool {
        self.proof
            .is_some_and(|proof| now.duration_since(proof) < FRESH)
    }

    fn may_scout(&self, now: Timestamp) -> bool {
        let Some(before) = self.scout else {
            return true;
        };
        let pause = doubled(FIRST_PAUSE, self.scouts.saturating_sub(1), LONGEST_PAUSE);
        now.duration_since(before) >= PATIENCE + pause
    }
}

impl Waves {
    /// Takes over what an earlier leader began: since when, by the annotations, a set is usable, and the last scout.
    pub(super) fn resume(&mut self, set: Set, begun: Timestamp, last: Timestamp) {
        let wave = self.waves.entry(set).or_default();
        let earlier = wave.usable.map_or(begun, |usable| usable.min(begun));
        let later = wave.scout.map_or(last, |scout| scout.max(last));
        (wave.usable, wave.scout, wave.scouts) = (Some(earlier), Some(later), 1);
    }

    /// Whether owners wait for a pod that proves their injectors.
    pub(super) fn await_proof(&self) -> bool {
        self.waves.values().any(|wave| wave.usable.is_some())
    }

    /// A new pod of this set has its sidecars. True if that is the proof on which others wait.
    pub(super) fn proved(&mut self, set: &Set, now: Timestamp) -> bool {
        let Some(wave) = self.waves.get_mut(set) else {
            return false;
        };
        if wave.usable.is_none() {
            return false;
        }
        let is_news = !wave.is_proved(now);
        wave.proof = Some(now);
        wave.scouts = 0;
        // The last one may have its pod. The others came too early: they are tried again with the rest.
        let last = wave.scout;
        for one in self.tries.values_mut().filter(|_| is_news) {
            if one.scout.as_ref() == Some(set) && one.woken < last {
                (one.scout, one.void) = (None, Some(now));
            }
        }
        is_news
    }

    /// The owners to wake at this time, which count as woken until [`Self::answered`] says otherwise.
    pub(super) fn plan(&mut self, blocked: &[Blocked], now: Timestamp) -> Vec<Wake> {
        self.look(blocked, now);
        let mut due = Vec::new();
        for (set, wave) in &self.waves {
            let Some(usable) = wave.usable else {
                continue;
            };
            let mut own: Vec<_> = blocked
                .iter()
                .filter(|one| one.set == *set && one.outlook == Outlook::Usable)
                .filter_map(|one| Some((self.turn(one, usable, now)?, one.since, one.uid)))
                .collect();
            own.sort_unstable();
            let is_scout = !wave.is_proved(now);
            if is_scout {
                own.truncate(usize::from(wave.may_scout(now)));
            }
            due.extend(
                own.into_iter()
                    .map(|(_, since, uid)| (!is_scout, since, uid, set.clone())),
            );
        }
        due.sort_unstable();
        let affordable = due.into_iter().take_while(|_| self.spend(now));
        let affordable: Vec<_> = affordable.collect();
        let mut wakes = Vec::new();
        for (is_rest, _, uid, set) in affordable {
            if let Some(wave) = self.waves.get_mut(&set).filter(|_| !is_rest) {
                wave.scout = Some(now);
                wave.scouts += 1;
            }
            let usable = self.waves.get(&set).and_then(|wave| wave.usable);
            let before = self.tries.entry(uid).or_default();
            if before.woken < usable {
                before.count = 0;
            }
            (before.woken, before.count) = (Some(now), before.count + 1);
            before.scout = (!is_rest).then(|| set.clone());
            wakes.push(Wake {
                uid,
                set,
                is_scout: !is_rest,
            });
        }
        wakes
    }

    /// Notes which sets are usable, and forgets what no blocked owner waits for.
    fn look(&mut self, blocked: &[Blocked], now: Timestamp) {
        let uids: BTreeSet<Uid> = blocked.iter().map(|one| one.uid).collect();
        self.tries.retain(|uid, _| uids.contains(uid));
        let waiting = blocked
            .iter()
            .filter(|one| !matches!(one.outlook, Outlook::Refused(_)));
        let mut sets: BTreeMap<&Set, bool> = BTreeMap::new();
        for one in waiting {
            *sets.entry(&one.set).or_default() |= one.outlook == Outlook::Usable;
        }
        self.waves.retain(|set, _| sets.contains_key(set));
        for (set, is_usable) in sets {
            let wave = self.waves.entry(set.clone()).or_default();
            if is_usable {
                wave.usable.get_or_insert(now);
            } else {
                (wave.usable, wave.proof) = (None, None);
            }
        }
    }

    /// Whether it is an owner's turn; those that were not woken yet come first.
    fn turn(&self, one: &Blocked, usable: Timestamp, now: Timestamp) -> Option<bool> {
        let before = self.tries.get(&one.uid);
        if before.is_some_and(|before| now < before.not_before) {
            return None;
        }
        let woken = one.woken.max(before.and_then(|before| before.woken));
        let void = before.and_then(|before| before.void);
        let counts = |woken: &Timestamp| *woken >= usable && Some(*woken) > void;
        let Some(woken) = woken.filter(counts) else {
            return Some(false);
        };
        let count = before.map_or(1, |before| before.count);
        let pause = doubled(AGAIN, count.saturating_sub(1), LONGEST_AGAIN);
        (now.duration_since(woken) >= pause).then_some(true)
    }

    /// Takes one write out of the bucket, if there is one.
    fn spend(&mut self, now: Timestamp) -> bool {
        let each = SignedDuration::from_secs(1) / RATE;
        let spent = self.spent.max(now);
        let room = spent.duration_since(now) <= each.saturating_mul(BURST - 1);
        let may = room && now >= self.paused;
        if may {
            self.spent = spent + each;
        }
        may
    }

    /// What became of a wake.
    pub(super) fn answered(&mut self, uid: Uid, outcome: Outcome, now: Timestamp) {
        let pause = match outcome {
            Outcome::Accepted => return,
            Outcome::Conflict | Outcome::Dropped => CONFLICT,
            Outcome::Throttled(pause) => {
                self.paused = now + pause;
                pause
            }
            Outcome::Failed => FAILURE,
        };
        if let Some(own) = self.tries.get_mut(&uid) {
            own.woken = None;
            own.count = own.count.saturating_sub(1);
            own.not_before = now + pause;
        }
    }
}

#[cfg(test)]
mod tests;
