mod race;

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use super::*;

/// Both clocks, so many milliseconds after the start.
fn at(start: Instant, millis: u64) -> Now {
    let wall = Timestamp::UNIX_EPOCH + SignedDuration::from_millis(millis.try_into().unwrap());
    Now {
        steady: start + Duration::from_millis(millis),
        wall,
    }
}

fn held_by(holder: &str, renewed: u64) -> LeaseSpec {
    let time = Timestamp::UNIX_EPOCH + SignedDuration::from_millis(renewed.try_into().unwrap());
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(MicroTime(time)),
        renew_time: Some(MicroTime(time)),
        lease_transitions: Some(4),
        ..LeaseSpec::default()
    }
}

/// Its holder, its duration and how often it changed hands.
fn facts(lease: &LeaseSpec) -> (&str, Option<i32>, Option<i32>) {
    let (seconds, transitions) = (lease.lease_duration_seconds, lease.lease_transitions);
    (holder(lease), seconds, transitions)
}

/// One that has just found the Lease like this.
fn seen(record: &LeaseSpec, start: Instant) -> (Contender, Next) {
    let mut own = Contender::new("own".to_owned());
    assert_eq!(own.begin(at(start, 0)), Ask::Look);
    let found = Answer::Found(record.clone(), "7".to_owned());
    let next = own.answered(found, start, at(start, 0));
    (own, next)
}

/// One that has got it by a write that was sent at the start.
fn leader(start: Instant) -> Contender {
    let (mut own, _) = seen(&LeaseSpec::default(), start);
    let written = Answer::Written(held_by("own", 0), "8".to_owned());
    assert_eq!(own.answered(written, start, at(start, 400)), Next::Rest);
    own
}

#[test]
fn what_is_free_is_taken_and_what_is_held_is_waited_for() {
    let start = Instant::now();
    let mut own = Contender::new("own".to_owned());
    let next = own.answered(Answer::Missing, start, at(start, 0));
    let Next::Ask(Ask::Create(record)) = next else {
        panic!("{next:?}");
    };
    assert_eq!(facts(&record), ("own", Some(15), Some(0)));
    let released = LeaseSpec {
        lease_duration_seconds: Some(1),
        ..held_by("", 0)
    };
    let (_, next) = seen(&released, start);
    let Next::Ask(Ask::Update(record, version)) = next else {
        panic!("{next:?}");
    };
    assert_eq!(facts(&record), ("own", Some(15), Some(5)));
    assert_eq!(version, "7");
    let (own, next) = seen(&held_by("other", 0), start);
    assert_eq!(
        (next, own.claim(), own.holder()),
        (Next::Rest, None, "other")
    );
}

/// Whatever the times in it say: a clock that is hours off neither makes a process lead nor wait for ever (55).
#[test]
fn it_is_over_when_it_has_not_changed_for_its_duration() {
    let start = Instant::now();
    for renewed in [0, 3_600_000] {
        let record = held_by("other", renewed);
        let (mut own, _) = seen(&record, start);
        let look = |own: &mut Contender, record: &LeaseSpec, millis| {
            let found = Answer::Found(record.clone(), "7".to_owned());
            own.answered(found, start, at(start, millis))
        };
        assert_eq!(look(&mut own, &record, 14_999), Next::Rest);
        let changed = held_by("other", renewed + 1);
        assert_eq!(look(&mut own, &changed, 14_999), Next::Rest);
        assert_eq!(look(&mut own, &changed, 29_998), Next::Rest);
        assert!(matches!(
            look(&mut own, &changed, 29_999),
            Next::Ask(Ask::Update(..))
        ));
    }
}

#[test]
fn a_claim_counts_from_before_the_write_that_renewed_it() {
    let start = Instant::now();
    let mut own = leader(start);
    let claim = own.claim().unwrap();
    assert_eq!((claim.until, claim.term), (start + RENEW_DEADLINE, 1));
    // It is renewed by what is known, without a look.
    let ask = own.begin(at(start, 2_000));
    let Ask::Update(record, version) = ask else {
        panic!("{ask:?}");
    };
    assert_eq!((version.as_str(), record.lease_transitions), ("8", Some(4)));
    assert_eq!(record.acquire_time, held_by("own", 0).acquire_time);
    let written = Answer::Written(record, "9".to_owned());
    let sent = start + Duration::from_secs(2);
    assert_eq!(own.answered(written, sent, at(start, 2_500)), Next::Rest);
    let claim = own.claim().unwrap();
    assert_eq!((claim.until, claim.term), (sent + RENEW_DEADLINE, 1));
    // What fails renews nothing, and takes nothing away.
    assert_eq!(
        own.answered(Answer::Failed, sent, at(start, 4_000)),
        Next::Rest
    );
    assert_eq!(own.claim(), Some(claim));
    // Got again after its end it is another one.
    let written = Answer::Written(held_by("own", 1), "10".to_owned());
    let sent = start + Duration::from_secs(13);
    assert_eq!(own.answered(written, sent, at(start, 13_100)), Next::Rest);
    assert_eq!(own.claim().map(|claim| claim.term), Some(2));
}

#[test]
fn a_write_that_came_through_without_an_answer_is_found_out() {
    let start = Instant::now();
    let mut own = leader(start);
    let conflict = own.answered(Answer::Conflict, start, at(start, 2_000));
    assert_eq!(conflict, Next::Ask(Ask::Look));
    assert!(own.claim().is_some());
    let ours = Answer::Found(held_by("own", 2_000), "9".to_owned());
    let next = own.answered(ours, start, at(start, 2_001));
    assert!(matches!(next, Next::Ask(Ask::Update(_, version)) if version == "9"));
    // Or it is another's: then it is over at once.
    let theirs = Answer::Found(held_by("other", 2_000), "9".to_owned());
    assert_eq!(own.answered(theirs, start, at(start, 2_002)), Next::Rest);
    assert_eq!(own.claim(), None);
    // A process that lost the race after a look waits for the next try.
    assert_eq!(
        own.answered(Answer::Conflict, start, at(start, 2_003)),
        Next::Rest
    );
}

#[test]
fn a_lease_that_is_deleted_is_not_taken_while_its_holder_may_act() {
    let start = Instant::now();
    let (mut own, _) = seen(&held_by("other", 0), start);
    assert_eq!(
        own.answered(Answer::Missing, start, at(start, 14_999)),
        Next::Rest
    );
    let next = own.answered(Answer::Missing, start, at(start, 15_000));
    assert!(matches!(next, Next::Ask(Ask::Create(_))));
    let mut own = leader(start);
    let next = own.answered(Answer::Missing, start, at(start, 1_000));
    assert!(matches!(next, Next::Ask(Ask::Create(_))));
}

#[test]
fn what_is_given_back_is_empty_and_short() {
    let start = Instant::now();
    let mut own = leader(start);
    let Some(Ask::Update(record, version)) = own.release(at(start, 1_000)) else {
        panic!("nothing is given back");
    };
    assert_eq!(facts(&record), ("", Some(1), Some(4)));
    assert_eq!((version.as_str(), own.claim()), ("8", None));
    let (mut own, _) = seen(&held_by("other", 0), start);
    assert_eq!(own.release(at(start, 0)), None);
}
