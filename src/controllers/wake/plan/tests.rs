use meshgate_core::decision::reason::Reason;
use proptest::prelude::{Strategy, any, prop, proptest};
use proptest::test_runner::Config;

use super::*;

const SECOND: i64 = 1_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_000_000_000 + millis).unwrap()
}

fn set(number: usize) -> Set {
    vec![(number, None)]
}

fn blocked(uid: u128, number: usize, outlook: Outlook) -> Blocked {
    Blocked {
        uid: Uid(uid),
        injector: number,
        set: set(number),
        since: at(-100 * SECOND + i64::try_from(uid).unwrap()),
        woken: None,
        outlook,
    }
}

fn usable(uids: std::ops::Range<u128>) -> Vec<Blocked> {
    uids.map(|uid| blocked(uid, 0, Outlook::Usable)).collect()
}

/// Which are woken at these times, in milliseconds.
fn woken(waves: &mut Waves, blocked: &[Blocked], times: &[i64]) -> Vec<(i64, u128)> {
    let mut all = Vec::new();
    for time in times {
        let wakes = waves.plan(blocked, at(*time));
        all.extend(wakes.iter().map(|wake| (*time, wake.uid.0)));
    }
    all
}

fn looks(until: i64) -> Vec<i64> {
    (0..=until / 200).map(|look| look * 200).collect()
}

#[test]
fn while_an_injector_is_away_none_is_woken() {
    for outlook in [Outlook::Waits, Outlook::Refused(Reason::InvalidValue)] {
        let all = [blocked(1, 0, outlook), blocked(2, 0, outlook)];
        assert_eq!(woken(&mut Waves::default(), &all, &looks(60 * SECOND)), []);
    }
}

#[test]
fn without_a_proof_there_is_one_scout_after_another_ever_more_slowly() {
    let mut waves = Waves::default();
    let scouts = woken(&mut waves, &usable(0..100), &looks(100 * SECOND));
    let times: Vec<i64> = scouts.iter().map(|(time, _)| *time / SECOND).collect();
    // 3 s for a proof, and then 1, 2, 4, 8, 16, 30 s.
    assert_eq!(times, [0, 4, 9, 16, 27, 46, 79]);
    let uids: Vec<u128> = scouts.iter().map(|(_, uid)| *uid).collect();
    assert_eq!(uids, [0, 1, 2, 3, 4, 5, 6], "the oldest, and each once");
}

#[test]
fn after_the_proof_the_rest_follow_the_oldest_first_and_none_twice() {
    let mut waves = Waves::default();
    let all = usable(0..300);
    assert_eq!(woken(&mut waves, &all, &[0, 200, 400]), [(0, 0)]);
    assert!(waves.proved(&set(0), at(500)));
    assert!(!waves.proved(&set(0), at(510)), "the second pod is no news");
    let times: Vec<i64> = (600..9_900).step_by(100).collect();
    let rest = woken(&mut waves, &all, &times);
    let uids: Vec<u128> = rest.iter().map(|(_, uid)| *uid).collect();
    assert_eq!(uids, (1..300).collect::<Vec<_>>());
    let (last, _) = rest.last().unwrap();
    assert!((5 * SECOND..7 * SECOND).contains(last), "{last}");
}

#[test]
fn an_injector_that_goes_away_stops_its_wave_and_needs_a_new_proof() {
    let mut waves = Waves::default();
    let both = |outlook| {
        let others = (300..303).map(|uid| blocked(uid, 1, outlook));
        usable(0..300).into_iter().chain(others).collect::<Vec<_>>()
    };
    let all = both(Outlook::Usable);
    woken(&mut waves, &all, &[0]);
    waves.proved(&set(0), at(100));
    waves.proved(&set(1), at(100));
    assert!(woken(&mut waves, &all, &[200]).len() > 10);
    let gone: Vec<_> = both(Outlook::Usable)
        .into_iter()
        .map(|one| {
            if one.set == set(0) {
                blocked(one.uid.0, 0, Outlook::Waits)
            } else {
                one
            }
        })
        .collect();
    let others = woken(&mut waves, &gone, &[5_000, 5_200]);
    assert!(others.iter().all(|(_, uid)| *uid >= 300), "{others:?}");
    assert!(
        !waves.proved(&set(0), at(5_300)),
        "what comes now proves nothing"
    );
    // It is back: all may be tried again, one at first.
    let back = woken(&mut waves, &usable(0..300), &[8_000, 8_200, 8_400]);
    assert_eq!(back, [(8_000, 0)]);
}

