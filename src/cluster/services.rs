//! The Services that injectors are behind: which they are, and what the view holds of each. PURE, as the
//! store.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use meshgate_core::injector::profile::{ReadinessSource, ServiceName};
use meshgate_core::readiness::endpoints::{self, Slice, Tally};
use meshgate_core::readiness::installation::Installation;
use meshgate_core::text::{MAX_DNS_LABEL, is_dns_label};

use super::located::{Located, Location};
use super::store::Store;

/// What is held of the endpoints of one Service.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    /// By name.
    pub(super) slices: BTreeMap<String, Arc<Slice>>,
    /// `None` until they were counted for the first time.
    tally: Option<Tally>,
    pub(super) is_stale: bool,
}

impl Endpoints {
    pub(super) fn is_counted(&self) -> bool {
        self.tally.is_some()
    }

    /// `None` if there is no slice.
    pub(super) fn tally(&self) -> Option<&Tally> {
        self.tally.as_ref().filter(|_| !self.slices.is_empty())
    }
}

impl Store {
    /// The Services whose endpoints decide: those that webhook entries name, and the profiles' own. A name
    /// that no object can have is left out.
    pub fn wanted(&self) -> BTreeSet<ServiceName> {
        let injectors = self.injectors().iter().enumerate();
        let named = injectors.filter(|(_, one)| {
            one.is_looked_at() && one.profile.readiness != ReadinessSource::Assumed
        });
        let named = named.flat_map(|(number, one)| {
            let located = self.located(number).into_iter().flat_map(Located::all);
            located.filter_map(service).chain([&one.profile.service])
        });
        let can_be = |name: &str| is_dns_label(name, MAX_DNS_LABEL);
        let can_be = |one: &&ServiceName| can_be(&one.namespace) && can_be(&one.name);
        named.filter(can_be).cloned().collect()
    }

    /// Whether the endpoints of all Services that are wanted were read and counted.
    pub(super) fn is_counted(&self) -> bool {
        let is_counted = |service| {
            let own = self.endpoints.get(&service);
            own.is_some_and(Endpoints::is_counted)
        };
        self.wanted().into_iter().all(is_counted)
    }

    /// What has to be counted anew, and how. Only the call of what this returns takes long.
    pub(super) fn uncounted(&mut self) -> impl FnOnce() -> Vec<(ServiceName, Tally)> + use<> {
        let all = take(&mut self.derived.nodes_changed);
        let stale = self.endpoints.iter_mut().filter_map(|(service, own)| {
            let is_stale = take(&mut own.is_stale) || (all && !own.slices.is_empty());
            is_stale.then(|| (service.clone(), own.slices.values().cloned().collect()))
        });
        let stale: Vec<(_, Vec<Arc<Slice>>)> = stale.collect();
        let nodes = Arc::clone(&self.nodes);
        move || {
            let count = |(service, slices): (_, Vec<Arc<Slice>>)| {
                let slices = slices.iter().map(|slice| &**slice);
                (service, endpoints::tally(slices, &nodes))
            };
            stale.into_iter().map(count).collect()
        }
    }

    /// Takes what was counted. Returns what it replaces, for the caller to free.
    pub(super) fn counted(&mut self, counted: Vec<(ServiceName, Tally)>) -> Vec<Tally> {
        let replaced = counted.into_iter().filter_map(|(service, tally)| {
            let own = self.endpoints.get_mut(&service)?;
            own.tally.replace(tally)
        });
        replaced.collect()
    }
}

fn service(location: &Location) -> Option<&ServiceName> {
    match &location.installation {
        Installation::At { service, .. } => Some(service),
        Installation::NotInstalled | Installation::NoInstance => None,
    }
}
