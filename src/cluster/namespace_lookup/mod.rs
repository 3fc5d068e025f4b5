//! The live look-up of one namespace that the view does not hold, or may hold as it was before (case 21).
//!
//! Each peer has an account and places of its own, so that a client that asks without end takes nothing
//! from the API server. Of one peer, requests for the same namespace share a look-up that has not begun yet
//! (case 67): one that has may bring what was before their question. Each look-up has a deadline, and all are
//! counted.

mod account;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared, ready};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use self::account::Account;
use crate::cluster::slim;
use meshgate_core::text::MAX_DNS_LABEL;

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
    /// The peer has used up its account.
    #[error("the admission server is asked about too many namespaces at once")]
    TooMany,
}

/// For whom a namespace is looked up.
#[derive(Debug, Clone, Copy)]
pub struct Asker {
    /// Address of the client.
    pub peer: IpAddr,
    /// Whether the view holds a namespace of this name: then a client did not invent it.
    pub is_held: bool,
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
    peers: Mutex<HashMap<IpAddr, Peer>>,
    count: AtomicU64,
    /// A burst of many peers waits here and not at the source.
    places: Semaphore,
}

/// What one client asks for.
struct Peer {
    account: Account,
    places: Arc<Semaphore>,
    lanes: HashMap<String, Lane>,
}

/// The look-ups of one namespace: at most one is at the source, and one waits.
struct Lane {
    turn: Arc<Semaphore>,
    /// Weak, so that a look-up ends with the last request that waits for it, also when that
    /// request is given up or the source panics.
    last: Option<WeakShared<BoxFuture<'static, Outcome>>>,
    has_begun: Arc<AtomicBool>,
}

/// Most look-ups at once.
const MOST_AT_ONCE: usize = 32;
/// Most of them for one peer. Two API servers that ask without a pause leave none idle.
const MOST_FOR_PEER: usize = MOST_AT_ONCE / 2;

impl NamespaceLookup {
    /// Asks `fetch`, for `deadline` at most.
    pub fn new(fetch: Fetch, deadline: Duration) -> Self {
        let inner = Arc::new(Inner {
            fetch,
            deadline,
            peers: Mutex::new(HashMap::new()),
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
    /// There is none, the source failed or took too long, or the peer asks too often.
    pub fn namespace(&self, asker: Asker, name: &str) -> Flight {
        // No namespace has such a name, which may be as long as a body.
        if name.len() > MAX_DNS_LABEL {
            return ready(Err(LookupError::NotFound)).boxed().shared();
        }
        let now = Instant::now();
        let mut peers = self.inner.peers.lock();
        // A peer that is new makes room for itself: those that are quiet are forgotten.
        if !peers.contains_key(&asker.peer) {
            peers.retain(|_, peer| peer.is_busy(now));
        }
        let peer = peers.entry(asker.peer).or_insert_with(|| Peer::new(now));
        if let Some(error) = peer.account.refusal(asker, name, now) {
            return ready(Err(error)).boxed().shared();
        }
        peer.forget_ended();
        let lane = peer.lanes.entry(name.to_owned()).or_insert_with(Lane::new);
        if let Some(flight) = lane.waiting() {
            return flight;
        }
        let has_begun = Arc::new(AtomicBool::new(false));
        let (turn, places) = (Arc::clone(&lane.turn), Arc::clone(&peer.places));
        let (inner, name, begun) = (
            Arc::clone(&self.inner),
            name.to_owned(),
            Arc::clone(&has_begun),
        );
        let flight = async move {
            let asked = async {
                // None of them is ever closed.
                let _turn = turn.acquire().await;
                let _own = places.acquire().await;
                let _place = inner.places.acquire().await;
                begun.store(true, Ordering::Relaxed);
                inner.ask(asker, name).await
            };
            let ended = timeout(inner.deadline, asked).await;
            ended.unwrap_or(Err(LookupError::TimedOut(inner.deadline)))
        };
        let flight = flight.boxed().shared();
        lane.last = flight.downgrade();
        lane.has_begun = has_begun;
        flight
    }
}

impl Inner {
    /// Asks the source, and books what that cost.
    async fn ask(&self, asker: Asker, name: String) -> Outcome {
        // While this look-up waited, others may have used up the account.
        let refusal = self.with_account(asker, |account, now| {
            let refusal = account.refusal(asker, &name, now);
            if refusal.is_none() {
                account.charge_look_up(now);
                // Also where the answer comes too late: a slow source must not lift the quota.
                if !asker.is_held {
                    account.charge_nothing(now);
                }
            }
            refusal
        });
        if let Some(Some(error)) = refusal {
            return Err(error);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let found = (self.fetch)(name.clone()).await;
        self.with_account(asker, |account, now| match &found {
            Ok(None) => account.remember(name, now),
            Ok(Some(_)) | Err(_) if !asker.is_held => account.give_back_nothing(),
            Ok(Some(_)) | Err(_) => {}
        });
        match found {
            Ok(Some(namespace)) => Ok(Arc::new(namespace)),
            Ok(None) => Err(LookupError::NotFound),
            Err(problem) => Err(LookupError::Failed(problem)),
        }
    }

    /// A peer is there as long as a look-up of its own is.
    fn with_account<T>(
        &self,
        asker: Asker,
        act: impl FnOnce(&mut Account, Instant) -> T,
    ) -> Option<T> {
        let mut peers = self.peers.lock();
        let peer = peers.get_mut(&asker.peer)?;
        Some(act(&mut peer.account, Instant::now()))
    }
}

impl Peer {
    fn new(now: Instant) -> Self {
        Self {
            account: Account::new(now),
            places: Arc::new(Semaphore::new(MOST_FOR_PEER)),
            lanes: HashMap::new(),
        }
    }

    fn is_busy(&mut self, now: Instant) -> bool {
        self.forget_ended();
        !self.lanes.is_empty() || self.account.is_in_debt(now)
    }

    fn forget_ended(&mut self) {
        self.lanes
            .retain(|_, lane| Arc::strong_count(&lane.turn) > 1);
    }
}

impl Lane {
    fn new() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            last: None,
            has_begun: Arc::default(),
        }
    }

    /// The look-up that has not begun yet.
    fn waiting(&self) -> Option<Flight> {
        let last = self.last.as_ref()?.upgrade()?;
        (!self.has_begun.load(Ordering::Relaxed)).then_some(last)
    }
}

#[cfg(test)]
mod tests;
