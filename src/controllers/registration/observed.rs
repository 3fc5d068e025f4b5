//! What is in the cluster, parsed once. What plans read has a type; the rest of an object is compared
//! and written as it came. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta,
};
use serde::de::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kube_api::CallError;
use crate::kube_api::kind::{Id, Kind};
use meshgate_core::break_glass::{self, CONDITION, Note};
use meshgate_core::names::CONFIGURATION_LABEL;
use meshgate_core::render::OWNER;

const FAIL: &str = "Fail";
/// Annotation of objects that an Argo CD Application installed.
const ARGO: &str = "argocd.argoproj.io/tracking-id";

/// An object of the registration, as it is in the cluster or as it is wanted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Object {
    #[serde(skip)]
    pub(crate) id: Id,
    /// The break-glass annotation, if it says who and why.
    #[serde(skip)]
    pub(crate) note: Option<Note>,
    pub(crate) metadata: ObjectMeta,
    /// `None` for all kinds but webhook configurations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) webhooks: Option<Vec<Entry>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spec: Option<Spec>,
    /// `apiVersion`, `kind`, and the `rules` of a role.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// An entry of a webhook configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) client_config: ClientConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace_selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) match_conditions: Option<Vec<MatchCondition>>,
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// How the API server calls an entry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca_bundle: Option<String>,
    /// The Service or the URL.
    #[serde(flatten)]
    address: Map<String, Value>,
}

/// The spec of a policy or a binding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) match_conditions: Option<Vec<MatchCondition>>,
    /// Of the binding of a validating policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) validation_actions: Vec<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Object {
    /// An item of a list, which does not say what it is.
    ///
    /// # Errors
    /// As those of [`Object::parse`], with the object's name.
    pub(crate) fn of(id: &Id, object: impl Serialize) -> Result<Self, CallError> {
        let parsed = serde_json::to_value(object).and_then(|mut value| {
            value["apiVersion"] = id.kind.api_version().into();
            value["kind"] = id.kind.as_str().into();
            Self::parse(value)
        });
        parsed.map_err(|error| CallError::Call {
            what: format!("cannot parse {id}"),
            answer: Box::new(kube::Error::SerdeError(error)),
        })
    }

    /// # Errors
    /// It is of no kind that meshgate writes, has no name, or not the shape of its kind.
    pub(crate) fn parse(object: Value) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Fields {
            metadata: ObjectMeta,
            webhooks: Option<Vec<Entry>>,
            spec: Option<Spec>,
            #[serde(flatten)]
            rest: Map<String, Value>,
        }
        let id = Id::of(&object);
        let id = id.ok_or_else(|| Error::custom("expected a kind that meshgate writes"))?;
        let note = break_glass::of(&object);
        let fields: Fields = serde_json::from_value(object)?;
        Ok(Self {
            id,
            note,
            metadata: fields.metadata,
            webhooks: fields.webhooks,
            spec: fields.spec,
            rest: fields.rest,
        })
    }

    pub(super) fn to_value(&self) -> Value {
        // All keys are strings, so this cannot fail.
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// Sets an annotation, or removes it.
    pub(crate) fn annotate(&mut self, key: &str, text: Option<String>) {
        let annotations = self.metadata.annotations.get_or_insert_default();
        match text {
            Some(text) => drop(annotations.insert(key.to_owned(), text)),
            None => drop(annotations.remove(key)),
        }
    }

    /// Empty for all kinds but webhook configurations.
    pub(crate) fn entries(&self) -> &[Entry] {
        self.webhooks.as_deref().unwrap_or_default()
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        self.webhooks.as_deref_mut().unwrap_or_default()
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.name == name)
    }
}

impl Entry {
    pub(crate) fn fails_closed(&self) -> bool {
        self.failure_policy.as_deref() == Some(FAIL)
    }

    /// Whether it fails closed, and no administrator has suspended it.
    pub(crate) fn is_armed(&self) -> bool {
        self.fails_closed() && !self.is_suspended()
    }

    /// Whether an administrator has suspended it, as a whole or in part.
    pub(crate) fn is_suspended(&self) -> bool {
        let mut conditions = self.match_conditions.iter().flatten();
        conditions.any(|one| one.name == CONDITION)
    }

    pub(crate) fn terms(&self) -> &[LabelSelectorRequirement] {
        let selector = self.namespace_selector.as_ref();
        let terms = selector.and_then(|selector| selector.match_expressions.as_deref());
        terms.unwrap_or_default()
    }

    pub(crate) fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.namespace_selector.as_ref()?.match_labels.as_ref()
    }
}

/// meshgate's own namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum InstallNamespace {
    /// It does not exist, and meshgate does not create it.
    #[default]
    Missing,
    /// It does not exist, and meshgate creates it.
    Wanted,
    Active,
    /// It is being deleted.
    Terminating,
    /// It was deleted: meshgate writes nothing until an administrator creates it again.
    Withdrawn,
}

