//! The cluster view: events in, answers out.
//!
//! One view, fed by a source: `manifest::dir` reads files for `serve --standalone`; a watch of an API
//! server feeds the same [`store::Store`] in the same way. Knows nothing of HTTP.

pub mod freshness;
mod located;
pub mod manifest;
pub mod namespace_lookup;
pub mod object;
pub mod probe;
pub mod report;
mod services;
pub mod slim;
pub mod store;
pub mod watch;
pub mod workloads;

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::watch::{self as channel, Receiver};

use self::freshness::Freshness;
use self::store::Store;

/// The view that all requests share.
///
/// Deciding is synchronous and takes microseconds: a read guard around it is simpler than a copy
/// of the cluster per event. The guard never crosses an await (linted). Under the write guard nothing is
/// counted, and nothing large is freed.
#[derive(Debug)]
pub struct Cluster {
    store: RwLock<Store>,
    /// Held by the one thread that counts: an older count never replaces a newer one.
    counting: Mutex<()>,
    changes: channel::Sender<()>,
    synced: AtomicBool,
    pub freshness: Freshness,
}

impl Cluster {
    /// A view that has read nothing yet: requirements are unknown until [`Cluster::mark_synced`] (case 60).
    pub fn new(store: Store) -> Self {
        Self {
            store: RwLock::new(store),
            counting: Mutex::new(()),
            changes: channel::Sender::default(),
            synced: AtomicBool::new(false),
            freshness: Freshness::default(),
        }
    }

    /// The state, for as long as one decision takes.
    pub fn read(&self) -> RwLockReadGuard<'_, Store> {
        self.store.read()
    }

    /// The same for those that never wait; `None` while it changes.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, Store>> {
        self.store.try_read()
    }

    /// Changes the state. Endpoints are counted by the next [`Cluster::settle`]. The caller frees what
    /// `change` returns once decisions go on.
    pub fn update<R>(&self, change: impl FnOnce(&mut Store) -> R) -> R {
        let mut store = self.store.write();
        let replaced = change(&mut store);
        store.locate();
        drop(store);
        self.changes.send_replace(());
        replaced
    }

    /// Counts the endpoints that have changed. Decisions go on meanwhile; other callers wait, so that this is
    /// nothing for a thread that answers.
    pub fn settle(&self) {
        let counting = self.counting.lock();
        let count = self.store.write().uncounted();
        let counted = count();
        let replaced = self.store.write().counted(counted);
        drop(counting);
        drop(replaced);
        if !self.is_synced() && self.freshness.all_listed() && self.read().is_counted() {
            self.mark_synced();
        }
    }

    /// Tells of every change.
    pub(super) fn changes(&self) -> Receiver<()> {
        self.changes.subscribe()
    }

    /// Replaces the state, except for the results of probes.
    pub fn replace(&self, mut new: Store) {
        let counting = self.counting.lock();
        let mut store = self.store.write();
        new.keep_probes_of(&mut store);
        let before = std::mem::replace(&mut *store, new);
        drop(store);
        drop(counting);
        drop(before);
    }

    pub fn mark_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    /// Whether everything was listed once. Stays true if the source is lost: an old view is better than none
    /// (case 61).
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }
}
