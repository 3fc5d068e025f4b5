//! Dry runs by which it is seen what the API server does: of a ConfigMap in our own namespace, with a
//! label that only our own entries and policies look for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::kube_api::{CallError, MANAGER, call};

/// Asks to create one with this label. Returns the annotations of what would have been created.
///
/// # Errors
/// The API server refuses it, or cannot be asked.
pub(super) async fn annotated(
    client: &Client,
    namespace: &str,
    label: &str,
) -> Result<BTreeMap<String, String>, CallError> {
    let mut object = ConfigMap::default();
    object.metadata.generate_name = Some("meshgate-dry-run-".to_owned());
    object.metadata.labels = Some(BTreeMap::from([(label.to_owned(), String::new())]));
    let params = PostParams {
        dry_run: true,
        field_manager: Some(MANAGER.to_owned()),
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let what = || format!("dry run of a ConfigMap in namespace {namespace}");
    let answer = call(what, api.create(&params, &object)).await?;
    Ok(answer.metadata.annotations.unwrap_or_default())
}
