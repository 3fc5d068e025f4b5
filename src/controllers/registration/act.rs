//! Does one planned write.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::Value;

use crate::kube_api::kind::Id;
use crate::kube_api::{self, CallError, MANAGER, call, gone_is_deleted, objects};

/// Creates our own namespace.
///
/// # Errors
/// The API server refuses it, or cannot be asked. That somebody else was quicker is no error.
pub(super) async fn create_home(client: &Client, namespace: &str) -> Result<(), CallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut object = Namespace::default();
    object.metadata.name = Some(namespace.to_owned());
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let what = || format!("cannot create namespace {namespace}");
    match call(what, api.create(&params, &object)).await {
        Err(error) if !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}

/// Writes an object by server-side apply.
///
/// # Errors
/// The API server refuses it, or cannot be asked; a conflict if it has changed since it was seen.
pub(super) async fn apply(client: &Client, id: &Id, object: &Value) -> Result<(), CallError> {
    let params = PatchParams::apply(MANAGER).force();
    let api = objects(client, id.kind);
    let patch = Patch::Apply(object);
    let written = api.patch(&id.name, &params, &patch);
    call(|| format!("cannot write {id}"), written).await?;
    Ok(())
}

/// Changes an object under broken glass, or closes it.
///
/// # Errors
/// The API server refuses it, or cannot be asked; a conflict if it has changed since it was seen.
/// That it is gone already is no error.
pub(super) async fn merge(client: &Client, id: &Id, patch: &Value) -> Result<(), CallError> {
    gone_is_deleted(kube_api::merge(client, id, patch, kube_api::BREAK_GLASS_MANAGER).await)
}

/// Deletes an object as it was seen.
///
/// # Errors
/// The API server refuses it, or cannot be asked; a conflict if it has changed since it was seen.
/// That it is gone already is no error.
pub(super) async fn delete(
    client: &Client,
    id: &Id,
    seen: Option<&Value>,
) -> Result<(), CallError> {
    let text = |key: &str| seen.and_then(|seen| seen["metadata"][key].as_str());
    let params = DeleteParams {
        preconditions: seen.map(|_| Preconditions {
            uid: text("uid").map(str::to_owned),
            resource_version: text("resourceVersion").map(str::to_owned),
        }),
        ..DeleteParams::default()
    };
    let api = objects(client, id.kind);
    let deleted = api.delete(&id.name, &params);
    match call(|| format!("cannot delete {id}"), deleted).await {
        Err(error) if !error.is_gone() => Err(error),
        _ => Ok(()),
    }
}
