use super::*;
use crate::server::args::{Placement, ServerArgs};

fn limits() -> Limits {
    use clap::Parser;
    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        server: ServerArgs,
    }
    Program::parse_from(["x"]).server.limits(Placement::Cluster)
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_bound_by_the_idle_time_and_headers_by_theirs() {
    let limits = limits();
    let opened = Instant::now();
    let rules = Rules::new(&limits, opened);
    let activity = Activity::new(opened);
    let due = || rules.due(&activity.now());
    assert_eq!(due(), (opened + seconds(180), Expiry::Idle));

    tokio::time::advance(seconds(100)).await;
    activity.bytes_read();
    tokio::time::advance(seconds(1)).await;
    activity.bytes_read();
    assert_eq!(due(), (opened + seconds(110), Expiry::Headers));

    activity.begin_request(true);
    assert_eq!(due(), (opened + seconds(600), Expiry::Old));
    tokio::time::advance(seconds(20)).await;
    activity.end_request();
    assert_eq!(due(), (opened + seconds(121 + 180), Expiry::Idle));
}

#[tokio::test(start_paused = true)]
async fn only_unused_connections_yield_under_pressure() {
    let limits = limits();
    let opened = Instant::now();
    let mut rules = Rules::new(&limits, opened);
    let activity = Activity::new(opened);
    rules.orders.pressed = true;
    assert_eq!(
        rules.due(&activity.now()),
        (opened + UNUSED_UNDER_PRESSURE, Expiry::Unused)
    );
    activity.begin_request(false);
    activity.end_request();
    assert_eq!(
        rules.due(&activity.now()),
        (opened + seconds(180), Expiry::Idle)
    );
}

#[tokio::test(start_paused = true)]
async fn the_delay_leaves_idle_connections_alone_and_the_stop_ends_them() {
    let limits = limits();
    let opened = Instant::now();
    let mut rules = Rules::new(&limits, opened);
    let activity = Activity::new(opened);
    activity.begin_request(false);
    activity.end_request();
    rules.orders.stage = Stage::Draining;
    rules.retired = true;
    assert_eq!(
        rules.due(&activity.now()),
        (opened + seconds(180), Expiry::Idle)
    );
    rules.orders.stage = Stage::Stopping;
    assert_eq!(rules.due(&activity.now()), (opened + QUIET, Expiry::Idle));

    // A request that has begun is waited for, and one that may begin any moment too.
    activity.bytes_read();
    assert_eq!(
        rules.due(&activity.now()),
        (opened + seconds(10), Expiry::Headers)
    );
    let fresh = Activity::new(opened);
    assert_eq!(
        rules.due(&fresh.now()),
        (opened + seconds(10), Expiry::Unused)
    );
}
