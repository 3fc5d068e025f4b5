//! `PodView`: the few fields of a pod that rules may read.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::injector::keys::Keys;
use crate::injector::rule::Place;
use crate::injector::values::PodValues;
use crate::names;

use super::json::{Entries, Object, RawText, Text, list, or_default};

/// What rules may read of a pod.
#[derive(Debug, Clone)]
pub struct PodView<'a> {
    fields: Arc<PodFields<'a>>,
    /// meshgate's mark, as it came with the pod. Never believed (case 23): any user can write it.
    pub(crate) mark: Option<Cow<'a, str>>,
    /// True if `kubernetes.io/config.mirror` is there.
    pub(crate) mirrored: bool,
    /// The values of the keys that rules read.
    pub values: PodValues<'a>,
}

/// A container, in `containers` or `initContainers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container<'a> {
    /// Empty if it has none: the API server refuses such a pod later.
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub name: Text<'a>,
    /// Empty if it has none.
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub image: Text<'a>,
    #[serde(borrow, default)]
    restart_policy: Option<Text<'a>>,
}

impl Container<'_> {
    /// True for an init container that keeps running: a native sidecar (case 36).
    pub fn restarts_always(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// The fields of a pod as they are decoded, before the configuration's keys are looked up: a reader
/// of a whole review decodes them on its way, once.
#[derive(Debug, Clone, Deserialize)]
pub struct PodFields<'a> {
    #[serde(borrow)]
    metadata: Object<Metadata<'a>>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    spec: Object<Spec<'a>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    generate_name: Option<Text<'a>>,
    #[serde(borrow, default)]
    labels: Option<Entries<'a>>,
    #[serde(borrow, default)]
    annotations: Option<Entries<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    owner_references: Vec<Owner<'a>>,
}

/// An owner of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Owner<'a> {
    /// `ReplicaSet`, `Job`, …
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub kind: Text<'a>,
    /// In the pod's namespace, or in none.
    #[serde(borrow, default, deserialize_with = "or_default")]
    pub name: Text<'a>,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(default)]
    host_network: Option<bool>,
    #[serde(borrow, default)]
    os: Option<Object<Os<'a>>>,
    #[serde(borrow, default)]
    node_selector: Option<Entries<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    containers: Vec<Container<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    init_containers: Vec<Container<'a>>,
    /// Kept raw: only a refusal looks into it.
    #[serde(borrow, default)]
    affinity: Option<&'a RawValue>,
    #[serde(borrow, default)]
    runtime_class_name: Option<Text<'a>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Os<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
}

impl<'a> PodView<'a> {
    /// Reads a pod from its JSON.
    ///
    /// # Errors
    /// The object is not a pod: `metadata` is missing or null (no patch would apply to it), or a
    /// field that rules read has another type than the API gives it.
    pub fn read(json: &'a str, keys: &Keys) -> Result<Self, serde_json::Error> {
        let Object(fields) = serde_json::from_str(json)?;
        Self::new(Arc::new(fields), keys)
    }

    /// The same from fields that a reader of a larger text decoded.
    ///
    /// # Errors
    /// A value that rules read is no text.
    pub fn new(fields: Arc<PodFields<'a>>, keys: &Keys) -> Result<Self, serde_json::Error> {
        let metadata = &fields.metadata.0;
        let mut values = keys.pod_values();
        let mut take = |place, entries: &Option<Entries<'a>>| {
            for (key, value) in entries.iter().flat_map(|entries| &entries.0) {
                if let Some(slot) = keys.slot(place, key) {
                    values.set(slot, value.decode()?);
                }
            }
            Ok::<_, serde_json::Error>(())
        };
        take(Place::PodLabel, &metadata.labels)?;
        take(Place::PodAnnotation, &metadata.annotations)?;
        let annotation = |key| metadata.annotations.as_ref()?.get(key);
        Ok(Self {
            mark: annotation(names::ADMITTED)
                .map(RawText::decode)
                .transpose()?,
            mirrored: annotation(names::MIRROR_POD).is_some(),
            values,
            fields,
        })
    }

    /// The name, or what it will begin with (case 3); empty if there is neither.
    pub fn display_name(&self) -> &str {
        let metadata = &self.fields.metadata.0;
        let names = [&metadata.name, &metadata.generate_name];
        let mut names = names.into_iter().flatten();
        names.find(|name| !name.is_empty()).map_or("", |name| name)
    }

    /// The controller that owns it and will try again.
    pub fn owner(&self) -> Option<&Owner<'a>> {
        let owners = &self.fields.metadata.0.owner_references;
        owners.iter().find(|owner| owner.controller == Some(true))
    }

    /// False if `metadata.annotations` is missing or null.
    pub(crate) fn has_annotations(&self) -> bool {
        self.fields.metadata.0.annotations.is_some()
    }

    fn spec(&self) -> &Spec<'a> {
        &self.fields.spec.0
    }

    /// `spec.containers`.
    pub fn containers(&self) -> &[Container<'a>] {
        &self.spec().containers
    }

    /// `spec.initContainers`.
    pub fn init_containers(&self) -> &[Container<'a>] {
        &self.spec().init_containers
    }

    /// `spec.hostNetwork`.
    pub fn host_network(&self) -> bool {
        self.spec().host_network == Some(true)
    }

    /// Windows by `spec.os` or by node selector (case 34).
    pub fn is_windows(&self) -> bool {
        let spec = self.spec();
        let by_os = spec.os.as_ref().and_then(|os| os.0.name.as_deref());
        let by_selector = || spec.node_selector.as_ref()?.get(names::OS)?.decode().ok();
        by_os == Some("windows") || by_selector().as_deref() == Some("windows")
    }

    /// Looks like a Windows pod by node affinity or runtime class, which exempt no pod: only a
    /// refusal mentions it.
    pub fn hints_at_windows(&self) -> bool {
        let spec = self.spec();
        let by_class = spec.runtime_class_name.as_deref();
        by_class.is_some_and(|name| name.to_ascii_lowercase().contains("windows"))
            || spec
                .affinity
                .is_some_and(|raw| affinity_wants_windows(raw.get()))
    }
}

/// Whether a required node affinity asks for Windows. Read generously: it only words a message.
fn affinity_wants_windows(affinity: &str) -> bool {
    let Ok(affinity) = serde_json::from_str::<serde_json::Value>(affinity) else {
        return false;
    };
    let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array();
    terms.into_iter().flatten().any(|term| {
        let expressions = term["matchExpressions"].as_array();
        expressions.into_iter().flatten().any(|expression| {
            let values = expression["values"].as_array();
            expression["key"] == names::OS
                && expression["operator"] == "In"
                && values.into_iter().flatten().any(|value| value == "windows")
        })
    })
}
