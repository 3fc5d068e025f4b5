//! Pauses between tries.

use std::iter::{Chain, RepeatN, repeat_n};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// Each pause is twice as long as the one before, up to the longest; for ever.
pub const fn doubling(first: Duration, longest: Duration) -> ExponentialBuilder {
    ExponentialBuilder::new()
        .with_min_delay(first)
        .with_max_delay(longest)
        .without_max_times()
}

/// See [`short_first`].
pub type Pauses = Chain<RepeatN<Duration>, ExponentialBackoff>;

/// So many short pauses, and then those that grow: for writes that another client may keep undoing.
pub fn short_first(count: usize, short: Duration, growing: ExponentialBuilder) -> Pauses {
    repeat_n(short, count).chain(growing.build())
}

#[cfg(test)]
#[path = "backoff_tests.rs"]
mod tests;
