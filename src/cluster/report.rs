//! Answers for start-up lines, `explain` and metrics. PURE, as the store.

use meshgate_core::injector::Injector;
use meshgate_core::injector::profile::{DEFAULT_INSTANCE, ReadinessSource, ServiceName};
use meshgate_core::readiness::Readiness;
use meshgate_core::readiness::endpoints::Slice;
use meshgate_core::readiness::installation::Installation::At;

use super::located::{Located, Location};
use super::object::Kind;
use super::store::Store;

/// One injector, or one instance of it, as it is now.
#[derive(Debug, Clone)]
pub struct State<'s> {
    pub injector: &'s Injector,
    /// The instance, for profiles that have them.
    pub instance: Option<&'s str>,
    pub readiness: Readiness<'s>,
}

impl Store {
    /// Every injector whose state counts, with each instance that is known by name.
    pub fn states(&self) -> Vec<State<'_>> {
        let mut states = Vec::new();
        for (number, injector) in self.injectors().iter().enumerate() {
            let Some(located) = self.located(number).filter(|_| injector.is_looked_at()) else {
                continue;
            };
            let state = |instance, readiness| State {
                injector,
                instance,
                readiness,
            };
            if let Some(single) = &located.single {
                states.push(state(None, self.readiness_at(injector, single)));
                continue;
            }
            let before = states.len();
            for (name, location) in &located.instances {
                let readiness = self.readiness_at(injector, location);
                // `default` is looked up even if no webhook configuration carries it.
                if !matches!(readiness, Readiness::NoInstance) {
                    states.push(state(Some(name.as_str()), readiness));
                }
            }
            if states.len() == before {
                states.push(state(Some(DEFAULT_INSTANCE), Readiness::NotInstalled));
            }
        }
        states
    }

    /// `host:port` of every injector whose profile wants a probe.
    pub fn probe_targets(&self) -> impl Iterator<Item = &str> {
        let probed = self.injectors().iter().enumerate().filter(|(_, one)| {
            one.is_looked_at() && one.profile.readiness == ReadinessSource::Probe
        });
        let located = probed.filter_map(|(number, _)| self.located(number));
        let targets = located.flat_map(|located| located.all().map(|at| at.target.as_str()));
        targets.filter(|target| !target.is_empty())
    }

    /// Names of injectors whose webhook entries name several Services, none of them the
    /// profile's own.
    pub fn ambiguous(&self) -> impl Iterator<Item = &str> {
        let is_ambiguous = |one: &Location| {
            matches!(
                one.installation,
                At {
                    ambiguous: true,
                    ..
                }
            )
        };
        let is_ambiguous = move |located: &Located| located.all().any(is_ambiguous);
        let injectors = self.injectors().iter().enumerate();
        injectors
            .filter(move |(number, _)| self.located(*number).is_some_and(is_ambiguous))
            .map(|(_, injector)| injector.profile.name.as_str())
    }

    /// Slices of a Service by name, to show where addresses come from (case 46).
    pub fn slices(&self, service: &ServiceName) -> impl Iterator<Item = (&str, &Slice)> {
        let own = self.endpoints.get(service).into_iter();
        own.flat_map(|own| &own.slices)
            .map(|(name, slice)| (name.as_str(), &**slice))
    }

    pub fn counts(&self) -> [(Kind, usize); 5] {
        let slices = self.endpoints.values().map(|own| own.slices.len());
        [
            (Kind::Namespace, self.namespaces.len()),
            (Kind::Service, self.services.len()),
            (Kind::EndpointSlice, slices.sum()),
            (Kind::Node, self.nodes.counts().0),
            (Kind::Webhooks, self.webhooks.len()),
        ]
    }

    /// The `externalName` of a Service, empty for other types, `None` if there is no such
    /// Service.
    pub fn external_name(&self, service: &ServiceName) -> Option<&str> {
        self.services.get(service).map(String::as_str)
    }
}
