//! How much of request bodies may be in memory at once, and who waits.
//!
//! Every connection may hold [`FREE`] bytes: nearly all reviews are smaller, so nearly nobody ever
//! waits. A connection that wants to hold more first gets a place in the [`Pool`] of all
//! connections, and until then its bytes stay with the client. Nobody is refused. A place belongs
//! to a connection and not to a request: streams of one HTTP/2 connection share a window, so one
//! that waited alone could keep the others from the bytes they need to be done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::activity::Protocol;

/// What a connection holds without asking.
pub(super) const FREE: usize = 32 * 1024;
/// A place of an HTTP/1.1 connection: one body of 8 MiB, in pieces.
const H1_PLACE: usize = 10 * 1024 * 1024;
/// A place of an HTTP/2 connection, for the bodies of all its streams.
const H2_PLACE: usize = 32 * 1024 * 1024;
/// The pool must have room for at least one place of any kind.
pub(in crate::server) const SMALLEST_POOL: usize = H2_PLACE;

/// What it costs to keep one more piece, however small.
const PIECE: usize = 128;

/// Semaphores count in `u32`; kibibytes are fine enough.
const UNIT: usize = 1024;

/// What all connections of a server may hold beyond [`FREE`].
#[derive(Clone, Debug)]
pub(super) struct Pool(Arc<Semaphore>);

/// What one connection holds.
#[derive(Debug)]
pub(super) struct Budget {
    pool: Pool,
    /// How large its place is. Beyond it the connection waits for its own requests.
    place: usize,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    held: usize,
    place: Option<OwnedSemaphorePermit>,
}

/// What one request holds, until it is answered.
#[derive(Debug)]
pub(super) struct Held {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Pool {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes / UNIT)))
    }
}

impl Budget {
    pub(super) fn new(pool: Pool, protocol: Protocol) -> Self {
        let place = match protocol {
            Protocol::H1 => H1_PLACE,
            Protocol::H2 => H2_PLACE,
        };
        Self {
            pool,
            place,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    pub(super) fn request(self: &Arc<Self>) -> Held {
        Held {
            budget: Arc::clone(self),
            bytes: AtomicUsize::new(0),
        }
    }

    fn has_place(&self) -> bool {
        self.state.lock().place.is_some()
    }

    async fn wait_for_place(&self) {
        let units = u32::try_from(self.place / UNIT).unwrap_or(u32::MAX);
        let Ok(place) = Arc::clone(&self.pool.0).acquire_many_owned(units).await else {
            return; // Never closed.
        };
        let mut state = self.state.lock();
        // It may have become small again meanwhile, and then needs none.
        if state.held >= FREE {
            state.place = Some(place);
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

impl Held {
    /// Whether more may be read now.
    pub(super) fn has_room(&self) -> bool {
        let state = self.budget.state.lock();
        state.held < FREE || state.place.is_some() && state.held < self.budget.place
    }

    /// Whether the connection keeps one of the places that others may wait for.
    pub(super) fn is_on_a_place(&self) -> bool {
        self.budget.has_place()
    }

    /// How much this request holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A piece of a body more, of so many bytes.
    pub(super) fn add(&self, bytes: usize) {
        let bytes = bytes + PIECE;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.budget.state.lock().held += bytes;
    }

    /// Waits until more may be read.
    pub(super) async fn room(self: Arc<Self>) {
        loop {
            let changed = self.budget.changed.notified();
            tokio::pin!(changed);
            // Listens from here on, so that nothing between looking and waiting is missed.
            changed.as_mut().enable();
            if self.has_room() {
                return;
            }
            if self.budget.has_place() {
                changed.await;
            } else {
                tokio::select! {
                    () = changed => {}
                    () = self.budget.wait_for_place() => {}
                }
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        state.held -= self.bytes.load(Ordering::Relaxed);
        if state.held < FREE {
            state.place = None;
        }
        drop(state);
        self.budget.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn request(pool: &Pool, protocol: Protocol) -> (Arc<Budget>, Arc<Held>) {
        let budget = Arc::new(Budget::new(pool.clone(), protocol));
        let held = Arc::new(budget.request());
        (budget, held)
    }

    fn waits(held: &Arc<Held>) -> bool {
        Arc::clone(held).room().now_or_never().is_none()
    }

    #[test]
    fn small_bodies_never_wait_and_large_ones_for_a_place() {
        let pool = Pool::new(H1_PLACE);
        let (_, first) = request(&pool, Protocol::H1);
        let (_, second) = request(&pool, Protocol::H1);
        for held in [&first, &second] {
            held.add(FREE - PIECE - 1);
            assert!(!waits(held));
            held.add(1);
        }
        assert!(!waits(&first));
        assert!(waits(&second));
        first.add(H1_PLACE);
        assert!(waits(&first), "more than any router takes");
        drop(first);
        assert!(!waits(&second));
        let (_, third) = request(&pool, Protocol::H1);
        assert!(!waits(&third));
    }

    #[test]
    fn the_streams_of_a_connection_share_one_place() {
        let pool = Pool::new(H2_PLACE);
        let (budget, first) = request(&pool, Protocol::H2);
        let second = Arc::new(budget.request());
        first.add(FREE);
        assert!(!waits(&first));
        assert!(!waits(&second));
        second.add(H2_PLACE);
        assert!(waits(&first), "the place is full");
        drop(second);
        assert!(!waits(&first));

        let (_, other) = request(&pool, Protocol::H2);
        other.add(FREE);
        assert!(waits(&other));
        drop(first);
        assert!(!waits(&other));
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_whoever_ends() {
        let pool = Pool::new(H1_PLACE);
        let (_, first) = request(&pool, Protocol::H1);
        let (_, second) = request(&pool, Protocol::H1);
        first.add(FREE);
        Arc::clone(&first).room().await;
        second.add(FREE);
        tokio::join!(Arc::clone(&second).room(), async {
            tokio::task::yield_now().await;
            drop(first);
        });
        assert!(second.has_room());
    }
}
