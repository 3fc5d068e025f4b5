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
fn a_replica_that_serves_nothing_begins_with_what_callers_can_verify() {
    let swap = |entries, after| may_swap(entries, Serving::Nothing, after);
    let at_once = Duration::ZERO;
    assert_eq!(swap(&[], at_once), Swap::Now);
    assert_eq!(swap(&[NEW, NEW], at_once), Swap::Now);
    assert_eq!(swap(&[NEITHER, NEW], at_once), Swap::Settle);
    assert_eq!(swap(&[NEITHER, NEW], PATIENCE), Swap::Now);
    assert_eq!(swap(&[NEITHER], PATIENCE), Swap::Unverified);
    let swap = may_swap(&[NEITHER], Serving::Ending, Duration::ZERO);
    assert_eq!(swap, Swap::Now);
}
