//! The tests of the core alone: seconds, for those who add a preset or change a rule.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "everything here is a test; clippy only knows the functions marked as such"
)]

mod cases;
mod patch;
mod readiness;
mod rules;
mod schema;

use std::path::PathBuf;

/// A path below the repository's root.
fn from_root(path: &str) -> PathBuf {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    root.join(path)
}
