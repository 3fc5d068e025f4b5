//! The Services that injectors are behind: which they are, and how many of their endpoints are usable. PURE,
//! as the store.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::mem::take;
use std::sync::Arc;

use meshgate_core::injector::Injector;
use meshgate_core::injector::profile::{ReadinessSource, ServiceName};
use meshgate_core::readiness::endpoints::{self, Slice, Tally};
use meshgate_core::readiness::installation::{Client, Installation};
use meshgate_core::readiness::{Looked, Readiness};
use meshgate_core::text::{MAX_DNS_LABEL, is_dns_label};

use super::located::{Located, Location};
use super::store::{Endpoints, Store, readiness_of};

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

    /// By the endpoints of this Service.
    pub(super) fn readiness_behind<'s>(
        &'s self,
        injector: &Injector,
        service: Cow<'s, ServiceName>,
        client: Option<&'s Client>,
    ) -> Readiness<'s> {
        let own = self.endpoints.get(&*service);
        // Files are read as a whole. A watch that was only just begun has not said what there is.
        if self.is_whole && !own.is_some_and(Endpoints::is_counted) {
            return Readiness::NotUsable(Looked::Unread { service });
        }
        let tally = own.and_then(Endpoints::tally);
        let usable = tally.map_or(0, Tally::usable);
        let is_enough =
            u32::try_from(usable).is_ok_and(|usable| usable >= injector.profile.minimum);
        let looked = Looked::Endpoints {
            service,
            tally,
            client,
        };
        readiness_of(is_enough, looked)
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
