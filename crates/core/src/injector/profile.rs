//! `Profile`: what meshgate knows about one injector. `config` makes profiles and nothing else
//! does, so that a value that exists was checked.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use super::rule::{Key, Rule, Term};
use crate::list::distinct;

/// Stands for the instance in the names of [`Instances`]' fallback.
pub(crate) const INSTANCE: &str = "{instance}";

/// What meshgate knows about one injector.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Name in messages, marks and metrics: `[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?`. It becomes part of
    /// label values and of names of webhook entries, hence the alphabet.
    pub name: String,
    /// What becomes of a pod that would be refused.
    pub mode: Mode,
    /// Its entry in webhook configurations. `None` only with `instances`, whose labels tell whose a
    /// configuration is.
    pub webhook: Option<WebhookName>,
    /// Path of that entry, where injectors share a name for it.
    pub path: Option<String>,
    /// The Service that injects, unless a webhook entry names another. Its namespace is the
    /// injector's own, where only pod-level opt-in counts.
    pub service: ServiceName,
    /// Set if a cluster may hold several copies (Istio's revisions, case 31).
    pub instances: Option<Instances>,
    /// Settings of the injector on which its rules depend, on or off.
    pub options: BTreeMap<String, bool>,
    /// Where the injector acts.
    pub namespaces: NamespaceScope,
    /// Which pods require it: the first rule that matches decides. Never empty.
    pub rules: Vec<Rule>,
    /// What a pod holds that it injected: any one of these sets. Never empty.
    pub injected: Vec<InjectedSet>,
    /// Names of containers for which it passes a pod by, such as another mesh's sidecar (linkerd/linkerd2
    /// pkg/healthcheck/sidecar.go). The refusal says that one pod cannot have both.
    pub skips: Vec<String>,
    /// The init container that fails where the node's network plugin was late.
    pub validator: Option<Validator>,
    /// Its network plugin on each node.
    pub cni: Option<Cni>,
    /// Usable endpoints that the gate waits for, 1 or more: in a morning burst, one endpoint may be too few (case
    /// 67).
    pub minimum: u32,
    /// How meshgate finds out whether the injector can be called.
    pub readiness: ReadinessSource,
    /// One more sentence for refusals by the check.
    pub hint: Option<String>,
    /// By how many minor versions a sidecar is too old, 1 or more; `None`: no audit compares versions.
    pub staleness: Option<u32>,
}

/// What becomes of a pod that would be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// It is refused.
    #[default]
    Enforce,
    // It is not marked either, as the mark says that the sidecar is guaranteed.
    /// It is admitted with a warning and counted: for adoption.
    Warn,
    /// The injector is not looked at.
    Disabled,
}

/// Whether pods may opt out by labels and annotations of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OptOut {
    /// They may.
    #[default]
    Allow,
    /// Such a pod is refused where its namespace requires the injector of pods that say nothing.
    Forbid,
}

/// How it is known that an injector can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReadinessSource {
    /// By the EndpointSlices of its Service.
    #[default]
    Endpoints,
    // Neither has EndpointSlices (case 48).
    /// By connecting to it: for injectors behind a URL or an ExternalName Service.
    Probe,
    /// Not at all: the check alone decides.
    Assumed,
}

/// A Service by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    /// Where it is.
    pub namespace: String,
    /// Unique there.
    pub name: String,
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Name of a webhook entry: `linkerd-proxy-injector.linkerd.io`, or `*` and how it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookName(pub(crate) String);

impl WebhookName {
    /// Whether an entry of that name is meant.
    pub fn matches(&self, name: &str) -> bool {
        match self.0.strip_prefix('*') {
            Some(end) => name.ends_with(end),
            None => name == self.0,
        }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How the Service of one copy of an injector is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instances {
    /// Labels of webhook configurations whose value is the instance; earlier ones win.
    pub webhook_labels: Vec<String>,
    /// [`INSTANCE`] stands for the instance in it.
    pub(crate) fallback: ServiceName,
    /// Annotations by which an injected pod tells which copy injected it; earlier ones win. Of a JSON object
    /// its `revision` is the value.
    pub pod_annotations: Vec<String>,
}

/// The instance that falls back to the profile's own Service: Istio's default revision has a Service without
/// suffix (istio/istio manifests/charts/istio-control/istio-discovery).
pub const DEFAULT_INSTANCE: &str = "default";

impl Instances {
    /// The usual name of an instance's Service, for where nothing better is known.
    pub fn fallback(&self, instance: &str) -> ServiceName {
        ServiceName {
            namespace: self.fallback.namespace.replace(INSTANCE, instance),
            name: self.fallback.name.replace(INSTANCE, instance),
        }
    }
}

/// Where an injector acts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceScope {
    /// Nowhere else, if set.
    pub only: Option<Vec<String>>,
    /// Never here.
    pub except: Vec<String>,
}

impl NamespaceScope {
    /// Whether it acts in the namespace.
    pub fn contains(&self, namespace: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == namespace);
        !named(&self.except) && self.only.as_deref().is_none_or(named)
    }
}

