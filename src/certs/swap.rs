//! Whether a replica may serve a new leaf now. Pure.
//!
//! A caller trusts the caBundle that is registered. So no entry by which the leaf that is served is
//! verified may lose that by the swap. This alone makes it safe that a CA and its leaf are
//! replaced in one write by somebody else (case 49).

use std::time::Duration;

use super::rotation::MARGIN;

/// A leaf that ends within this time is of no use any more: clocks differ.
pub const LAST_MOMENT: Duration = Duration::from_secs(10);

/// What is served now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// No handshake can be answered yet.
    Nothing,
    /// A leaf that has ended, or ends in a moment.
    Ending,
    /// A leaf.
    Leaf,
}

/// What one entry that has a bundle makes of both leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// It verifies the leaf that is served now.
    pub current: bool,
    /// It verifies the new one.
    pub new: bool,
    /// The same CA verifies both: it has been trusted for as long as the current one is.
    pub same: bool,
}

/// What to do with a new leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swap {
    /// Serve it.
    Now,
    /// What is registered verifies it, but for too short a time.
    Settle,
    /// It is not verified by what is registered.
    Unverified,
}

/// Whether to swap, by what each entry with a bundle says; `unchanged_for` is how long that has been
/// so. Without an entry nobody calls yet, or by what their system trusts.
pub fn may_swap(entries: &[Verdict], serving: Serving, unchanged_for: Duration) -> Swap {
    let verified = entries.is_empty() || entries.iter().any(|one| one.new);
    match serving {
        // Whoever asks another replica may fare better.
        Serving::Nothing if !verified => return Swap::Unverified,
        Serving::Nothing | Serving::Ending => return Swap::Now,
        Serving::Leaf => {}
    }
    let loses = entries.iter().any(|one| one.current && !one.new);
    if loses || !verified {
        return Swap::Unverified;
    }
    let is_settled = entries.iter().all(|one| one.same || !one.current);
    match is_settled || unchanged_for >= MARGIN {
        true => Swap::Now,
        false => Swap::Settle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEITHER: Verdict = verdict(false, false, false);
    const BOTH: Verdict = verdict(true, true, false);
    const SAME: Verdict = verdict(true, true, true);
    const OLD: Verdict = verdict(true, false, false);
    const NEW: Verdict = verdict(false, true, false);

    const fn verdict(current: bool, new: bool, same: bool) -> Verdict {
        Verdict { current, new, same }
    }

    #[test]
    fn no_entry_loses_what_it_can_verify() {
        use Serving::Leaf;
        for (entries, expected, later) in [
            (&[][..], Swap::Now, Swap::Now),
            (&[SAME, SAME], Swap::Now, Swap::Now),
            (&[BOTH, SAME], Swap::Settle, Swap::Now),
            (&[BOTH, OLD], Swap::Unverified, Swap::Unverified),
            (&[NEW, OLD], Swap::Unverified, Swap::Unverified),
            // Nothing to lose: the bundle was swapped in one step.
            (&[NEW, NEW], Swap::Now, Swap::Now),
            // An entry for another address, or a wrong bundle that will be put right.
            (&[NEW, NEITHER], Swap::Now, Swap::Now),
            (&[SAME, NEITHER], Swap::Now, Swap::Now),
            (&[NEITHER, NEITHER], Swap::Unverified, Swap::Unverified),
        ] {
            let at_once = may_swap(entries, Leaf, Duration::ZERO);
            assert_eq!(at_once, expected, "{entries:?}");
            assert_eq!(may_swap(entries, Leaf, MARGIN), later, "{entries:?}");
        }
    }

    #[test]
    fn whoever_serves_nothing_begins_with_what_somebody_can_verify() {
        let swap = |entries| may_swap(entries, Serving::Nothing, Duration::ZERO);
        assert_eq!(swap(&[]), Swap::Now);
        assert_eq!(swap(&[NEITHER, NEW]), Swap::Now);
        assert_eq!(swap(&[NEITHER]), Swap::Unverified);
        let swap = may_swap(&[NEITHER], Serving::Ending, Duration::ZERO);
        assert_eq!(swap, Swap::Now);
    }
}
