//! How much of request bodies may be in memory at once, and which requests wait.
//!
//! Every request may hold [`SMALL_BODY`] bytes: nearly all reviews are smaller, so hardly any ever
//! waits. A request that needs more first gets a permit for [`LARGE_BODY`] bytes from the [`Pool`]
//! that all connections share. Until then its bytes stay with the client; none is refused. A
//! connection reads one request at a time, so these are bounds of connections too.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

use crate::server::args::LARGE_BODY;

/// Bytes that a request holds without a permit.
pub(super) const SMALL_BODY: usize = 16 * 1024;

/// What it costs to keep one more piece, however small.
const PIECE: usize = 128;

/// A body with a permit must bring so many bytes in so much time: a client that sends nothing would
/// keep the permit from others. The API server sends the largest body in a few milliseconds.
const PACE: usize = 256 * 1024;
const PACE_TIME: Duration = Duration::from_secs(3);

/// Permits for large bodies, shared by all connections of a server.
#[derive(Clone, Debug)]
pub(super) struct Pool(Arc<Semaphore>);

/// That of one request, once it needs one. The request keeps it until it is answered: what the
/// router has read is in memory until then.
pub(super) type Permit = Arc<OnceLock<OwnedSemaphorePermit>>;

type Waiting = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// What the body of one request holds, and whether it may hold more.
pub(super) struct Share {
    pool: Pool,
    permit: Permit,
    bytes: usize,
    waiting: Option<Waiting>,
    /// Ends the time in which a body with a permit must bring its next [`PACE`] bytes.
    hurry: Option<Pin<Box<Sleep>>>,
    /// `bytes` when that time last began.
    paid: usize,
}

impl Pool {
    pub(super) fn new(bytes: u32) -> Self {
        Self(Arc::new(Semaphore::new(bytes as usize / LARGE_BODY)))
    }
}

impl Share {
    pub(super) fn new(pool: Pool, permit: Permit) -> Self {
        Self {
            pool,
            permit,
            bytes: 0,
            waiting: None,
            hurry: None,
            paid: 0,
        }
    }

    /// The body has brought one more piece, of so many bytes.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes + PIECE;
    }

    /// Ready when one more piece may be read.
    ///
    /// # Errors
    /// `TimedOut`: the body has a permit and came too slowly. Any other kind: keeping its pieces
    /// costs more than a permit allows.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.bytes < SMALL_BODY {
            return Poll::Ready(Ok(()));
        }
        if self.bytes >= LARGE_BODY {
            let problem = io::Error::other("it came in too many small pieces");
            return Poll::Ready(Err(problem));
        }
        if self.permit.get().is_none() {
            let semaphore = &self.pool.0;
            let waiting = self
                .waiting
                .get_or_insert_with(|| Box::pin(Arc::clone(semaphore).acquire_owned()));
            let permit = ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
            // The semaphore is never closed, and no other place sets the permit.
            if let Ok(permit) = permit {
                drop(self.permit.set(permit));
            }
        }
        Poll::Ready(self.keeps_pace(cx))
    }

    fn keeps_pace(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let hurry = self.hurry.get_or_insert_with(|| Box::pin(sleep(PACE_TIME)));
        if self.bytes >= self.paid + PACE {
            self.paid = self.bytes;
            hurry.as_mut().reset(Instant::now() + PACE_TIME);
        }
        match hurry.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