#[test]
fn one_that_stays_short_is_woken_again_ever_more_slowly() {
    let mut waves = Waves::default();
    let all = usable(0..1);
    let mut times = Vec::new();
    for look in looks(3_000 * SECOND) {
        // Others of the set come all the while.
        waves.proved(&set(0), at(look));
        times.extend(
            woken(&mut waves, &all, &[look])
                .iter()
                .map(|(time, _)| time / SECOND),
        );
    }
    assert_eq!(times, [0, 10, 30, 70, 150, 310, 630, 1_230, 1_830, 2_430]);
}

#[test]
fn a_write_that_failed_is_tried_again_and_a_throttle_holds_for_all() {
    let cases = [
        (Outcome::Accepted, 10_000),
        (Outcome::Conflict, 400),
        (Outcome::Dropped, 400),
        (Outcome::Failed, 5_000),
        (Outcome::Throttled(SignedDuration::from_secs(7)), 7_000),
    ];
    for (outcome, again) in cases {
        let mut waves = Waves::default();
        let all = usable(0..1);
        woken(&mut waves, &all, &[0]);
        waves.proved(&set(0), at(0));
        waves.answered(Uid(0), outcome, at(0));
        let next = woken(&mut waves, &all, &looks(20 * SECOND));
        assert_eq!(next.first(), Some(&(again, 0)), "{outcome:?}");
    }
    let mut waves = Waves::default();
    let all = usable(0..50);
    woken(&mut waves, &all, &[0]);
    waves.proved(&set(0), at(0));
    waves.answered(
        Uid(0),
        Outcome::Throttled(SignedDuration::from_secs(2)),
        at(0),
    );
    assert_eq!(woken(&mut waves, &all, &[200, 1_800]), []);
    assert!(!woken(&mut waves, &all, &[2_000]).is_empty());
}

#[test]
fn a_new_leader_goes_on_where_the_old_one_was() {
    // Twenty of forty were woken a moment ago, and one of these has its pod.
    let mut all = usable(0..40);
    for one in &mut all[..20] {
        one.woken = Some(at(-2_000 + 10 * i64::try_from(one.uid.0).unwrap()));
    }
    let mut waves = Waves::default();
    for one in &all[..20] {
        waves.resume(set(0), one.woken.unwrap(), one.woken.unwrap());
    }
    assert!(waves.proved(&set(0), at(0)));
    let rest: Vec<u128> = woken(&mut waves, &all, &[0, 200])
        .iter()
        .map(|(_, uid)| *uid)
        .collect();
    assert_eq!(rest, (20..40).collect::<Vec<_>>());
    // None has its pod: the scout of the old leader has its time.
    let mut waves = Waves::default();
    waves.resume(set(0), at(-1_000), at(-1_000));
    assert_eq!(
        woken(&mut waves, &usable(0..3), &[0, 2_800, 3_000]),
        [(3_000, 0)]
    );
}

/// A cluster: injectors come and go, some break while they look usable, and owners get their pods if they are tried while all
/// is well.
#[derive(Debug, Clone)]
struct World {
    /// Per owner: its set, and whether it lacks pods for another reason.
    owners: Vec<(usize, bool)>,
    /// At which look an injector changes: whether it is usable, and whether it works.
    changes: Vec<(usize, usize, bool, bool)>,
    /// Which writes fail.
    failures: Vec<u8>,
}

const SETS: usize = 3;
const CHAOS: usize = 300;

fn worlds() -> impl Strategy<Value = World> {
    let owners = prop::collection::vec((0..SETS, prop::bool::weighted(0.1)), 0..120);
    let change = (0..CHAOS, 0..SETS, any::<bool>(), any::<bool>());
    let changes = prop::collection::vec(change, 0..12);
    let failures = prop::collection::vec(0..12_u8, 40);
    (owners, changes, failures).prop_map(|(owners, changes, failures)| World {
        owners,
        changes,
        failures,
    })
}

