//! What is known before the first pod is judged: injectors, registration, namespaces, owners, versions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use meshgate_core::audit::pod::RunningPod;
use meshgate_core::audit::version::Version;
use meshgate_core::audit::{Armed, Since, Surroundings, judge};
use meshgate_core::injector::Injectors;
use meshgate_core::injector::profile::ServiceName;
use meshgate_core::view::metadata::MetadataView;
use meshgate_core::view::pod::PodView;
use serde_json::Value;

use crate::cluster::object::{Kind, Object};
use crate::cluster::store::Store;
use crate::lifecycle::wall_clock;

use super::answer::{DEFAULT_NAMESPACE, Owner, Rows, Subject};
use super::owners::Owners;
use super::registration::Registration;

/// What a Service selects: labels with their values. Nothing if it cannot be read or has no selector.
pub(super) fn selector(service: &str) -> BTreeMap<String, String> {
    let service: Value = serde_json::from_str(service).unwrap_or_default();
    serde_json::from_value(service["spec"]["selector"].clone()).unwrap_or_default()
}

pub(super) struct Known {
    pub(super) store: Store,
    since: HashMap<String, Since>,
    armed: Armed,
    suspended: Option<jiff::Timestamp>,
    versions: BTreeMap<ServiceName, Version>,
    pub(super) owners: Owners,
}

impl Known {
    pub(super) fn new(injectors: Injectors, registration: Registration) -> Self {
        let (armed, suspended) = (registration.armed(), registration.suspended);
        let injectors = Arc::new(injectors);
        let mut store = if registration.is_whole {
            Store::of_whole(injectors)
        } else {
            Store::new(injectors)
        };
        for object in registration.webhooks {
            store.apply(object);
        }
        store.settle();
        Self {
            store,
            since: HashMap::new(),
            armed,
            suspended,
            versions: BTreeMap::new(),
            owners: Owners::default(),
        }
    }

    /// Takes a Namespace.
    ///
    /// # Errors
    /// It cannot be read as one.
    pub(super) fn take_namespace(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let object = Object::from_json(Kind::Namespace, json)?;
        let view = MetadataView::read(json)?;
        let since = Since::of(&view, self.store.injectors().keys());
        self.since.insert(view.name().to_owned(), since);
        self.store.apply(object);
        Ok(())
    }

    /// The Services of injectors whose versions count.
    pub(super) fn versioned(&self) -> impl Iterator<Item = ServiceName> {
        let mut profiles = self.store.injectors().iter().map(|one| &one.profile);
        let counts = profiles.any(|one| one.staleness.is_some());
        let all = counts.then(|| self.store.wanted());
        all.into_iter().flatten()
    }

    /// Takes a pod that a Service of an injector selects: the highest version of several counts.
    pub(super) fn take_injector(&mut self, service: &ServiceName, json: &str) {
        let injectors = self.store.injectors();
        let Ok(pod) = PodView::read(json, injectors.keys()) else {
            return;
        };
        let sets = || injectors.iter().flat_map(|one| &one.profile.injected);
        let is_sidecar = |name: &str| {
            let mut names = sets().filter_map(|set| set.sidecar.as_ref());
            names.any(|sidecar| sidecar.matches(name))
        };
        let own = pod.containers().iter().filter(|one| !is_sidecar(&one.name));
        let version = own.filter_map(|one| Version::of_image(&one.image)).next();
        if let Some(version) = version {
            let known = self.versions.entry(service.clone()).or_insert(version);
            *known = version.max(*known);
        }
    }

    /// Judges a pod of this namespace, or of any.
    ///
    /// # Errors
    /// It has no name that could be read.
    pub(super) fn judge(
        &self,
        json: &str,
        only: Option<&str>,
        rows: &mut Rows,
    ) -> Result<(), serde_json::Error> {
        let pod = RunningPod::read(json, self.store.injectors().keys())?;
        let subject = Subject {
            namespace: match pod.metadata.namespace() {
                "" => only.unwrap_or(DEFAULT_NAMESPACE),
                own => own,
            },
            name: pod.metadata.name(),
        };
        if only.is_some_and(|only| only != subject.namespace) {
            return Ok(());
        }
        let around = Surroundings {
            injectors: self.store.injectors(),
            known: self.store.known_webhooks(),
            armed: self.armed,
            suspension: self
                .store
                .suspension(wall_clock)
                .map(|note| (note, self.suspended)),
            versions: &self.versions,
        };
        let view = self.store.namespace(subject.namespace);
        let space = view.zip(self.since.get(subject.namespace));
        for finding in judge(&pod, subject.namespace, space, &around) {
            rows.add(&subject, finding, || {
                let owner = pod.view.as_ref().ok()?.owner()?;
                let owner = Owner::new(&owner.kind, &owner.name);
                Some(self.owners.topmost(subject.namespace, owner))
            });
        }
        Ok(())
    }
}
