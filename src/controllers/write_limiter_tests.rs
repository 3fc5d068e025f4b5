use super::*;
use crate::kube_api::kind::Kind;

#[test]
fn a_fight_is_slowed_down_and_told_once_and_forgotten() {
    let id = |name| Id::new(Kind::MutatingWebhooks, name);
    let (ours, other) = (id("a"), id("b"));
    let mut limiter = WriteLimiter::default();
    let mut now = Instant::now();
    let mut writes = 0;
    let mut told = 0;
    let start = now;
    // Another client changes it back every 50 ms for ten minutes.
    while now - start < Duration::from_secs(600) {
        match limiter.turn(&ours, now) {
            Turn::Now => {
                limiter.wrote(&ours, false, now);
                writes += 1;
            }
            Turn::Wait { until, first } => {
                assert!(until - now <= Duration::from_secs(60));
                told += u32::from(first);
            }
        }
        assert_eq!(limiter.turn(&other, now), Turn::Now);
        now += Duration::from_millis(50);
    }
    assert_eq!(told, 1);
    // Six at once, six doublings to a minute, then one a minute.
    assert!((18..=24).contains(&writes), "{writes}");
    now += PEACE;
    limiter.wrote(&other, false, now);
    assert_eq!(limiter.turn(&ours, now), Turn::Now);
    limiter.wrote(&ours, false, now);
    assert_eq!(limiter.turn(&ours, now), Turn::Now);
}

#[test]
fn what_is_refused_waits_from_the_first_time_on_and_is_no_fight() {
    let id = Id::new(Kind::ValidatingPolicy, "a");
    let mut limiter = WriteLimiter::default();
    let start = Instant::now();
    let (mut now, mut tries) = (start, 0);
    while now - start < Duration::from_secs(600) {
        match limiter.turn(&id, now) {
            Turn::Now => {
                limiter.wrote(&id, true, now);
                tries += 1;
            }
            Turn::Wait { until, first } => {
                assert!(until - now <= Duration::from_secs(60) && !first);
            }
        }
        now += Duration::from_millis(50);
    }
    // Six doublings to a minute, then one a minute.
    assert!((12..=18).contains(&tries), "{tries}");
}
