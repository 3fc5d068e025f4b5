//! Pauses between tries. Pure.

use std::time::Duration;

/// Each pause is twice as long as the one before, up to the longest.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after so many failures in a row, of which the first is 1.
    pub fn pause(self, failures: u32) -> Duration {
        let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_never_overflow() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        let pauses = [0, 1, 2, 3, 4, u32::MAX].map(|n| backoff.pause(n).as_secs());
        assert_eq!(pauses, [1, 1, 2, 4, 5, 5]);
    }
}
