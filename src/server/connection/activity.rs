//! What a connection is doing, and until when it may.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::orders::{Orders, Stage};
use crate::server::args::Limits;

/// How long a connection may be unused while others wait for its place.
pub(super) const UNUSED_UNDER_PRESSURE: Duration = Duration::from_secs(1);

/// How long a connection is kept after its last answer when the server stops. A client that calls
/// again sooner gets `Connection: close` with that answer; closing earlier could lose its call.
const QUIET: Duration = Duration::from_millis(250);

/// What a connection is doing, told by its two sides and read by its guard.
#[derive(Debug)]
pub(super) struct Activity {
    snapshot: Mutex<Snapshot>,
    last_answer: AtomicBool,
    body_left: AtomicBool,
    last_look: AtomicBool,
    pub(super) asked: Notify,
}

/// What a connection is doing at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    phase: Phase,
    since: Instant,
    /// Whether it has ever carried a request.
    used: bool,
    /// It is idle, and was asked to make room for another connection.
    asked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// The first bytes of a request have come and its headers are not complete.
    Headers,
    /// A request is being answered.
    Busy,
}

impl Activity {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            snapshot: Mutex::new(Snapshot {
                phase: Phase::Idle,
                since: now,
                used: false,
                asked: false,
            }),
            last_answer: AtomicBool::new(false),
            body_left: AtomicBool::new(false),
            last_look: AtomicBool::new(false),
            asked: Notify::new(),
        }
    }

    pub(super) fn now(&self) -> Snapshot {
        *self.snapshot.lock()
    }

    /// Whether it was ever used, and since when it is idle; `None` if it is in use, or was asked to leave.
    pub(super) fn idle(&self) -> Option<(bool, Instant)> {
        let now = self.now();
        (now.phase == Phase::Idle && !now.asked).then_some((now.used, now.since))
    }

    /// Its place is wanted. It closes unless a request comes first.
    pub(super) fn ask_to_leave(&self) {
        let mut snapshot = self.snapshot.lock();
        snapshot.asked = snapshot.phase == Phase::Idle;
        drop(snapshot);
        self.asked.notify_one();
    }

    pub(super) fn bytes_read(&self) {
        let mut snapshot = self.snapshot.lock();
        if snapshot.phase == Phase::Idle {
            snapshot.phase = Phase::Headers;
            snapshot.asked = false;
            snapshot.since = Instant::now();
        }
    }

    /// The headers of a request are complete. `has_body`: there is more to come.
    pub(super) fn begin_request(&self, has_body: bool) {
        let mut snapshot = self.snapshot.lock();
        (snapshot.used, snapshot.asked) = (true, false);
        snapshot.phase = Phase::Busy;
        self.body_left.store(has_body, Ordering::Relaxed);
    }

    /// The answer is made. A request that is dropped without one takes its connection with it.
    pub(super) fn end_request(&self) {
        let mut snapshot = self.snapshot.lock();
        snapshot.phase = Phase::Idle;
        snapshot.since = Instant::now();
    }

    pub(super) fn body_complete(&self) {
        self.body_left.store(false, Ordering::Relaxed);
    }

    /// Whether the client is still sending a body that the router does not read.
    pub(super) fn body_left(&self) -> bool {
        self.body_left.load(Ordering::Relaxed)
    }

    /// Whether the client is in the middle of something that is not read any more: a body, headers
    /// that were too large, or bytes that are no HTTP.
    pub(super) fn has_more_to_come(&self) -> bool {
        self.body_left() || self.now().phase == Phase::Headers
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
    /// The server asked it to end and the client does nothing about it.
    Stuck,
}

/// Until when a connection may do what it is doing. Pure: all clocks are passed in.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    limits: &'a Limits,
    opened: Instant,
    pub(super) orders: Orders,
    /// Its next answer is its last.
    pub(super) retired: bool,
    /// Since when it has been closing.
    pub(super) closing: Option<Instant>,
}

impl<'a> Rules<'a> {
    pub(super) fn new(limits: &'a Limits, opened: Instant) -> Self {
        Self {
            limits,
            opened,
            orders: Orders::default(),
            retired: false,
            closing: None,
        }
    }

    /// When the connection is overdue next, and with what.
    pub(super) fn due(&self, now: &Snapshot) -> (Instant, Expiry) {
        let by_phase = self.due_by_phase(now);
        let by_age = (self.opened + self.limits.connection_age, Expiry::Old);
        if self.retired || by_phase.0 <= by_age.0 {
            by_phase
        } else {
            by_age
        }
    }

    fn due_by_phase(&self, now: &Snapshot) -> (Instant, Expiry) {
        let headers = self.limits.header_time;
        match now.phase {
            // How long an answer may take is the router's business.
            Phase::Busy => return (self.opened + FAR, Expiry::Idle),
            Phase::Headers => return (now.since + headers, Expiry::Headers),
            Phase::Idle => {}
        }
        if let Some(closing) = self.closing {
            return (closing.max(now.since) + headers, Expiry::Stuck);
        }
        if now.asked && now.used {
            return (now.since, Expiry::Idle);
        }
        let stopping = self.orders.stage == Stage::Stopping;
        // A client that has just connected is about to send.
        match (now.used, stopping, self.orders.pressed) {
            (false, true, _) => (self.opened + headers, Expiry::Unused),
            (false, false, _) if now.asked => (now.since, Expiry::Unused),
            (false, false, true) => (self.opened + UNUSED_UNDER_PRESSURE, Expiry::Unused),
            (true, true, _) => (now.since + QUIET, Expiry::Idle),
            (_, false, _) => (now.since + self.limits.idle_time, Expiry::Idle),
        }
    }
}

/// Longer than any connection lives.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

#[cfg(test)]
#[path = "activity_tests.rs"]
mod tests;
