//! How long to wait between tries.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
/// Small, so that a view is right again within seconds of the API server's return; five kinds of
/// three replicas are then some ten tries a second, each of which costs next to nothing.
const LONGEST: Duration = Duration::from_secs(2);
/// Most that a server may make us wait by its `Retry-After`.
const LONGEST_ASKED: Duration = Duration::from_secs(30);

/// The pauses of one [`super::Feed`]: twice as long each time, and never the same for two replicas.
#[derive(Debug)]
pub(super) struct Pace {
    chance: RandomState,
    tries: u32,
}

impl Pace {
    /// Nothing has failed yet.
    pub(super) fn new() -> Self {
        Self {
            chance: RandomState::new(),
            tries: 0,
        }
    }

    /// The last try was fine.
    pub(super) fn reset(&mut self) {
        self.tries = 0;
    }

    /// How long to wait after a failure; `asked` is what the server wants.
    pub(super) fn pause(&mut self, asked: Option<Duration>) -> Duration {
        let grown = FIRST
            .saturating_mul(1_u32 << self.tries.min(10))
            .min(LONGEST);
        self.tries = self.tries.saturating_add(1);
        // Between a half and the whole.
        let jittered = grown / 2 + grown.mul_f64(self.chance(self.tries) / 2.0);
        let asked = asked.unwrap_or_default().min(LONGEST_ASKED);
        jittered.max(asked + jittered / 4)
    }

    /// Between two times, by chance.
    pub(super) fn between(&self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.chance(u32::MAX))
    }

    /// A number from 0 to 1 that is another one in each process.
    fn chance(&self, salt: u32) -> f64 {
        let bits = (self.chance.hash_one(salt) >> 32) as u32;
        f64::from(bits) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_begin_anew() {
        let mut pace = Pace::new();
        for tries in 0..40 {
            let grown = FIRST.saturating_mul(1 << tries.min(10)).min(LONGEST);
            let pause = pace.pause(None);
            assert!(pause >= grown / 2 && pause <= grown, "{tries}: {pause:?}");
        }
        pace.reset();
        assert!(pace.pause(None) <= FIRST);
    }

    #[test]
    fn two_replicas_never_wait_the_same() {
        let pauses = |mut pace: Pace| [pace.pause(None), pace.pause(None), pace.pause(None)];
        assert_ne!(pauses(Pace::new()), pauses(Pace::new()));
    }

    #[test]
    fn what_the_server_asks_for_is_kept_within_reason() {
        let asked = Duration::from_secs(7);
        assert!(Pace::new().pause(Some(asked)) > asked);
        let pause = Pace::new().pause(Some(Duration::from_secs(86_400)));
        assert!(pause < LONGEST_ASKED + LONGEST);
    }
}
