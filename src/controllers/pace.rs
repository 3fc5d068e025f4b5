//! How often one object is written while somebody else keeps changing it. Pure: the clock is
//! passed in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::kube_api::kind::Id;

/// Writes that an object may get in a row without a pause: the start alone takes four.
const FREE: u32 = 6;
/// The first pause; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST: Duration = Duration::from_secs(60);
/// After this long without a write an object is at peace again.
const PEACE: Duration = Duration::from_secs(120);

/// What is remembered of writes.
#[derive(Debug, Default)]
pub(super) struct Pace {
    objects: HashMap<Id, Burst>,
}

#[derive(Debug)]
struct Burst {
    writes: u32,
    last: Instant,
    told: bool,
}

/// Whether an object may be written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Yes.
    Now,
    /// Not before this; `first` when that is to be told.
    Wait {
        /// When it may be.
        until: Instant,
        /// True the first time in a row.
        first: bool,
    },
}

impl Pace {
    /// Whether the object may be written now.
    pub(super) fn turn(&mut self, id: &Id, now: Instant) -> Turn {
        let Some(burst) = self.objects.get_mut(id) else {
            return Turn::Now;
        };
        let until = burst.last + pause(burst.writes);
        if now >= until {
            return Turn::Now;
        }
        let first = !std::mem::replace(&mut burst.told, true);
        Turn::Wait { until, first }
    }

    /// Notes a write.
    pub(super) fn wrote(&mut self, id: &Id, now: Instant) {
        self.objects
            .retain(|_, burst| now.duration_since(burst.last) < PEACE);
        let burst = self.objects.entry(id.clone()).or_insert(Burst {
            writes: 0,
            last: now,
            told: false,
        });
        burst.writes += 1;
        burst.last = now;
    }
}

fn pause(writes: u32) -> Duration {
    let Some(beyond) = writes.checked_sub(FREE) else {
        return Duration::ZERO;
    };
    doubled(FIRST, beyond).min(LONGEST)
}

/// A pause that was doubled so many times; whoever waits sets the longest.
pub(super) fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube_api::kind::Kind;

    #[test]
    fn a_fight_is_slowed_down_and_told_once_and_forgotten() {
        let id = |name: &str| Id {
            kind: Kind::MutatingWebhooks,
            name: name.to_owned(),
        };
        let (ours, other) = (id("a"), id("b"));
        let mut pace = Pace::default();
        let mut now = Instant::now();
        let mut writes = 0;
        let mut told = 0;
        let start = now;
        // Somebody changes it back every 50 ms for ten minutes.
        while now - start < Duration::from_secs(600) {
            match pace.turn(&ours, now) {
                Turn::Now => {
                    pace.wrote(&ours, now);
                    writes += 1;
                }
                Turn::Wait { until, first } => {
                    assert!(until - now <= LONGEST);
                    told += u32::from(first);
                }
            }
            assert_eq!(pace.turn(&other, now), Turn::Now);
            now += Duration::from_millis(50);
        }
        assert_eq!(told, 1);
        // Six at once, six doublings to a minute, then one a minute.
        assert!((18..=24).contains(&writes), "{writes}");
        now += PEACE;
        pace.wrote(&other, now);
        assert_eq!(pace.turn(&ours, now), Turn::Now);
        pace.wrote(&ours, now);
        assert_eq!(pace.turn(&ours, now), Turn::Now);
    }
}
