//! What several test files need.

pub(crate) mod client;
pub(crate) mod load;
pub(crate) mod process;
pub(crate) mod server;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep, timeout};

/// Longer than anything takes that works, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The time by the clock that the API server has as well, and so many hours later.
#[expect(
    clippy::disallowed_methods,
    reason = "an API server knows no other clock"
)]
pub(crate) fn in_hours(hours: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(hours)
}

/// Asks again and again until the answer is yes.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < PATIENCE, "still not: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for something that must come, but not for ever.
pub(crate) async fn in_time<F: IntoFuture>(what: &str, future: F) -> F::Output {
    match timeout(PATIENCE, future.into_future()).await {
        Ok(output) => output,
        Err(_) => panic!("never came: {what}"),
    }
}

/// Shows what was measured when the tests run with `--nocapture`.
#[expect(clippy::print_stdout, reason = "the figures of docs/measurements.md")]
pub(crate) fn figures(line: &str) {
    println!("{line}");
}

/// How many times as much as in a normal run of the tests: `MESHGATE_LOAD_FACTOR`.
#[expect(
    clippy::disallowed_methods,
    reason = "a test has no flags; cargo passes the environment on"
)]
pub(crate) fn factor() -> usize {
    let given = std::env::var("MESHGATE_LOAD_FACTOR");
    given.map_or(1, |text| text.parse().unwrap())
}
