//! What start-up lines, `explain` and metrics say of the cluster. PURE, as the store.

use crate::injector::Injector;
use crate::injector::profile::ReadinessSource;
use crate::injector::profile::{DEFAULT_INSTANCE, ServiceName};
use crate::readiness::Readiness;
use crate::readiness::endpoints::{Nodes, Slice};

use super::located::Place;
use super::object::Kind;
use super::store::Store;

/// One injector, or one instance of it, as it is now.
#[derive(Debug, Clone)]
pub struct State<'s> {
    /// The injector.
    pub injector: &'s Injector,
    /// The instance, for profiles that have them.
    pub instance: Option<&'s str>,
    /// Whether it can be tried.
    pub readiness: Readiness<'s>,
}

impl Store {
    /// Every injector that is looked at, with each instance that is known by name.
    pub fn states(&self) -> Vec<State<'_>> {
        let mut states = Vec::new();
        for (number, injector) in self.injectors().iter().enumerate() {
            let Some(located) = self.located(number).filter(|_| injector.is_looked_at()) else {
                continue;
            };
            let state = |instance: Option<&'_ str>| {
                located
                    .place(instance)
                    .map(|place| self.readiness_at(injector, place))
            };
            if let Some(readiness) = state(None) {
                states.push(State {
                    injector,
                    instance: None,
                    readiness,
                });
                continue;
            }
            let before = states.len();
            for name in located.instances.keys().map(String::as_str) {
                match state(Some(name)) {
                    // `default` is looked up although nobody may carry it.
                    None | Some(Readiness::NoInstance) => {}
                    Some(readiness) => {
                        states.push(State {
                            injector,
                            instance: Some(name),
                            readiness,
                        });
                    }
                }
            }
            if states.len() == before {
                let readiness = Readiness::NotInstalled;
                states.push(State {
                    injector,
                    instance: Some(DEFAULT_INSTANCE),
                    readiness,
                });
            }
        }
        states
    }

    /// `host:port` of every injector whose profile wants a probe.
    pub fn probe_targets(&self) -> impl Iterator<Item = &str> {
        let wants_probe = |injector: &Injector| {
            injector.is_looked_at() && injector.profile.readiness == ReadinessSource::Probe
        };
        let numbers = self
            .injectors()
            .iter()
            .enumerate()
            .filter(move |(_, i)| wants_probe(i));
        let places = numbers.filter_map(|(number, _)| self.located(number));
        let targets = places
            .flat_map(|l| l.places())
            .map(|place| place.target.as_str());
        targets.filter(|target| !target.is_empty())
    }

    /// Names of injectors whose webhook entries name several Services, none of them the
    /// profile's own.
    pub fn ambiguous(&self) -> impl Iterator<Item = &str> {
        let numbers = self.injectors().iter().enumerate().filter(|(number, _)| {
            self.located(*number)
                .is_some_and(|l| l.places().any(Place::is_ambiguous))
        });
        numbers.map(|(_, injector)| injector.profile.name.as_str())
    }

    /// Whether injectors without a webhook configuration count as not installed.
    pub fn knows_webhooks(&self) -> bool {
        self.known_webhooks().is_some()
    }

    /// Slices of a Service by name, to show where addresses come from (case 46).
    pub fn slices(&self, service: &ServiceName) -> impl Iterator<Item = (&str, &Slice)> {
        let slices = self.slices.get(service).into_iter().flatten();
        slices.map(|(name, slice)| (name.as_str(), slice))
    }

    /// How many objects of each kind there are.
    pub fn counts(&self) -> [(Kind, usize); 5] {
        [
            (Kind::Namespace, self.namespaces.len()),
            (Kind::Service, self.services.len()),
            (Kind::EndpointSlice, self.service_of_slice.len()),
            (Kind::Node, self.nodes.counts().0),
            (Kind::Webhooks, self.webhooks.len()),
        ]
    }

    /// The nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The `externalName` of a Service, empty for other types, `None` if there is no such
    /// Service.
    pub fn external_name(&self, service: &ServiceName) -> Option<&str> {
        self.services.get(service).map(String::as_str)
    }
}
