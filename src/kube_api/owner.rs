//! The ClusterRole that owns all that meshgate writes: with it, the garbage collector deletes the rest.

use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client};

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
    let metadata = found.map(|role| role.metadata);
    let lasting = metadata.filter(|metadata| metadata.deletion_timestamp.is_none());
    let uid = lasting.and_then(|metadata| metadata.uid);
    Ok(uid.map(|uid| OwnerReference {
        api_version: "rbac.authorization.k8s.io/v1".to_owned(),
        kind: "ClusterRole".to_owned(),
        name: OWNER.to_owned(),
        uid,
        ..OwnerReference::default()
    }))
}
