//! What comes next, state by state.

use jiff::SignedDuration;

use super::*;

const DAY: u64 = 86_400;
const LIFETIMES: Lifetimes = Lifetimes {
    ca: Duration::from_secs(300 * DAY),
    leaf: Duration::from_secs(90 * DAY),
};

fn day(day: i64) -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_hours(24 * day)
}

/// A CA that was made on a day.
fn ca(made: i64) -> Ca {
    let hour = SignedDuration::from_hours(1);
    Ca {
        der: made.to_string().into_bytes(),
        subject: "CN=meshgate".to_owned(),
        not_before: day(made) - hour,
        not_after: day(made + 300),
    }
}

fn held(current: &Ca, older: &[&Ca]) -> Held<HeldCa> {
    Held::Good(HeldCa {
        current: current.clone(),
        bundle: list(current, older),
    })
}

fn leaf(made: i64, issuer: &Ca, bundle: &[Ca]) -> Held<HeldLeaf> {
    let hour = SignedDuration::from_hours(1);
    Held::Good(HeldLeaf {
        not_before: day(made) - hour,
        not_after: day(made + 90),
        issuer: issuer.clone(),
        bundle: bundle.to_vec(),
    })
}

fn list(first: &Ca, others: &[&Ca]) -> Vec<Ca> {
    [&[first], others].concat().into_iter().cloned().collect()
}

fn registered(bundles: &[&[Ca]], seconds: u64) -> Registered {
    Registered {
        entries: bundles.iter().map(|one| Some(one.to_vec())).collect(),
        unchanged_for: Duration::from_secs(seconds),
    }
}

fn observed(ca: Held<HeldCa>, leaf: Held<HeldLeaf>, registered: Registered) -> Observed {
    Observed {
        ca,
        leaf,
        registered,
        lifetimes: LIFETIMES,
    }
}

fn issue(days: u64, bundle: Vec<Ca>, why: Why) -> Step {
    Step::IssueLeaf {
        lifetime: Duration::from_secs(days * DAY),
        bundle,
        why,
    }
}

fn bad<T>() -> Held<T> {
    Held::Unusable("bad".to_owned())
}

fn why_bad() -> Why {
    Why::Unusable("bad".to_owned())
}

#[test]
fn at_first_the_ca_and_then_the_leaf() {
    let none = || registered(&[], 0);
    let nothing = observed(Held::Missing, Held::Missing, none());
    let keep = Vec::new();
    let why = Why::Missing;
    assert_eq!(next(&nothing, day(0)), Step::MakeCa { keep, why });
    assert!(trusted(&nothing, day(0)).is_empty());

    let one = ca(0);
    let first = observed(held(&one, &[]), Held::Missing, none());
    let bundle = vec![one.clone()];
    assert_eq!(trusted(&first, day(0)), bundle);
    assert_eq!(
        next(&first, day(0)),
        issue(90, bundle.clone(), Why::Missing)
    );

    let whole = observed(held(&one, &[]), leaf(0, &one, &bundle), none());
    let until = day(60);
    assert_eq!(next(&whole, day(0)), Step::Rest { until });
    assert_eq!(next(&whole, day(60)), issue(90, bundle, Why::Due));
}

#[test]
fn a_leaf_is_issued_by_a_new_ca_only_once_every_entry_has_had_it_for_a_while() {
    let (old, new) = (ca(0), ca(200));
    let both = list(&new, &[&old]);
    let before = observed(
        held(&old, &[]),
        leaf(180, &old, std::slice::from_ref(&old)),
        registered(&[std::slice::from_ref(&old)], 99),
    );
    let step = next(&before, day(200));
    let (keep, why) = (vec![old.clone()], Why::Due);
    assert_eq!(step, Step::MakeCa { keep, why });

    // The leaf's Secret knows of it first, so that no CA is forgotten whatever is lost.
    let mut after = observed(
        held(&new, &[&old]),
        leaf(180, &old, std::slice::from_ref(&old)),
        registered(&[std::slice::from_ref(&old)], 99),
    );
    assert_eq!(trusted(&after, day(200)), both);
    let bundle = both.clone();
    assert_eq!(next(&after, day(200)), Step::KeepLeaf { bundle });
    after.leaf = leaf(180, &old, &both);
    let wait = Step::Wait { why: Why::OtherCa };
    for (entries, seconds, expected) in [
        (vec![std::slice::from_ref(&old)], 99, &wait),
        (vec![&both[..], std::slice::from_ref(&old)], 99, &wait),
        (vec![&both[..], &both[..]], 4, &wait),
        (
            vec![&both[..], &both[..]],
            5,
            &issue(90, both.clone(), Why::OtherCa),
        ),
        (vec![], 0, &issue(90, both.clone(), Why::OtherCa)),
    ] {
        after.registered = registered(&entries, seconds);
        assert_eq!(&next(&after, day(200)), expected);
    }
    // The old one goes when it has ended, and not before.
    let whole = |bundle: &[Ca]| {
        let ca = HeldCa {
            current: new.clone(),
            bundle: bundle.to_vec(),
        };
        observed(Held::Good(ca), leaf(295, &new, bundle), registered(&[], 0))
    };
    let until = day(300);
    assert_eq!(next(&whole(&both), day(299)), Step::Rest { until });
    let bundle = vec![new.clone()];
    assert_eq!(next(&whole(&both), day(301)), Step::KeepCas { bundle });
}

