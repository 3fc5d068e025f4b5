//! When a certificate is due for renewal.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::BACKDATED;

/// The life of a certificate, from its issue to its end. The time before, [`BACKDATED`], is no part of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    issued: Timestamp,
    end: Timestamp,
}

impl Life {
    pub(super) fn new(not_before: Timestamp, end: Timestamp) -> Self {
        let issued = later(not_before, BACKDATED).min(end);
        Self { issued, end }
    }

    /// When two thirds of it are over.
    pub(super) fn due(self) -> Timestamp {
        later(self.issued, self.length() / 3 * 2)
    }

    pub(super) fn is_due(self, now: Timestamp) -> bool {
        now >= self.due()
    }

    /// Whether less than a tenth of it is left.
    pub(super) fn is_ending(self, now: Timestamp) -> bool {
        ahead(now, self.end) < self.length() / 10
    }

    fn length(self) -> Duration {
        ahead(self.issued, self.end)
    }
}

/// The time from now to then; zero if then is over.
pub(super) fn ahead(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

/// The later time, at most [`Timestamp::MAX`].
fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
