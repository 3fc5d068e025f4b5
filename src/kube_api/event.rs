//! Events about objects of the registration. These have no namespace, so the API server wants their
//! Events in namespace `default`.
//!
//! kube-runtime's `Recorder` would not do: it leaves `lastTimestamp` empty, by which
//! `kubectl get events --sort-by=.lastTimestamp` sorts, and for a repeated Event it needs `patch` on
//! `events` in `default`: the right to rewrite the Events of others there.

use k8s_openapi::api::core::v1::{Event as Object, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::lifecycle::wall_clock;

use super::kind::Id;
use super::{CallError, MANAGER, call};

/// Where Events about objects without a namespace are.
pub const NAMESPACE: &str = "default";

/// Reason: something keeps the registration from its wanted state.
pub const NOT_AS_WANTED: &str = "NotAsWanted";
/// Reason: the registration is in its wanted state again.
pub const AS_WANTED: &str = "AsWanted";
/// Reason: `break-glass` switched enforcement off for a time.
pub const ENFORCEMENT_SUSPENDED: &str = "EnforcementSuspended";
/// Reason: enforcement is on again.
pub const ENFORCEMENT_RESUMED: &str = "EnforcementResumed";

/// Reason: a pod came with its sidecars, so blocked owners are woken.
pub const WAKING: &str = "Waking";

/// In characters. The API server refuses a message of more than 1024.
const LONGEST: usize = 1000;

#[derive(Debug, Clone)]
pub struct Event {
    pub reason: &'static str,
    pub message: String,
    /// An administrator should look.
    pub is_warning: bool,
}

/// Writes an Event about the object with this UID, if it is known.
///
/// # Errors
/// The API server refuses the call or does not answer.
pub async fn record(
    client: &Client,
    id: &Id,
    uid: Option<&str>,
    event: &Event,
) -> Result<(), CallError> {
    let now = Time(wall_clock());
    let kind = if event.is_warning {
        "Warning"
    } else {
        "Normal"
    };
    let mut object = Object {
        involved_object: ObjectReference {
            api_version: Some(id.kind.api_version().to_owned()),
            kind: Some(id.kind.as_str().to_owned()),
            name: Some(id.name.clone()),
            uid: uid.map(str::to_owned),
            ..ObjectReference::default()
        },
        reason: Some(event.reason.to_owned()),
        message: Some(event.message.chars().take(LONGEST).collect()),
        type_: Some(kind.to_owned()),
        source: Some(EventSource {
            component: Some(MANAGER.to_owned()),
            ..EventSource::default()
        }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Object::default()
    };
    object.metadata.generate_name = Some(format!("{}.", id.name));
    let api: Api<Object> = Api::namespaced(client.clone(), NAMESPACE);
    let what = || format!("cannot write an Event about {id}");
    call(what, api.create(&PostParams::default(), &object)).await?;
    Ok(())
}
