//! What a connection is doing, and until when it may.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Limits, Orders, Stage};

/// How long a connection may be unused while others wait for its place.
pub(super) const UNUSED_UNDER_PRESSURE: Duration = Duration::from_secs(1);

/// How long an HTTP/1.1 connection is kept after its last answer when the server stops. Who calls
/// again sooner gets the news with that answer; closing under such a client could lose its call.
const QUIET: Duration = Duration::from_millis(250);

/// The protocol that was agreed on in the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    H1,
    H2,
}

/// What a connection is doing, told by its two sides and read by its guard.
#[derive(Debug)]
pub(super) struct Activity {
    protocol: Protocol,
    snapshot: Mutex<Snapshot>,
    last_answer: AtomicBool,
    body_left: AtomicBool,
    last_look: AtomicBool,
}

/// What a connection is doing at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    phase: Phase,
    since: Instant,
    /// Whether it has ever carried a request.
    used: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// The first bytes of a request have come and its headers are not complete (HTTP/1.1 only:
    /// over HTTP/2 bytes say nothing about requests).
    Headers,
    /// So many requests are being answered.
    Busy(u32),
}

/// Counts as one request being answered until it is dropped, for whatever reason.
pub(super) struct InFlight(Arc<Activity>);

impl Activity {
    pub(super) fn new(protocol: Protocol, now: Instant) -> Self {
        Self {
            protocol,
            snapshot: Mutex::new(Snapshot {
                phase: Phase::Idle,
                since: now,
                used: false,
            }),
            last_answer: AtomicBool::new(false),
            body_left: AtomicBool::new(false),
            last_look: AtomicBool::new(false),
        }
    }

    pub(super) fn now(&self) -> Snapshot {
        *self.snapshot.lock()
    }

    /// Bytes have arrived.
    pub(super) fn bytes_read(&self) {
        let mut snapshot = self.snapshot.lock();
        if snapshot.phase == Phase::Idle {
            snapshot.phase = Phase::Headers;
            snapshot.since = Instant::now();
        }
    }

    /// The headers of a request are complete. `has_body`: there is more to come.
    pub(super) fn begin_request(self: &Arc<Self>, has_body: bool) -> InFlight {
        let mut snapshot = self.snapshot.lock();
        snapshot.used = true;
        snapshot.phase = match snapshot.phase {
            Phase::Busy(others) => Phase::Busy(others + 1),
            Phase::Idle | Phase::Headers => Phase::Busy(1),
        };
        self.body_left.store(has_body, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    pub(super) fn body_complete(&self) {
        self.body_left.store(false, Ordering::Relaxed);
    }

    /// Whether the client is still sending a body that nobody reads (HTTP/1.1 only).
    pub(super) fn body_left(&self) -> bool {
        self.body_left.load(Ordering::Relaxed)
    }

    /// Whether the client is in the middle of something that is not read any more: a body, or
    /// headers that were too large or none at all.
    pub(super) fn has_more_to_come(&self) -> bool {
        self.protocol == Protocol::H1 && (self.body_left() || self.now().phase == Phase::Headers)
    }

    /// Before an idle connection is closed: the next read is to make sure that nothing came.
    pub(super) fn look_once_more(&self) {
        self.last_look.store(true, Ordering::Relaxed);
    }

    pub(super) fn takes_last_look(&self) -> bool {
        self.last_look.swap(false, Ordering::Relaxed)
    }

    pub(super) fn make_next_answer_the_last(&self) {
        self.last_answer.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_last_answer(&self) -> bool {
        self.last_answer.load(Ordering::Relaxed)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut snapshot = self.0.snapshot.lock();
        snapshot.phase = match snapshot.phase {
            Phase::Busy(count) if count > 1 => Phase::Busy(count - 1),
            Phase::Busy(_) | Phase::Idle | Phase::Headers => {
                snapshot.since = Instant::now();
                Phase::Idle
            }
        };
    }
}

/// Why a connection is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// The headers of a request did not become complete in time.
    Headers,
    /// It never carried a request, and its place is wanted.
    Unused,
    /// Nothing has happened on it for long enough.
    Idle,
    /// It has lived long enough.
    Old,
    /// It was asked to end and the client does nothing about it.
    Stuck,
}

/// Until when a connection may do what it is doing. Pure: all clocks are passed in.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    pub(super) protocol: Protocol,
    limits: &'a Limits,
    opened: Instant,
    age: Duration,
    pub(super) orders: Orders,
    /// It was told not to go on after the next answer.
    pub(super) retired: bool,
    /// Since when it has been closing.
    pub(super) closing: Option<Instant>,
}

impl<'a> Rules<'a> {
    pub(super) fn new(protocol: Protocol, limits: &'a Limits, opened: Instant) -> Self {
        Self {
            protocol,
            limits,
            opened,
            age: limits.connection_age,
            orders: Orders::default(),
            retired: false,
            closing: None,
        }
    }

