//! Constant load through every kind of replacement, and no call without its one answer.
//!
//! `make load` runs the same for longer and prints the counts (docs/measurements.md has them).

mod certificates;
mod stop;
