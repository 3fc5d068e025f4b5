//! Whether profiles say what injectors do, and what is rendered from them what they say: random
//! namespaces and pods, tried by dry runs on a real API server.
//!
//! - [`real`]: the requirement is what a real istiod and a real injector of Dapr do.
//! - [`rendered`]: selectors, conditions and policies, as the API server evaluates them, say the
//!   same as the decisions.
//!
//! `MESHGATE_FIDELITY_PAIRS` and `MESHGATE_FIDELITY_SEED` change how many pairs and which;
//! `make fidelity PAIRS=20000` shows the counts.

pub(crate) mod decided;
mod draw;
mod marks;
mod pairs;
mod pool;
mod real;
mod rendered;

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use meshgate_core::injector::Injectors;

use self::draw::Draw;

/// Pairs that are tried in a usual run, for each injector.
const PAIRS: usize = 2_400;

/// Requests at a time.
const IN_FLIGHT: usize = 8;

/// How much is tried, and where the random numbers begin.
struct Scale {
    pairs: usize,
    seed: u64,
}

impl Scale {
    /// By the environment; a seed of its own for each run of the tests.
    fn read() -> Self {
        static OF_THIS_RUN: OnceLock<u64> = OnceLock::new();
        let any = || RandomState::new().hash_one("seed") % 1_000_000;
        Self {
            pairs: number("MESHGATE_FIDELITY_PAIRS").unwrap_or(PAIRS),
            seed: number("MESHGATE_FIDELITY_SEED").unwrap_or_else(|| *OF_THIS_RUN.get_or_init(any)),
        }
    }

    fn draw(&self, name: &str) -> Draw {
        let name = name
            .bytes()
            .fold(7_u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte));
        Draw::new(self.seed ^ name)
    }

    /// Each is met some twenty times.
    fn namespaces(&self) -> usize {
        (self.pairs / 25).clamp(20, 100)
    }

    /// How to have the same again.
    fn origin(&self) -> String {
        format!("MESHGATE_FIDELITY_SEED={}", self.seed)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test has no flags; cargo passes the environment on"
)]
pub(crate) fn number<N: std::str::FromStr>(name: &str) -> Option<N> {
    let text = std::env::var(name).ok()?;
    let number = text.parse().ok();
    assert!(number.is_some(), "{name}={text} is no number");
    number
}

/// The namespace that meshgate itself would be in.
const OWN: &str = "meshgate";

/// A configuration with these injectors.
fn injectors(list: &str) -> Injectors {
    let text = format!("apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n{list}");
    Injectors::from_yaml("test", text.as_bytes())
        .unwrap()
        .excluding(OWN)
}
