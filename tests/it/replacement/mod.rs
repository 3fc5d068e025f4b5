//! Constant load through every kind of replacement, and no call without its one answer.
//!
//! `make load` runs the same for longer and prints the counts (docs/reliability.md has them).

mod certificates;
mod stop;

/// How many times as much as in a normal run of the tests: `MESHGATE_LOAD_FACTOR`.
#[expect(
    clippy::disallowed_methods,
    reason = "a test has no flags; cargo passes the environment on"
)]
fn factor() -> usize {
    let given = std::env::var("MESHGATE_LOAD_FACTOR");
    given.map_or(1, |text| text.parse().unwrap())
}
