//! The state of the cluster that decisions read: small projections, never whole objects.
//!
//! PURE: events in, answers out. Whatever the order of arrival, deletion and relist, the same
//! objects give the same answers.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::{swap, take};
use std::sync::Arc;

use jiff::Timestamp;

use meshgate_core::break_glass::{self, Note};
use meshgate_core::decision::requirement::{self, Requirement};
use meshgate_core::injector::profile::{ReadinessSource, ServiceName};
use meshgate_core::injector::{Injector, Injectors};
use meshgate_core::readiness::endpoints::{Nodes, Slice, Tally};
use meshgate_core::readiness::installation::{self, Installation, Known, WebhookConfiguration};
use meshgate_core::readiness::{Looked, Readiness};
use meshgate_core::view::namespace::NamespaceView;
use meshgate_core::view::pod::PodView;

use super::located::{Located, Location};
use super::object::{self, Kind, Object, ObjectId, Watched};
use super::slim;

#[derive(Debug, Default)]
pub struct Store {
    injectors: Arc<Injectors>,
    pub(super) namespaces: HashMap<String, NamespaceView>,
    /// The `externalName` of each Service, empty for others.
    pub(super) services: BTreeMap<ServiceName, String>,
    /// Of Services that injectors may be behind.
    pub(super) endpoints: BTreeMap<ServiceName, Endpoints>,
    pub nodes: Arc<Nodes>,
    pub(super) webhooks: BTreeMap<String, WebhookConfiguration>,
    probes: HashMap<String, Result<(), String>>,
    /// Why enforcement is suspended, as our own configuration says it.
    suspension: Option<Note>,
    /// Its entries by which no API server asks that knows of this.
    silenced: HashSet<String>,
    /// Whether a webhook configuration that is not here does not exist.
    pub(super) is_whole: bool,
    pub(super) derived: Derived,
}

/// What is held of the endpoints of one Service.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    /// By name.
    pub(super) slices: BTreeMap<String, Arc<Slice>>,
    /// `None` until they were counted for the first time.
    pub(super) tally: Option<Tally>,
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

/// Computed once per change and not once per review.
#[derive(Debug, Default)]
pub(super) struct Derived {
    pub(super) nodes_changed: bool,
    /// By number of the injector.
    located: Vec<Located>,
    webhooks_changed: bool,
}

impl Store {
    /// An empty cluster.
    pub fn new(injectors: Arc<Injectors>) -> Self {
        let mut store = Self {
            injectors,
            ..Self::default()
        };
        store.derived.webhooks_changed = true;
        store.settle();
        store
    }

    /// A cluster that will be listed as a whole: no webhook configuration then means that there is none,
    /// and not that it was not written down.
    pub fn of_whole(injectors: Arc<Injectors>) -> Self {
        let mut store = Self::new(injectors);
        store.is_whole = true;
        store.derived.webhooks_changed = true;
        store.settle();
        store
    }

    /// A cluster that holds these objects.
    pub fn with(injectors: Arc<Injectors>, objects: impl IntoIterator<Item = Object>) -> Self {
        let mut store = Self::new(injectors);
        for object in objects {
            store.apply(object);
        }
        store.settle();
        store
    }

    /// Adds an object or replaces it. Call [`Store::settle`] after the last of a batch. Returns the slice that
    /// it replaces: freeing a large one takes longer than a decision may wait.
    pub fn apply(&mut self, object: Object) -> Option<Arc<Slice>> {
        match object {
            Object::Namespace(namespace) => {
                let view = self.view(&namespace);
                self.namespaces.insert(namespace.metadata.name, view);
            }
            Object::Service(service) => {
                let slim::Metadata {
                    namespace, name, ..
                } = service.metadata;
                let name = ServiceName { namespace, name };
                self.services.insert(name, service.spec.external_name);
                self.derived.webhooks_changed = true;
            }
            Object::EndpointSlice(slice) => return self.apply_slice(slice),
            Object::Node(node) => {
                let (lost, nodes) = (node.is_lost(), Arc::make_mut(&mut self.nodes));
                self.derived.nodes_changed |= nodes.set(&node.metadata.name, lost);
            }
            Object::Webhooks(configuration) => {
                if configuration.metadata.name == break_glass::SEEN_ON {
                    let annotations = &configuration.metadata.annotations;
                    let text = annotations.get(break_glass::ANNOTATION);
                    self.suspension = text.and_then(|text| Note::parse(text));
                    self.silenced = object::silenced(&configuration);
                }
                let (name, configuration) = object::webhooks(configuration);
                self.webhooks.insert(name, configuration);
                self.derived.webhooks_changed = true;
            }
        }
        None
    }

