//! How often one object is written while another client keeps changing it. Pure: the clock is passed
//! in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use backon::ExponentialBuilder;

use crate::kube_api::backoff::{Pauses, doubling, short_first};
use crate::kube_api::kind::Id;

/// Writes in a row without a pause: the start alone takes four.
const FREE: usize = 6;
/// After these, when another client keeps undoing them.
const BACKOFF: ExponentialBuilder = doubling(Duration::from_secs(1), Duration::from_secs(60));
/// After this long without a write, writes count from zero again.
const PEACE: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
pub(super) struct WriteLimiter {
    objects: HashMap<Id, Burst>,
}

#[derive(Debug)]
struct Burst {
    last: Instant,
    pauses: Pauses,
    /// The next write waits until then.
    until: Instant,
    told: bool,
    is_refused: bool,
}

/// Whether an object may be written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    /// Not before `until`; `first` is true once per burst, to report it.
    Wait {
        until: Instant,
        first: bool,
    },
}

impl WriteLimiter {
    pub(super) fn turn(&mut self, id: &Id, now: Instant) -> Turn {
        match self.objects.get_mut(id) {
            Some(burst) if now < burst.until => Turn::Wait {
                until: burst.until,
                first: !std::mem::replace(&mut burst.told, true),
            },
            _ => Turn::Now,
        }
    }

    /// Notes a write. One that the API server `refused` is tried again after growing pauses from the first time
    /// on, and is no fight with another client.
    pub(super) fn wrote(&mut self, id: &Id, refused: bool, now: Instant) {
        self.objects
            .retain(|_, burst| now.duration_since(burst.last) < PEACE);
        let was_refused = self.objects.get(id).is_some_and(|burst| burst.is_refused);
        if was_refused != refused {
            self.objects.remove(id);
        }
        let burst = self.objects.entry(id.clone()).or_insert_with(|| Burst {
            last: now,
            pauses: short_first(if refused { 0 } else { FREE - 1 }, Duration::ZERO, BACKOFF),
            until: now,
            told: refused,
            is_refused: refused,
        });
        burst.last = now;
        burst.until = now + burst.pauses.next().unwrap_or(PEACE);
    }
}

#[cfg(test)]
#[path = "write_limiter_tests.rs"]
mod tests;
