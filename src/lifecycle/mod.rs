//! How the program lives and dies: when it is ready, how it is told to stop, and what runs in it.
//!
//! Owns what every part needs: [`Shutdown`] (two
//! stages, one token), [`HealthChecks`] (readiness as a set of named conditions) and [`Tasks`] (the only
//! caller of `tokio::spawn`), and reads the wall clock. It is a leaf: it must not know what the conditions or tasks are.

mod health_check;
mod shutdown;
mod task;

pub use health_check::{Condition, HealthCheck, HealthChecks};
pub use shutdown::Shutdown;
pub use task::{Group, TaskFailure, Tasks, panic_text};

/// The wall clock. What is pure is given the time.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the program reads the wall clock"
)]
pub fn wall_clock() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
