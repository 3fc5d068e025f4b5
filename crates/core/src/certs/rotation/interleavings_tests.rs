//! Several processes, each with what it saw some time ago, a crash at every point, Secrets that
//! people delete and damage, replicas that restart: at no time does a caller that trusts what is
//! registered, or was a moment ago, meet a leaf that it cannot verify; and in the end all is whole.

#[path = "world_tests.rs"]
mod world;

use jiff::SignedDuration;
use proptest::prelude::*;

use self::world::World;
use super::*;

const DAY: u64 = 86_400;
const LIFETIMES: Lifetimes = Lifetimes {
    ca: Duration::from_secs(300 * DAY),
    leaf: Duration::from_secs(90 * DAY),
};
/// How old what an API server goes by may be.
const LAG: Duration = Duration::from_secs(3);
/// Where nothing is told of API servers' caches.
const NO_LAG: Duration = Duration::ZERO;
/// How old what a process saw may be when it writes the registration: its claim to lead is fresh.
const CLAIM: Duration = Duration::from_secs(3);
/// Gate and check are written one after the other.
const ENTRIES: usize = 2;

#[derive(Debug, Clone)]
enum Event {
    Look(usize),
    /// Does what comes next after what was seen last, however long ago.
    Act(usize),
    Register(usize, usize),
    Crash(usize),
    Reload(usize),
    Restart(usize),
    Seconds(u64),
    /// Ten days, unless something that is served would be about to end.
    Days,
    DeleteCa,
    DeleteLeaf,
    DamageCa,
    DamageLeaf,
    /// Another maker replaces CA and leaf in one write.
    Replace,
}

fn event() -> impl Strategy<Value = Event> {
    let process = 0..3_usize;
    prop_oneof![
        8 => process.clone().prop_map(Event::Look),
        8 => process.clone().prop_map(Event::Act),
        6 => (process.clone(), 0..ENTRIES).prop_map(|(by, entry)| Event::Register(by, entry)),
        1 => process.clone().prop_map(Event::Crash),
        6 => process.clone().prop_map(Event::Reload),
        1 => process.prop_map(Event::Restart),
        8 => (1..7_u64).prop_map(Event::Seconds),
        3 => Just(Event::Days),
        1 => Just(Event::DeleteCa),
        1 => Just(Event::DeleteLeaf),
        1 => Just(Event::DamageCa),
        1 => Just(Event::DamageLeaf),
    ]
}

/// Of certificates that another maker makes.
fn given(restarts: u32) -> impl Strategy<Value = Event> {
    let process = 0..3_usize;
    prop_oneof![
        8 => process.clone().prop_map(Event::Look),
        6 => (process.clone(), 0..ENTRIES).prop_map(|(by, entry)| Event::Register(by, entry)),
        1 => process.clone().prop_map(Event::Crash),
        6 => process.clone().prop_map(Event::Reload),
        restarts => process.prop_map(Event::Restart),
        8 => (1..7_u64).prop_map(Event::Seconds),
        2 => Just(Event::Days),
        1 => Just(Event::Replace),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_caller_meets_a_leaf_that_it_cannot_verify(
        events in prop::collection::vec(event(), 0..250)
    ) {
        let mut world = World::new(false, LAG);
        for event in &events {
            world.happens(event);
        }
        world.converges();
    }

    #[test]
    fn nor_where_another_maker_replaces_ca_and_leaf_in_one_write(
        events in prop::collection::vec(given(0), 0..250)
    ) {
        let mut world = World::new(true, LAG);
        for event in &events {
            world.happens(event);
        }
    }

    #[test]
    fn nor_where_replicas_restart_meanwhile(
        events in prop::collection::vec(given(1), 0..250)
    ) {
        let mut world = World::new(true, NO_LAG);
        for event in &events {
            // A process that stops between two entries would leave them as they are for ever.
            if let Event::Register(by, _) = event {
                (0..ENTRIES).for_each(|entry| world.register(*by, entry));
            } else {
                world.happens(event);
            }
        }
    }
}
