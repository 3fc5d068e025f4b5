//! The pair that is served, which can be swapped under rustls.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::pair::ServingPair;

/// The serving pair of the moment, if there is one yet. Clones are handles to the same one.
///
/// Every handshake takes the pair that is live when it begins; open connections keep theirs. Swapping
/// needs no lock and no restart. Before there is a pair, handshakes are refused at once with an alert:
/// the caller may reach another replica.
#[derive(Clone, Debug, Default)]
pub struct LivePair(Arc<ArcSwapOption<ServingPair>>);

impl LivePair {
    /// Begins with `pair`.
    pub fn new(pair: ServingPair) -> Self {
        Self(Arc::new(ArcSwapOption::from_pointee(pair)))
    }

    /// Serves with `pair` from the next handshake on.
    pub fn swap(&self, pair: ServingPair) {
        self.0.store(Some(Arc::new(pair)));
    }

    /// The pair that the next handshake gets: what is served, whatever may lie on a disk.
    pub fn current(&self) -> Option<Arc<ServingPair>> {
        self.0.load_full()
    }
}

impl ResolvesServerCert for LivePair {
    // Whatever name is asked for: the API server asks for `svc.ns.svc`, or for none at all when
    // it calls an address, and there is only this one pair to answer with.
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.load().as_ref()?.certified))
    }
}