    /// Removes an object, if it is there. Returns it if it is a slice, as [`Store::apply`] does.
    pub fn delete(&mut self, id: ObjectId) -> Option<Arc<Slice>> {
        let ObjectId {
            kind,
            namespace,
            name,
        } = id;
        match kind {
            Kind::Namespace => drop(self.namespaces.remove(&name)),
            Kind::Service => {
                self.services.remove(&ServiceName { namespace, name });
                self.derived.webhooks_changed = true;
            }
            Kind::EndpointSlice => return self.delete_slice(&namespace, &name, None),
            Kind::Node => {
                self.derived.nodes_changed |= Arc::make_mut(&mut self.nodes).remove(&name);
            }
            Kind::Webhooks => {
                self.webhooks.remove(&name);
                if name == break_glass::SEEN_ON {
                    self.suspension = None;
                    self.silenced.clear();
                }
                self.derived.webhooks_changed = true;
            }
        }
        None
    }

    /// Makes the objects of `list` the only ones of a kind, or of one Service: Services and slices are listed
    /// for one alone. Returns what was there before, as [`Store::apply`] does.
    pub fn relist(&mut self, watched: &Watched, mut list: Self) -> Self {
        match (watched.kind, watched.service.as_deref()) {
            (Kind::Namespace, _) => swap(&mut self.namespaces, &mut list.namespaces),
            (Kind::Service, Some(service)) => {
                self.services.remove(service);
                self.services.extend(list.services.remove_entry(service));
                self.derived.webhooks_changed = true;
            }
            (Kind::EndpointSlice, Some(service)) => {
                let new = list.endpoints.entry(service.clone()).or_default();
                let own = self.endpoints.entry(service.clone()).or_default();
                swap(&mut own.slices, &mut new.slices);
                own.is_stale = true;
            }
            (Kind::Service | Kind::EndpointSlice, None) => {}
            (Kind::Node, _) => {
                self.derived.nodes_changed |= self.nodes != list.nodes;
                swap(&mut self.nodes, &mut list.nodes);
            }
            (Kind::Webhooks, _) => {
                swap(&mut self.webhooks, &mut list.webhooks);
                self.suspension = list.suspension.take();
                self.silenced = take(&mut list.silenced);
                self.derived.webhooks_changed = true;
            }
        }
        list
    }

    /// Drops what is held of a Service that is not wanted any more. Returns it, as [`Store::apply`] does.
    pub(super) fn forget(&mut self, service: &ServiceName) -> Option<Endpoints> {
        self.derived.webhooks_changed |= self.services.remove(service).is_some();
        self.endpoints.remove(service)
    }

    fn apply_slice(&mut self, slice: slim::EndpointSlice) -> Option<Arc<Slice>> {
        let (namespace, name) = (&slice.metadata.namespace, slice.metadata.name.clone());
        // Its label may have changed.
        let replaced = self.delete_slice(namespace, &name, None);
        if let Some((service, kept)) = object::slice(slice) {
            let own = self.endpoints.entry(service).or_default();
            own.slices.insert(name, Arc::new(kept));
            own.is_stale = true;
        }
        replaced
    }

    /// Removes a slice, if it is there and `of` this Service. Where a slice changes its label, the watch of
    /// its old Service may come last to tell.
    pub(super) fn delete_slice(
        &mut self,
        namespace: &str,
        name: &str,
        of: Option<&ServiceName>,
    ) -> Option<Arc<Slice>> {
        let mut services = self.endpoints.iter_mut().filter(|(service, _)| {
            service.namespace == namespace && of.is_none_or(|only| only == *service)
        });
        services.find_map(|(_, own)| {
            let removed = own.slices.remove(name)?;
            own.is_stale = true;
            Some(removed)
        })
    }