/// What has happened so far.
struct Life<'w> {
    world: &'w World,
    waves: Waves,
    /// Whether each injector looks usable, and whether it works.
    injectors: [(bool, bool); SETS],
    present: Vec<bool>,
    annotations: Vec<Option<Timestamp>>,
    writes: Vec<i64>,
    scouts: [Option<i64>; SETS],
}

impl Life<'_> {
    fn blocked(&self) -> Vec<Blocked> {
        let open = self.world.owners.iter().enumerate();
        let open = open.filter(|(uid, _)| !self.present[*uid]);
        open.map(|(uid, (number, _))| {
            let outlook = if self.injectors[*number].0 {
                Outlook::Usable
            } else {
                Outlook::Waits
            };
            Blocked {
                woken: self.annotations[uid],
                ..blocked(u128::try_from(uid).unwrap(), *number, outlook)
            }
        })
        .collect()
    }

    fn wake(&mut self, wake: &Wake, outcome: Outcome, time: i64) {
        let uid = usize::try_from(wake.uid.0).unwrap();
        let (number, is_short) = self.world.owners[uid];
        let (is_usable, works) = self.injectors[number];
        assert!(!self.present[uid] && is_usable, "{wake:?} is not blocked");
        self.writes.push(time);
        if wake.is_scout {
            let before = self.scouts[number].replace(time);
            let is_apart = before.is_none_or(|before| time - before >= 3 * SECOND);
            assert!(is_apart, "two scouts: {before:?} and {time}");
        }
        self.waves.answered(wake.uid, outcome, at(time));
        if outcome != Outcome::Accepted {
            return;
        }
        self.annotations[uid] = Some(at(time));
        if works && !is_short {
            self.present[uid] = true;
            if self.waves.proved(&set(number), at(time + 100)) {
                self.scouts[number] = None;
            }
        }
    }

    fn look(&mut self, time: i64, outcomes: &mut impl Iterator<Item = Outcome>) {
        let all = self.blocked();
        for wake in self.waves.plan(&all, at(time)) {
            let outcome = outcomes.next().unwrap();
            self.wake(&wake, outcome, time);
        }
        let recent = self.writes.iter().filter(|write| time - **write < SECOND);
        let most = usize::try_from(RATE + BURST).unwrap();
        assert!(recent.count() <= most, "too many writes in a second");
    }
}

/// Lives through it and checks every wake on the way. In the end all is well for longer than the longest pause.
fn live(world: &World) {
    let count = world.owners.len();
    let mut life = Life {
        world,
        waves: Waves::default(),
        injectors: [(false, false); SETS],
        present: vec![false; count],
        annotations: vec![None; count],
        writes: Vec::new(),
        scouts: [None; SETS],
    };
    let outcome = |number: &u8| match number {
        0 => Outcome::Failed,
        1 => Outcome::Conflict,
        _ => Outcome::Accepted,
    };
    let mut outcomes = world.failures.iter().map(outcome).cycle();
    for look in 0..CHAOS {
        let changes = world.changes.iter().filter(|one| one.0 == look);
        for (_, number, is_usable, works) in changes {
            life.injectors[*number] = (*is_usable, *works);
        }
        life.look(i64::try_from(look).unwrap() * 200, &mut outcomes);
    }
    life.injectors = [(true, true); SETS];
    for second in 0..700 {
        let chaos = i64::try_from(CHAOS).unwrap() * 200;
        let mut accepted = std::iter::repeat(Outcome::Accepted);
        life.look(chaos + second * SECOND, &mut accepted);
    }
    for (uid, (_, is_short)) in world.owners.iter().enumerate() {
        assert!(life.present[uid] || *is_short, "{uid} was never woken");
    }
}

proptest! {
    #![proptest_config(Config { cases: 64, ..Config::default() })]

    #[test]
    fn whatever_happens_wakes_are_few_and_right_and_reach_all(world in worlds()) {
        live(&world);
    }
}
