//! Reads what there is of the registration.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::Value;

use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::wall_clock;
use crate::kube_api::{CallError, call, objects};
use crate::render::OURS;
use crate::render::OWNER;

use super::fleet::{CONFIGURATION_LABEL, Fleet, Replica, SERVING};
use super::plan::{Home, Observed};

/// Reads all objects that carry our label, and those of the names that are wanted in case somebody
/// took the label away.
///
/// # Errors
/// The API server cannot be asked.
pub(super) async fn objects_of(
    client: &Client,
    served: &BTreeSet<Kind>,
    wanted: &[Id],
) -> Result<Observed, CallError> {
    let mut observed = Observed::default();
    let labelled = ListParams::default().labels(OURS);
    for kind in served.iter().copied() {
        // Other roles may well carry such a label: only the owner is ours to write.
        if kind == Kind::ClusterRole {
            continue;
        }
        let what = || format!("cannot list objects of kind {}", kind.names().kind);
        let list = call(what, objects(client, kind).list(&labelled)).await?;
        for object in list {
            let name = object.metadata.name.clone().unwrap_or_default();
            let id = Id { kind, name };
            if !id.is_ours() {
                continue;
            }
            let mut value = serde_json::to_value(object).unwrap_or_default();
            // Items of a list do not say what they are.
            value["apiVersion"] = format!("{}/v1", kind.names().group).into();
            value["kind"] = kind.names().kind.into();
            observed.objects.insert(id, value);
        }
    }
    let owner = Id {
        kind: Kind::ClusterRole,
        name: OWNER.to_owned(),
    };
    for id in wanted.iter().chain([&owner]) {
        if served.contains(&id.kind)
            && !observed.objects.contains_key(id)
            && let Some(object) = get(client, id).await?
        {
            observed.objects.insert(id.clone(), object);
        }
    }
    Ok(observed)
}

async fn get(client: &Client, id: &Id) -> Result<Option<Value>, CallError> {
    let api = objects(client, id.kind);
    let found = call(|| format!("cannot read {id}"), api.get_opt(&id.name)).await?;
    Ok(found.map(|object| serde_json::to_value(object).unwrap_or_default()))
}

/// Reads the state of our own namespace, and its UID if it is there.
///
/// # Errors
/// The API server cannot be asked.
pub(super) async fn home(
    client: &Client,
    namespace: &str,
) -> Result<(Home, Option<String>), CallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let what = || format!("cannot read namespace {namespace}");
    let found = call(what, api.get_metadata_opt(namespace)).await?;
    let Some(metadata) = found.map(|found| found.metadata) else {
        return Ok((Home::Missing, None));
    };
    let home = match metadata.deletion_timestamp {
        None => Home::Active,
        Some(_) => Home::Terminating,
    };
    Ok((home, metadata.uid))
}

/// Reads whether the serving replicas have this configuration.
///
/// # Errors
/// The API server cannot be asked.
pub(super) async fn fleet(
    client: &Client,
    namespace: &str,
    configuration: &str,
) -> Result<Fleet, CallError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(SERVING);
    let what = || format!("cannot list the serving replicas in namespace {namespace}");
    let pods = call(what, api.list(&params)).await?;
    let now = wall_clock();
    let replicas = pods.into_iter().map(|pod| replica(pod, now));
    let replicas: Vec<Replica> = replicas.collect();
    Ok(Fleet::of(&replicas, configuration))
}

/// One that is being deleted answers until its time is over, by the configuration that it has.
fn replica(pod: Pod, now: Timestamp) -> Replica {
    let end = pod.metadata.deletion_timestamp;
    let status = pod.status.unwrap_or_default();
    let mut labels = pod.metadata.labels.unwrap_or_default();
    let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let mut conditions = status.conditions.unwrap_or_default().into_iter();
    Replica {
        name: pod.metadata.name.unwrap_or_default(),
        configuration: labels.remove(CONFIGURATION_LABEL),
        is_ready: conditions.any(|one| one.type_ == "Ready" && one.status == "True"),
        is_gone: has_ended || end.is_some_and(|end| end.0 <= now),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_replica_that_is_being_deleted_counts_until_its_time_is_over() {
        let end: Timestamp = "2026-03-01T12:00:30Z".parse().unwrap();
        let pod = json!({
            "metadata": {"name": "a", "deletionTimestamp": end.to_string()},
            "status": {"phase": "Running"},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let second = jiff::SignedDuration::from_secs(1);
        // On its way out it still answers, by the configuration that it has.
        assert!(!replica(pod.clone(), end - second).is_gone);
        // One on a node that is lost stays like this for ever.
        assert!(replica(pod.clone(), end).is_gone);
        let mut ended = pod;
        ended.metadata.deletion_timestamp = None;
        assert!(!replica(ended.clone(), end).is_gone);
        ended.status.as_mut().unwrap().phase = Some("Failed".to_owned());
        assert!(replica(ended, end).is_gone);
    }
}