/// One way in which a pod can hold the sidecar: all of it must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedSet {
    /// It counts only while this option is on.
    pub option: Option<String>,
    /// It counts only for pods on which all of these hold.
    pub when: Vec<Term>,
    /// The container that runs beside the others.
    pub sidecar: Option<ContainerName>,
    /// Images of it that are only placeholders.
    pub not_image: Vec<String>,
    /// How its image may begin; any image will do if this is empty.
    pub images: Vec<String>,
    /// Init containers, all of them.
    pub init: Vec<String>,
}

impl InjectedSet {
    /// Whether the sidecar may run this image.
    pub(crate) fn allows(&self, image: &str) -> bool {
        self.images.is_empty() || begins_with_one(image, &self.images)
    }
}

/// Whether a text begins with one of these.
pub(crate) fn begins_with_one<T: AsRef<str>>(text: &str, prefixes: &[T]) -> bool {
    prefixes
        .iter()
        .any(|prefix| text.starts_with(prefix.as_ref()))
}

/// A container by name or by how its name begins. Only names count: an image or a word in the name would take
/// an application's own proxy for the sidecar (case 38).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerName {
    /// Exactly this.
    Exact(String),
    /// Anything that begins so.
    Prefix(String),
}

impl ContainerName {
    /// Whether a container of that name is meant.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
        }
    }
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}…"),
        }
    }
}

/// The init container that fails where the node's network plugin was late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validator {
    /// Its name in the pod.
    pub container: String,
    /// The exit code by which it reports a late plugin; others are faults of their own. Linkerd's validator
    /// ends with 95 (linkerd/linkerd2-proxy-init cni-repair-controller), Istio's with 126 (istio/istio
    /// cni/pkg/repair).
    pub exit_code: i32,
    /// Whether meshgate replaces such pods.
    pub repair: Repair,
}

/// Whether meshgate replaces pods that are stuck in their network validator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Repair {
    /// It does.
    #[default]
    Enabled,
    /// It does not.
    Disabled,
}

/// The injector's network plugin on each node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cni {
    /// Where its pods may be.
    pub namespaces: Vec<String>,
    /// The labels they carry. Never empty.
    pub pod_label: BTreeMap<String, String>,
    /// The start-up taint that waits for it: it may go once the plugin is ready on the node (case 91).
    pub taint: Option<String>,
}

impl Profile {
    /// Whether an option is on, or none is named. Rules and sets name only options that exist.
    pub(crate) fn is_on(&self, option: Option<&str>) -> bool {
        option.is_none_or(|name| self.options.get(name).copied().unwrap_or(false))
    }

    /// The sets that can count.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &InjectedSet> {
        let sets = self.injected.iter();
        sets.filter(|set| self.is_on(set.option.as_deref()))
    }

    /// The sidecars whose images are limited, each with all beginnings that some set allows.
    pub(crate) fn image_limits(&self) -> Vec<(&ContainerName, Vec<&str>)> {
        let mut limits: Vec<(&ContainerName, Vec<&str>)> = Vec::new();
        for set in self.sets().filter(|set| !set.images.is_empty()) {
            let Some(name) = &set.sidecar else { continue };
            let images = set.images.iter().map(String::as_str);
            match limits.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.extend(images),
                None => limits.push((name, images.collect())),
            }
        }
        for (_, images) in &mut limits {
            *images = distinct(images.drain(..));
        }
        limits
    }

    /// All values of a key that the rules name, each once, less the empty one: a refusal of a value
    /// that the injector does not know offers these instead (case 25).
    pub(crate) fn accepted_values(&self, key: &Key) -> Vec<&str> {
        let terms = self.rules.iter().flat_map(|rule| &rule.when);
        let terms = terms.filter(|term| term.key == *key);
        let mut accepted: Vec<&str> = Vec::new();
        for value in terms.flat_map(|term| &term.test.values) {
            if !value.is_empty() && !accepted.contains(&value.as_str()) {
                accepted.push(value);
            }
        }
        accepted
    }
}
