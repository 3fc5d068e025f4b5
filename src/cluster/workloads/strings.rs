//! Texts that many objects share.

use std::collections::HashSet;
use std::sync::Arc;

/// Each text once. Those that no object has any more go from time to time.
#[derive(Debug, Default)]
pub(super) struct Strings {
    all: HashSet<Arc<str>>,
    /// How many there may be before the next sweep.
    most: usize,
}

/// So few are never swept.
const FEW: usize = 4_096;

impl Strings {
    pub(super) fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(own) = self.all.get(text) {
            return Arc::clone(own);
        }
        if self.all.len() >= self.most.max(FEW) {
            self.sweep();
        }
        let own: Arc<str> = text.into();
        self.all.insert(Arc::clone(&own));
        own
    }

    /// Drops what only this holds.
    pub(super) fn sweep(&mut self) {
        self.all.retain(|text| Arc::strong_count(text) > 1);
        self.most = self.all.len() * 2;
    }
}
