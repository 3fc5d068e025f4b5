//! Readiness as a set of named conditions, each reported by the part of meshgate that knows it.

use std::sync::Arc;

use parking_lot::RwLock;

/// All conditions that must be met before the program may be called ready.
///
/// Clones are handles to the same set. No condition at all counts as ready.
#[derive(Clone, Debug, Default)]
pub struct Latches {
    all: Arc<RwLock<Vec<Condition>>>,
}

/// One condition as it stands at the moment of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// As in `/readyz/NAME`.
    pub name: &'static str,
    /// `Ok` with a remark (often empty) when it is met, `Err` with the reason when it is not.
    pub state: Result<String, String>,
}

/// The handle of one condition. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Latch {
    all: Arc<RwLock<Vec<Condition>>>,
    position: usize,
}

impl Latches {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition that is closed ("not yet") until its latch is opened. Adding a name again
    /// gives another handle to the condition that is already there.
    #[must_use = "a latch that is dropped can never be opened"]
    pub fn add(&self, name: &'static str) -> Latch {
        let mut all = self.all.write();
        let position = all
            .iter()
            .position(|one| one.name == name)
            .unwrap_or_else(|| {
                all.push(Condition {
                    name,
                    state: Err("not yet".to_owned()),
                });
                all.len() - 1
            });
        Latch {
            all: Arc::clone(&self.all),
            position,
        }
    }

    /// Every condition, in the order in which they were added.
    #[must_use]
    pub fn conditions(&self) -> Vec<Condition> {
        self.all.read().clone()
    }

    /// Whether every condition is met.
    #[must_use]
    pub fn all_open(&self) -> bool {
        self.all.read().iter().all(|one| one.state.is_ok())
    }
}

impl Latch {
    /// The condition is met.
    pub fn open(&self) {
        self.set(Ok(String::new()));
    }

    /// The condition is met, and there is something to say about it ("events are 40 s old").
    pub fn open_with(&self, remark: impl Into<String>) {
        self.set(Ok(remark.into()));
    }

    /// The condition is not met, and why.
    pub fn close(&self, why: impl Into<String>) {
        self.set(Err(why.into()));
    }

    fn set(&self, state: Result<String, String>) {
        if let Some(one) = self.all.write().get_mut(self.position) {
            one.state = state;
        }
    }
}

#[cfg(test)]
#[path = "latch_tests.rs"]
mod tests;