    /// Which injectors a pod requires. Those for which enforcement is suspended are waived.
    pub fn requirement<'a>(
        &'a self,
        pod: &'a PodView<'a>,
        namespace: &'a NamespaceView,
        suspension: Option<&Note>,
    ) -> Requirement<'a> {
        let mut requirement = requirement::of(pod, namespace, &self.injectors);
        if let Some(suspension) = suspension {
            requirement.waive(|injector| suspension.is_about(injector));
        }
        requirement
    }

    /// Why and for which injectors enforcement is suspended at this time. The clock is read only if an
    /// administrator suspended it at all.
    pub fn suspension(&self, now: impl FnOnce() -> Timestamp) -> Option<&Note> {
        let note = self.suspension.as_ref()?;
        note.is_open(now()).then_some(note)
    }

    /// Whether our own configuration has this entry of the gate suspended as a whole.
    pub fn is_silenced(&self, entry: &str) -> bool {
        self.silenced.contains(entry)
    }

    pub fn probed(&mut self, target: &str, outcome: Result<(), String>) {
        self.probes.insert(target.to_owned(), outcome);
    }

    /// Takes the results of probes over from the state that this one replaces.
    pub(super) fn keep_probes_of(&mut self, before: &mut Self) {
        self.probes = take(&mut before.probes);
        self.forget_probes();
    }

    fn forget_probes(&mut self) {
        let wanted: HashSet<String> = self.probe_targets().map(str::to_owned).collect();
        self.probes.retain(|target, _| wanted.contains(target));
    }

    /// Computes what depends on the objects that changed.
    pub fn settle(&mut self) {
        self.locate();
        let count = self.uncounted();
        self.counted(count());
    }

    /// Finds the injectors, if they may have moved.
    pub(super) fn locate(&mut self) {
        if take(&mut self.derived.webhooks_changed) {
            let injectors = Arc::clone(&self.injectors);
            self.derived.located = injectors
                .iter()
                .map(|i| Located::of(&i.profile, self.known_webhooks(), &self.services))
                .collect();
            self.forget_probes();
        }
    }

    /// `None` if no webhook configuration is known and the cluster was not listed as a whole.
    pub fn known_webhooks(&self) -> Known<'_> {
        let is_known = self.is_whole || !self.webhooks.is_empty();
        is_known.then_some(&self.webhooks)
    }

    pub fn injectors(&self) -> &Arc<Injectors> {
        &self.injectors
    }

    /// What rules read of a namespace, `None` if it is not known.
    pub fn namespace(&self, name: &str) -> Option<&NamespaceView> {
        self.namespaces.get(name)
    }

    /// The same for a namespace that a look-up found.
    pub fn view<'n>(&self, namespace: &'n slim::Namespace) -> NamespaceView {
        let metadata = &namespace.metadata;
        let pair = |(key, value): (&'n String, &'n String)| (key.as_str(), value.as_str());
        let labels = metadata.labels.iter().map(pair);
        let annotations = metadata.annotations.iter().map(pair);
        NamespaceView::new(&metadata.name, labels, annotations, self.injectors.keys())
    }

    /// Whether an injector, or one instance of it, can be tried now.
    pub fn readiness(&self, number: usize, instance: Option<&str>) -> Readiness<'_> {
        let Some(injector) = self.injectors.get(number) else {
            return Readiness::NotInstalled;
        };
        let located = self.located(number);
        match located.and_then(|located| located.at(instance)) {
            Some(location) => self.readiness_at(injector, location),
            None => self.readiness_of_unknown(injector, instance),
        }
    }

    pub(super) fn located(&self, number: usize) -> Option<&Located> {
        self.derived.located.get(number)
    }

    pub(super) fn readiness_at<'s>(
        &'s self,
        injector: &'s Injector,
        location: &'s Location,
    ) -> Readiness<'s> {
        let (service, client) = match &location.installation {
            Installation::NotInstalled => return Readiness::NotInstalled,
            Installation::NoInstance => return Readiness::NoInstance,
            Installation::At {
                service, client, ..
            } => (service, client),
        };
        match injector.profile.readiness {
            ReadinessSource::Assumed => Readiness::Usable(Looked::Assumed),
            ReadinessSource::Endpoints => {
                self.readiness_behind(injector, Cow::Borrowed(service), client.as_ref())
            }
            ReadinessSource::Probe => {
                let target = location.target.as_str();
                let problem = match self.probes.get(target) {
                    Some(outcome) => outcome.as_ref().err().map(String::as_str),
                    None => Some("it was not tried yet"),
                };
                readiness_of(problem.is_none(), Looked::Probe { target, problem })
            }
        }
    }

    /// An instance that no webhook configuration carries.
    fn readiness_of_unknown<'s>(
        &'s self,
        injector: &'s Injector,
        instance: Option<&str>,
    ) -> Readiness<'s> {
        let profile = &injector.profile;
        match installation::locate(profile, instance, self.known_webhooks()) {
            Installation::NotInstalled => Readiness::NotInstalled,
            Installation::NoInstance => Readiness::NoInstance,
            Installation::At { service, .. } => match profile.readiness {
                ReadinessSource::Assumed => Readiness::Usable(Looked::Assumed),
                // Services that only a pod's label names are not probed.
                ReadinessSource::Endpoints | ReadinessSource::Probe => {
                    self.readiness_behind(injector, Cow::Owned(service), None)
                }
            },
        }
    }
}

pub(super) fn readiness_of(is_usable: bool, looked: Looked<'_>) -> Readiness<'_> {
    if is_usable {
        Readiness::Usable(looked)
    } else {
        Readiness::NotUsable(looked)
    }
}
