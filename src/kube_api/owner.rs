//! The ClusterRole that owns all that meshgate writes: with it, the garbage collector deletes the rest.

use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client, Resource};

use meshgate_core::render::OWNER;

use super::{CallError, call};

/// A reference to the owner; `None` if there is none, or it is being deleted.
///
/// # Errors
/// The API server refuses the call or does not answer.
pub async fn reference(client: &Client) -> Result<Option<OwnerReference>, CallError> {
    let api: Api<ClusterRole> = Api::all(client.clone());
    let what = || format!("cannot read ClusterRole {OWNER}");
    let found = call(what, api.get_metadata_opt(OWNER)).await?;
    let lasting = found.filter(|role| role.metadata.deletion_timestamp.is_none());
    Ok(lasting.and_then(|role| role.owner_ref(&())))
}