#[test]
fn a_leaf_ends_with_its_ca_and_does_not_wait_when_it_is_about_to_end() {
    let (old, new) = (ca(0), ca(200));
    let bundle = vec![old.clone()];
    let late = observed(held(&old, &[]), Held::Missing, registered(&[], 0));
    assert_eq!(next(&late, day(199)), issue(90, bundle, Why::Missing));
    let mut short = late;
    short.lifetimes.leaf = Duration::from_secs(200 * DAY);
    let Step::IssueLeaf { lifetime, .. } = next(&short, day(199)) else {
        panic!("no leaf");
    };
    assert_eq!(lifetime.as_secs(), 101 * DAY);

    let both = list(&new, &[&old]);
    let stuck = observed(
        held(&new, &[&old]),
        leaf(150, &old, &both),
        registered(&[std::slice::from_ref(&old)], 99),
    );
    let wait = Step::Wait { why: Why::OtherCa };
    assert_eq!(next(&stuck, day(230)), wait);
    assert_eq!(
        next(&stuck, day(232)),
        issue(90, both.clone(), Why::OtherCa)
    );
    let ended = Why::Expired(day(240));
    assert_eq!(next(&stuck, day(241)), issue(90, both, ended));
}

#[test]
fn what_is_lost_or_damaged_is_made_anew_and_nothing_that_is_in_use_is_forgotten() {
    let (old, other) = (ca(0), ca(1));
    let has_leaf = leaf(0, &old, std::slice::from_ref(&old));
    let in_use = registered(&[std::slice::from_ref(&other)], 99);
    for (ca, why) in [(Held::Missing, Why::Missing), (bad(), why_bad())] {
        let lost = observed(ca, has_leaf.clone(), in_use.clone());
        let keep = vec![old.clone(), other.clone()];
        assert_eq!(next(&lost, day(2)), Step::MakeCa { keep, why });
    }
    // Both are lost: callers know by what a replica may still be verified.
    let lost = observed(bad(), bad(), in_use.clone());
    let (keep, why) = (vec![other.clone()], why_bad());
    assert_eq!(next(&lost, day(2)), Step::MakeCa { keep, why });
    // No certificate needs a CA that has ended.
    let lost = observed(Held::Missing, has_leaf, in_use.clone());
    let (keep, why) = (vec![other], Why::Missing);
    assert_eq!(next(&lost, day(301)), Step::MakeCa { keep, why });

    let bundle = vec![old.clone()];
    let known = registered(&[&bundle], 99);
    let damaged = observed(held(&old, &[]), bad(), known.clone());
    assert_eq!(next(&damaged, day(2)), issue(90, bundle.clone(), why_bad()));
    // No caller could verify it yet; a replica that serves has one that callers can.
    let damaged = observed(held(&old, &[]), bad(), in_use);
    let bundle_of_both = vec![old.clone(), ca(1)];
    let step = Step::KeepCas {
        bundle: bundle_of_both,
    };
    assert_eq!(next(&damaged, day(2)), step);
    let in_use = registered(&[&[ca(1)]], 99);
    let damaged = observed(held(&old, &[&ca(1)]), bad(), in_use);
    let why = why_bad();
    assert_eq!(next(&damaged, day(2)), Step::Wait { why });
    let half = observed(held(&old, &[]), leaf(0, &old, &[]), known);
    assert_eq!(next(&half, day(2)), Step::KeepLeaf { bundle });
}

#[test]
fn a_leaf_of_a_ca_that_the_other_secret_has_forgotten_stays_verified() {
    let (mine, theirs) = (ca(0), ca(1));
    let bundle = vec![theirs.clone()];
    let odd = observed(
        held(&mine, &[]),
        leaf(0, &theirs, &bundle),
        registered(&[], 0),
    );
    let both = list(&mine, &[&theirs]);
    assert_eq!(trusted(&odd, day(2)), both);
    assert_eq!(next(&odd, day(2)), Step::KeepCas { bundle: both });
}

#[test]
fn an_ended_or_damaged_ca_is_said_to_be() {
    let old = ca(0);
    let ended = observed(held(&old, &[]), Held::Missing, registered(&[], 0));
    let Step::MakeCa { keep, why } = next(&ended, day(301)) else {
        panic!("no CA");
    };
    assert!(keep.is_empty() && why.is_damage());
    assert_eq!(
        why.to_string(),
        "its certificate expired at 2026-10-28T00:00:00Z"
    );
    assert!(trusted(&ended, day(301)).is_empty());
    assert!(!Why::Due.is_damage() && !Why::Missing.is_damage());
}

/// A clock that was ahead has been put right: no caller can use what was made meanwhile.
#[test]
fn what_is_not_valid_yet_is_made_anew() {
    let (old, ahead) = (ca(0), ca(70));
    let both = list(&ahead, &[&old]);
    let early = Why::Early(day(70) - SignedDuration::from_hours(1));
    let made_ahead = observed(
        held(&ahead, &[&old]),
        leaf(70, &ahead, &both),
        registered(&[&both], 99),
    );
    let (keep, why) = (both, early.clone());
    assert_eq!(next(&made_ahead, day(10)), Step::MakeCa { keep, why });

    let bundle = vec![old.clone()];
    let leaf_ahead = |registered| observed(held(&old, &[]), leaf(70, &old, &bundle), registered);
    let known = leaf_ahead(registered(&[&bundle], 99));
    assert_eq!(
        next(&known, day(10)),
        issue(90, bundle.clone(), early.clone())
    );
    assert!(early.is_damage() && early.to_string().contains("clock"));
    // Clocks differ by less than certificates are backdated.
    let hour_ahead = leaf_ahead(registered(&[&bundle], 99));
    let almost = day(70) - SignedDuration::from_mins(59);
    assert!(matches!(next(&hour_ahead, almost), Step::Rest { .. }));
}
