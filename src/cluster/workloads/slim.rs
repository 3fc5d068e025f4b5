//! Pods and their owners, trimmed to what is read of them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use meshgate_core::injector::Injectors;
use meshgate_core::view::pod::PodView;

use super::Uid;

/// The kinds of workloads: pods, and those whose controllers make pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Pod,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    ReplicationController,
}

impl Kind {
    /// In the order of their discriminants.
    pub const ALL: [Self; 6] = [
        Self::Pod,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::ReplicationController,
    ];

    /// As URLs and RBAC rules spell it.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::ReplicaSet => "replicasets",
            Self::StatefulSet => "statefulsets",
            Self::DaemonSet => "daemonsets",
            Self::Job => "jobs",
            Self::ReplicationController => "replicationcontrollers",
        }
    }

    /// As `kind:` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
            Self::ReplicationController => "ReplicationController",
        }
    }

    /// As `apiVersion:` spells it.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Pod | Self::ReplicationController => "v1",
            Self::ReplicaSet | Self::StatefulSet | Self::DaemonSet => "apps/v1",
            Self::Job => "batch/v1",
        }
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Slim {
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
    pub(super) status: Status,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    uid: String,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) resource_version: String,
    creation_timestamp: Option<String>,
    pub(super) deletion_timestamp: Option<String>,
    owner_references: Vec<OwnerReference>,
    annotations: Annotations,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct OwnerReference {
    uid: String,
    controller: bool,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "meshgate.io/woken")]
    woken: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub(super) replicas: Option<u32>,
    pub(super) pod_management_policy: Option<String>,
    pub(super) parallelism: Option<u32>,
    pub(super) completions: Option<u32>,
    pub(super) suspend: Option<bool>,
    pub(super) managed_by: Option<String>,
    pub(super) template: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    phase: Option<String>,
    pub(super) replicas: u32,
    pub(super) available_replicas: u32,
    pub(super) desired_number_scheduled: u32,
    pub(super) current_number_scheduled: u32,
    pub(super) active: u32,
    pub(super) terminating: u32,
    pub(super) succeeded: u32,
    pub(super) failed: u32,
    pub(super) failed_indexes: Option<String>,
    pub(super) conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    status: String,
    last_transition_time: Option<String>,
    pub(super) message: String,
}

impl Condition {
    pub(super) fn is_true(&self) -> bool {
        self.status == "True"
    }

    pub(super) fn since(&self) -> Option<Timestamp> {
        time(self.last_transition_time.as_deref())
    }
}

fn time(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

fn uid(text: &str) -> Option<Uid> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    u128::from_str_radix(&digits, 16).ok().map(Uid)
}

impl Slim {
    pub(super) fn read(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    pub(super) fn uid(&self) -> Result<Uid, String> {
        let text = &self.metadata.uid;
        uid(text).ok_or_else(|| "its metadata.uid is no UUID".to_owned())
    }

    pub(super) fn owner(&self) -> Option<Uid> {
        let mut owners = self.metadata.owner_references.iter();
        owners
            .find(|one| one.controller)
            .and_then(|one| uid(&one.uid))
    }

    pub(super) fn created(&self) -> Timestamp {
        time(self.metadata.creation_timestamp.as_deref()).unwrap_or_default()
    }

    pub(super) fn woken(&self) -> Option<Timestamp> {
        time(self.metadata.annotations.woken.as_deref())
    }

    /// Of a pod: it has ended, or is being deleted.
    pub(super) fn is_over(&self) -> bool {
        let phase = self.status.phase.as_deref();
        matches!(phase, Some("Succeeded" | "Failed")) || self.metadata.deletion_timestamp.is_some()
    }

    /// The condition by which a controller says that it cannot create pods.
    pub(super) fn failure(&self) -> Option<&Condition> {
        let is_failure = |one: &&Condition| one.kind == "ReplicaFailure" && one.is_true();
        self.status.conditions.iter().find(is_failure)
    }
}

/// What rules read of a pod or a template of pods.
pub(super) fn facts(json: &str, injectors: &Injectors) -> Result<String, String> {
    let keys = injectors.keys();
    // A template without metadata is one of a pod without labels.
    let pod = PodView::read(json, keys).map_err(|error| error.to_string())?;
    Ok(pod.compact(keys).to_string())
}

/// An object of which nothing else is left. `None` leaves it as it is.
pub fn shrunk(kind: Kind, json: &str, injectors: &Injectors) -> Option<String> {
    let mut slim = Slim::read(json).ok()?;
    if kind != Kind::Pod {
        let template = slim.spec.template.take();
        let facts = template.map(|template| facts(template.get(), injectors));
        let facts = facts.transpose().ok()?;
        slim.spec.template = facts.and_then(|facts| RawValue::from_string(facts).ok());
        return serde_json::to_string(&slim).ok();
    }
    let keys = injectors.keys();
    let compact = PodView::read(json, keys).ok()?.compact(keys);
    let mut pod = serde_json::to_value(&slim).ok()?;
    pod["spec"] = compact.get("spec")?.clone();
    for field in ["labels", "annotations"] {
        if let Some(map) = compact["metadata"].get(field) {
            pod["metadata"][field] = map.clone();
        }
    }
    serde_json::to_string(&pod).ok()
}
