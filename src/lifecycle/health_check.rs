//! Readiness as a set of named conditions, each reported by the part of meshgate that knows it.

use std::sync::Arc;

use parking_lot::RwLock;

/// All conditions that must be met before the program may be called ready.
///
/// Clones are handles to the same set. No condition at all counts as ready.
#[derive(Clone, Debug, Default)]
pub struct HealthChecks {
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
pub struct HealthCheck {
    all: Arc<RwLock<Vec<Condition>>>,
    position: usize,
}

impl HealthChecks {
    /// Adds a condition that is not met ("not yet") until its check passes. Adding a name again
    /// gives another handle to the condition that is already there.
    #[must_use = "a check that is dropped can never pass"]
    pub fn add(&self, name: &'static str) -> HealthCheck {
        let mut all = self.all.write();
        let known = all.iter().position(|one| one.name == name);
        let position = known.unwrap_or(all.len());
        if known.is_none() {
            let state = Err("not yet".to_owned());
            all.push(Condition { name, state });
        }
        HealthCheck {
            all: Arc::clone(&self.all),
            position,
        }
    }

    /// Every condition, in the order in which they were added.
    pub fn conditions(&self) -> Vec<Condition> {
        self.all.read().clone()
    }
}

impl HealthCheck {
    /// The condition is met.
    pub fn pass(&self) {
        self.set(Ok(String::new()));
    }

    /// The condition is met, and there is something to say about it ("events are 40 s old").
    pub fn pass_with(&self, remark: impl Into<String>) {
        self.set(Ok(remark.into()));
    }

    /// The condition is not met, and why.
    pub fn fail(&self, why: impl Into<String>) {
        self.set(Err(why.into()));
    }

    fn set(&self, state: Result<String, String>) {
        if let Some(one) = self.all.write().get_mut(self.position) {
            one.state = state;
        }
    }
}

#[cfg(test)]
#[path = "health_check_tests.rs"]
mod tests;
