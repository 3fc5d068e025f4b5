//! Who holds the places: connections by the address that they come from.
//!
//! When places run short, the longest idle connection of the peer that holds most makes room, so
//! that a client which only holds places loses those. Behind a load balancer or kube-proxy several
//! clients may share an address. So an address is never a reason to close what is in use.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::activity::{Activity, UNUSED_UNDER_PRESSURE};

/// The connections of each peer.
#[derive(Debug)]
pub(in crate::server) struct Peers {
    by_address: Mutex<HashMap<IpAddr, Vec<Arc<Activity>>>>,
    most: usize,
    exempt: Vec<IpNet>,
}

/// A connection's place among those of its peer, until it is dropped.
#[derive(Debug)]
pub(in crate::server) struct Place {
    peers: Arc<Peers>,
    /// An IPv4 address also where it came as one of IPv6.
    pub(super) peer: IpAddr,
    pub(super) activity: Arc<Activity>,
}

impl Peers {
    /// `most`: connections of one peer. `exempt`: peers without that limit, whose idle connections
    /// stay when others make room.
    pub(super) fn new(most: u32, exempt: &[IpNet]) -> Self {
        Self {
            by_address: Mutex::default(),
            most: most as usize,
            exempt: exempt.to_vec(),
        }
    }

    /// Takes a place for a new connection. A peer that holds as many as it may gives up its longest
    /// idle one for it; `None` if all of them are in use.
    pub(in crate::server) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let (peer, now) = (peer.to_canonical(), Instant::now());
        let activity = Arc::new(Activity::new(now));
        let mut by_address = self.by_address.lock();
        let own = by_address.entry(peer).or_default();
        if own.len() >= self.most && !self.is_exempt(peer) && !ask_longest_idle(own, now, false) {
            return None;
        }
        own.push(Arc::clone(&activity));
        let peers = Arc::clone(self);
        Some(Place {
            peers,
            peer,
            activity,
        })
    }

    /// Asks one idle connection to close, if there is one. A client that has just connected, or was
    /// just answered, may be about to send.
    pub(in crate::server) fn make_room(&self) {
        let by_address = self.by_address.lock();
        let mut peers: Vec<_> = by_address.iter().collect();
        peers.retain(|(peer, _)| !self.is_exempt(**peer));
        peers.sort_by_key(|(_, own)| std::cmp::Reverse(own.len()));
        let now = Instant::now();
        peers
            .iter()
            .any(|(_, own)| ask_longest_idle(own, now, true));
    }

    fn is_exempt(&self, peer: IpAddr) -> bool {
        self.exempt.iter().any(|network| network.contains(&peer))
    }
}

/// Asks the connection that has been idle longest, and says whether there is one. Under pressure those
/// that were never used come first, and each has a second.
fn ask_longest_idle(own: &[Arc<Activity>], now: Instant, under_pressure: bool) -> bool {
    let idle = own.iter().filter_map(|one| Some((one.idle()?, one)));
    let longest = idle.min_by_key(|((used, since), _)| (under_pressure && *used, *since));
    let longest =
        longest.filter(|((_, since), _)| !under_pressure || *since + UNUSED_UNDER_PRESSURE <= now);
    longest.is_some_and(|(_, activity)| {
        activity.ask_to_leave();
        true
    })
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_address = self.peers.by_address.lock();
        if let Some(own) = by_address.get_mut(&self.peer) {
            own.retain(|one| !Arc::ptr_eq(one, &self.activity));
            if own.is_empty() {
                by_address.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