/// All that plans know of the cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// Objects that carry our label or the name of one that is wanted.
    pub(super) objects: BTreeMap<Id, Object>,
    pub(super) namespace: InstallNamespace,
    /// `None` if the namespace does not exist.
    pub(super) namespace_uid: Option<String>,
    /// `None` if replicas are not looked at.
    pub(super) fleet: Option<Fleet>,
    /// The `caBundle`s in the cluster whose CAs the wanted bundle holds too, expired ones excepted.
    pub(super) covered: BTreeSet<String>,
    /// What the API server refused to write the last time.
    pub(super) refused: BTreeSet<Id>,
}

impl Observed {
    /// What is in the cluster of an object that is wanted.
    pub(super) fn live(&self, wanted: &Object) -> Option<&Object> {
        self.objects.get(&wanted.id)
    }

    /// Objects on which enforcement is suspended, with their notes.
    pub(super) fn suspended(&self) -> impl Iterator<Item = (&Object, &Note)> {
        let objects = self.objects.values();
        objects.filter_map(|live| Some((live, live.note.as_ref()?)))
    }

    pub(super) fn replicas(&self) -> Replicas {
        let fleet = self.fleet.as_ref();
        fleet.map_or(Replicas::Equal, Fleet::replicas)
    }

    fn owner(&self) -> Option<&Object> {
        self.objects.get(&Id::new(Kind::ClusterRole, OWNER))
    }

    /// UID of the owner, unless it is being deleted.
    pub(super) fn owner_uid(&self) -> Option<&str> {
        let metadata = &self.owner()?.metadata;
        let is_lasting = metadata.deletion_timestamp.is_none();
        metadata.uid.as_deref().filter(|_| is_lasting)
    }

    /// UID of our namespace, if it is to own the owner. Argo CD prunes no object that has an owner: it would
    /// leave the owner, and a closed gate, when its Application is deleted (`GetManagedLiveObjs` of
    /// gitops-engine).
    pub(super) fn owning_uid(&self) -> Option<&str> {
        let owner = self.owner();
        let is_argo = owner.is_some_and(|owner| owner.annotation(ARGO).is_some());
        self.namespace_uid.as_deref().filter(|_| !is_argo)
    }
}

/// Selects the serving replicas, in our namespace.
pub(super) const SERVING: &str =
    "app.kubernetes.io/name=meshgate,app.kubernetes.io/component=serve";

/// What the serving replicas allow to be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Replicas {
    /// None is ready (case 76).
    #[default]
    NoneReady,
    /// At least one is ready, and at least one lacks the configuration.
    Unequal,
    /// All have the configuration; or replicas are not looked at.
    Equal,
}

/// The serving replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fleet {
    count: usize,
    ready: usize,
    /// Names of those that have another configuration, sorted.
    lacking: Vec<String>,
}

impl Fleet {
    /// One that is being deleted answers within its grace period, by the configuration that it has. No call
    /// reaches it after that, nor once it has ended.
    pub(super) fn of(
        pods: impl IntoIterator<Item = Pod>,
        configuration: &str,
        now: Timestamp,
    ) -> Self {
        let mut fleet = Self::default();
        for Pod {
            metadata, status, ..
        } in pods
        {
            let status = status.unwrap_or_default();
            let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
            if has_ended || metadata.deletion_timestamp.is_some_and(|end| end.0 <= now) {
                continue;
            }
            let mut conditions = status.conditions.iter().flatten();
            let is_ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
            fleet.count += 1;
            fleet.ready += usize::from(is_ready);
            let labels = metadata.labels.unwrap_or_default();
            if labels.get(CONFIGURATION_LABEL).map(String::as_str) != Some(configuration) {
                fleet.lacking.push(metadata.name.unwrap_or_default());
            }
        }
        fleet.lacking.sort_unstable();
        fleet
    }

    pub(super) fn replicas(&self) -> Replicas {
        match (self.ready, self.lacking.is_empty()) {
            (0, _) => Replicas::NoneReady,
            (_, false) => Replicas::Unequal,
            (_, true) => Replicas::Equal,
        }
    }

    /// What keeps the replicas from being called with this configuration, if anything does.
    pub(super) fn remark(&self) -> Option<String> {
        let Self {
            count,
            ready,
            lacking,
        } = self;
        match (count, lacking.as_slice()) {
            _ if self.replicas() == Replicas::Equal => None,
            (0, _) => Some(format!("no serving replica (no pod with {SERVING})")),
            (count, []) => Some(format!("{ready} of {count} serving replicas are ready")),
            (count, lacking) => Some(format!(
                "{} of {count} serving replicas have another configuration: {}",
                lacking.len(),
                lacking.join(", ")
            )),
        }
    }
}
