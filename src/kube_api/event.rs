//! Events about objects of the registration. They are the cluster's, so that their Events are in
//! namespace `default`, as the API server wants it.

use k8s_openapi::api::core::v1::{Event as Object, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::Value;

use super::kind::Id;
use super::{CallError, MANAGER, call};

/// Where Events about objects without a namespace are.
pub const NAMESPACE: &str = "default";

/// Reason of Events that say what keeps the registration from being as it is wanted.
pub const NOT_AS_WANTED: &str = "NotAsWanted";
/// Reason of Events that say that it is so again.
pub const AS_WANTED: &str = "AsWanted";

/// What is to be told.
#[derive(Debug, Clone)]
pub struct Event {
    /// A word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
    /// Whether somebody should look.
    pub is_warning: bool,
}

/// Tells of an object, as it was seen.
///
/// # Errors
/// The API server refuses it, or cannot be asked.
pub async fn record(
    client: &Client,
    (id, seen): (&Id, Option<&Value>),
    event: &Event,
) -> Result<(), CallError> {
    let names = id.kind.names();
    let uid = seen.and_then(|seen| seen["metadata"]["uid"].as_str());
    let now = Time(super::wall_clock());
    let mut object = Object {
        involved_object: ObjectReference {
            api_version: Some(format!("{}/v1", names.group)),
            kind: Some(names.kind.to_owned()),
            name: Some(id.name.clone()),
            uid: uid.map(str::to_owned),
            ..ObjectReference::default()
        },
        reason: Some(event.reason.to_owned()),
        // The API server takes no longer ones.
        message: Some(event.message.chars().take(1000).collect()),
        type_: Some(
            if event.is_warning {
                "Warning"
            } else {
                "Normal"
            }
            .to_owned(),
        ),
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
