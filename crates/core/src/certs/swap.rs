//! Whether a replica may serve a new leaf now.
//!
//! A caller trusts the registered caBundle. So an entry that verifies the current leaf must also verify
//! the new one. This rule alone makes it safe that cert-manager replaces a CA and its leaf in one write
//! (case 49).

use std::time::Duration;

use super::rotation::MARGIN;

/// A leaf that ends within this time counts as ended: clocks differ.
pub const LAST_MOMENT: Duration = Duration::from_secs(10);

/// A replica that serves nothing yet waits so long until all entries verify its leaf: the process that
/// registers the CA may die halfway, and another takes over.
const PATIENCE: Duration = Duration::from_secs(30);

/// The state of a replica's listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// It cannot answer a handshake yet.
    Nothing,
    /// Its leaf has ended, or ends within [`LAST_MOMENT`].
    Ending,
    /// It serves a leaf.
    Leaf,
}

/// Which leaves the bundle of one entry verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The leaf that is served now.
    pub current: bool,
    /// The new leaf.
    pub new: bool,
    /// Both, by the same CA: callers have trusted it for as long as the current leaf is served.
    pub same: bool,
}

/// When to serve a new leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swap {
    /// At once.
    Now,
    /// Later: some entries verify it, but not all, or not for long enough.
    Settle,
    /// Later: no entry verifies it, or one would lose the current leaf.
    Unverified,
}

/// Whether to swap, by the verdicts of all entries with a bundle; `unchanged_for` is how long these have
/// been registered. Without such entries no API server calls yet, or each trusts its system's CAs.
pub fn may_swap(entries: &[Verdict], serving: Serving, unchanged_for: Duration) -> Swap {
    let verified = entries.is_empty() || entries.iter().any(|one| one.new);
    let is_settled = match serving {
        Serving::Ending => return Swap::Now,
        // The other entries may follow in a moment; or they name another address and never do.
        Serving::Nothing => entries.iter().all(|one| one.new),
        Serving::Leaf => entries.iter().all(|one| one.same || !one.current),
    };
    // A replica without a leaf loses nothing, and a caller may have reached another replica.
    let loses = serving == Serving::Leaf && entries.iter().any(|one| one.current && !one.new);
    if loses || !verified {
        return Swap::Unverified;
    }
    let enough = match serving {
        Serving::Nothing => PATIENCE,
        Serving::Leaf | Serving::Ending => MARGIN,
    };
    if is_settled || unchanged_for >= enough {
        Swap::Now
    } else {
        Swap::Settle
    }
}

#[cfg(test)]
#[path = "swap_tests.rs"]
mod tests;