    /// Whether the drain asks the connection to end with its next answer.
    ///
    /// A connection that was opened during the delay may carry one request.
    pub(super) fn must_retire(&self, now: &Snapshot) -> bool {
        match self.orders.stage {
            Stage::Serving => false,
            Stage::Draining => !self.first_may_come(now),
            Stage::Stopping => true,
        }
    }

    /// A GOAWAY before the first request would make HTTP/2 clients try again on a connection that
    /// gets the same.
    fn first_may_come(&self, now: &Snapshot) -> bool {
        self.protocol == Protocol::H2 && !now.used
    }

    /// When the connection is overdue next, and with what.
    pub(super) fn due(&self, now: &Snapshot) -> (Instant, Expiry) {
        if !self.retired && self.must_retire(now) {
            return (self.opened, Expiry::Old);
        }
        let by_phase = self.due_by_phase(now);
        let by_age = (self.opened + self.age, Expiry::Old);
        if self.retired || self.first_may_come(now) || by_phase.0 <= by_age.0 {
            by_phase
        } else {
            by_age
        }
    }

    fn due_by_phase(&self, now: &Snapshot) -> (Instant, Expiry) {
        let headers = self.limits.header_time;
        match now.phase {
            // How long an answer may take is the router's business. An HTTP/2 connection that is
            // busy for ever is still found by its pings.
            Phase::Busy(_) => (self.opened + FAR, Expiry::Idle),
            Phase::Headers if self.protocol == Protocol::H1 => {
                (now.since + headers, Expiry::Headers)
            }
            Phase::Idle | Phase::Headers => {
                if let Some(closing) = self.closing {
                    return (closing.max(now.since) + headers, Expiry::Stuck);
                }
                let stopping = self.orders.stage == Stage::Stopping;
                if !now.used && (stopping || self.orders.pressed) {
                    // Whoever has just connected is about to send.
                    let grace = if stopping {
                        headers
                    } else {
                        UNUSED_UNDER_PRESSURE
                    };
                    return (self.opened + grace, Expiry::Unused);
                }
                let idle = match self.protocol {
                    Protocol::H1 if stopping => QUIET,
                    // A GOAWAY says which calls were not taken, so there is nothing to wait for.
                    Protocol::H2 if stopping => Duration::ZERO,
                    Protocol::H1 | Protocol::H2 => self.limits.idle_time,
                };
                (now.since + idle, Expiry::Idle)
            }
        }
    }
}

/// Longer than any connection lives.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
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
        let rules = Rules::new(Protocol::H1, &limits, opened);
        let activity = Arc::new(Activity::new(Protocol::H1, opened));
        let due = || rules.due(&activity.now());
        assert_eq!(due(), (opened + seconds(180), Expiry::Idle));

        tokio::time::advance(seconds(100)).await;
        activity.bytes_read();
        tokio::time::advance(seconds(1)).await;
        activity.bytes_read();
        assert_eq!(due(), (opened + seconds(110), Expiry::Headers));

        let request = activity.begin_request(true);
        assert_eq!(due(), (opened + seconds(600), Expiry::Old));
        tokio::time::advance(seconds(20)).await;
        drop(request);
        assert_eq!(due(), (opened + seconds(121 + 180), Expiry::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_over_http2_are_no_headers() {
        let limits = limits();
        let opened = Instant::now();
        let rules = Rules::new(Protocol::H2, &limits, opened);
        let activity = Arc::new(Activity::new(Protocol::H2, opened));
        let first = activity.begin_request(false);
        let second = activity.begin_request(false);
        drop(first);
        assert_eq!(rules.due(&activity.now()).1, Expiry::Old);
        drop(second);
        activity.bytes_read();
        assert_eq!(
            rules.due(&activity.now()),
            (opened + seconds(180), Expiry::Idle)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_unused_connections_yield_under_pressure() {
        let limits = limits();
        let opened = Instant::now();
        let mut rules = Rules::new(Protocol::H1, &limits, opened);
        let activity = Arc::new(Activity::new(Protocol::H1, opened));
        rules.orders.pressed = true;
        assert_eq!(
            rules.due(&activity.now()),
            (opened + UNUSED_UNDER_PRESSURE, Expiry::Unused)
        );
        drop(activity.begin_request(false));
        assert_eq!(
            rules.due(&activity.now()),
            (opened + seconds(180), Expiry::Idle)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_delay_leaves_idle_connections_alone_and_the_stop_ends_them() {
        let limits = limits();
        let opened = Instant::now();
        let mut rules = Rules::new(Protocol::H1, &limits, opened);
        let activity = Arc::new(Activity::new(Protocol::H1, opened));
        drop(activity.begin_request(false));
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
        let fresh = Arc::new(Activity::new(Protocol::H1, opened));
        assert_eq!(
            rules.due(&fresh.now()),
            (opened + seconds(10), Expiry::Unused)
        );
    }
}
