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
pub mod slim;
pub mod store;
pub mod watch;

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};

use self::freshness::Freshness;
use self::store::Store;

/// The view that all requests share.
///
/// Deciding is synchronous and takes microseconds: a read guard around it is simpler than a copy
/// of the cluster per event. The guard never crosses an await (linted).
#[derive(Debug)]
pub struct Cluster {
    store: RwLock<Store>,
    synced: AtomicBool,
    pub freshness: Freshness,
}

impl Cluster {
    /// A view that has read nothing yet: requirements are unknown until [`Cluster::mark_synced`] (case 60).
    pub fn new(store: Store) -> Self {
        Self {
            store: RwLock::new(store),
            synced: AtomicBool::new(false),
            freshness: Freshness::default(),
        }
    }

    /// The state, for as long as one decision takes.
    pub fn read(&self) -> RwLockReadGuard<'_, Store> {
        self.store.read()
    }

    /// Changes the state and computes what depends on it.
    pub fn update(&self, change: impl FnOnce(&mut Store)) {
        let mut store = self.store.write();
        change(&mut store);
        store.settle();
    }

    /// Replaces the state, except for the results of probes.
    pub fn replace(&self, mut new: Store) {
        let mut store = self.store.write();
        new.keep_probes_of(&mut store);
        let before = std::mem::replace(&mut *store, new);
        // Freeing a large one takes longer than a decision may wait.
        drop(store);
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
