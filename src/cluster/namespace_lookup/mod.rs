//! The live look-up of one namespace that the view does not hold (case 21).
//!
//! Requests for the same namespace share one look-up (case 67), each look-up has a deadline, and
//! all are counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::cluster::slim;

/// Asks the source for the namespace of that name; `None` if there is none.
pub type Fetch = Arc<
    dyn Fn(String) -> BoxFuture<'static, Result<Option<slim::Namespace>, String>> + Send + Sync,
>;

/// Why a look-up found no namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    #[error("it does not exist")]
    NotFound,
    #[error("{0}")]
    Failed(String),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
}

type Outcome = Result<Arc<slim::Namespace>, LookupError>;
type Flight = Shared<BoxFuture<'static, Outcome>>;

#[derive(Clone)]
pub struct NamespaceLookup {
    inner: Arc<Inner>,
}

struct Inner {
    fetch: Fetch,
    deadline: Duration,
    /// Weak, so that a look-up ends with the last request that waits for it, also when that
    /// request is given up or the source panics.
    flights: Mutex<HashMap<String, WeakShared<BoxFuture<'static, Outcome>>>>,
    count: AtomicU64,
    /// A burst for many namespaces waits here and not at the source.
    places: Semaphore,
}

/// Most look-ups at once.
const MOST_AT_ONCE: usize = 32;

impl NamespaceLookup {
    /// Asks `fetch`, for `deadline` at most.
    pub fn new(fetch: Fetch, deadline: Duration) -> Self {
        let inner = Arc::new(Inner {
            fetch,
            deadline,
            flights: Mutex::new(HashMap::new()),
            count: AtomicU64::new(0),
            places: Semaphore::new(MOST_AT_ONCE),
        });
        Self { inner }
    }

    /// How many look-ups were made; requests that shared one count once.
    pub fn count(&self) -> u64 {
        self.inner.count.load(Ordering::Relaxed)
    }

    /// The namespace as the source has it now.
    ///
    /// # Errors
    /// There is none, the source failed, or it took too long.
    pub fn namespace(&self, name: &str) -> Flight {
        let mut flights = self.inner.flights.lock();
        if let Some(flight) = flights.get(name).and_then(WeakShared::upgrade) {
            return flight;
        }
        self.inner.count.fetch_add(1, Ordering::Relaxed);
        let inner = Arc::clone(&self.inner);
        let asked_for = name.to_owned();
        let flight = async move {
            let deadline = inner.deadline;
            let asked = async {
                // Never closed.
                let _place = inner.places.acquire().await;
                (inner.fetch)(asked_for).await
            };
            match tokio::time::timeout(deadline, asked).await {
                Ok(Ok(Some(namespace))) => Ok(Arc::new(namespace)),
                Ok(Ok(None)) => Err(LookupError::NotFound),
                Ok(Err(problem)) => Err(LookupError::Failed(problem)),
                Err(_) => Err(LookupError::TimedOut(deadline)),
            }
        };
        let flight = flight.boxed().shared();
        flights.retain(|_, flight| flight.upgrade().is_some());
        if let Some(weak) = flight.downgrade() {
            flights.insert(name.to_owned(), weak);
        }
        flight
    }
}

#[cfg(test)]
mod tests;
