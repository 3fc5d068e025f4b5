//! The calls to the API server: what there is is read and parsed here, and what was planned is written.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};

use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{
    self, CallError, MANAGER, as_seen, by_meshgate, call, gone_is_deleted, objects,
};
use crate::lifecycle::wall_clock;
use meshgate_core::render::OWNER;

use super::observed::{Fleet, InstallNamespace, Object, SERVING};
use super::plan::Action;

/// Reads all objects that carry our label, and those with a wanted name, whose label another client may
/// have removed.
///
/// # Errors
/// The API server refuses it or does not answer, or an object does not have the shape of its kind.
pub(super) async fn objects_of(
    client: &Client,
    served: &BTreeSet<Kind>,
    wanted: impl Iterator<Item = Id>,
) -> Result<BTreeMap<Id, Object>, CallError> {
    let mut found = BTreeMap::new();
    // Other roles may carry the label: only the owner is ours to write.
    for kind in served.iter().filter(|kind| **kind != Kind::ClusterRole) {
        for (id, object) in kube_api::ours(client, *kind).await? {
            let object = Object::of(&id, object)?;
            found.insert(id, object);
        }
    }
    found.retain(|id, _| id.is_ours());
    for id in wanted.chain([Id::new(Kind::ClusterRole, OWNER)]) {
        if !served.contains(&id.kind) || found.contains_key(&id) {
            continue;
        }
        if let Some(object) = kube_api::read(client, &id).await? {
            let object = Object::of(&id, object)?;
            found.insert(id, object);
        }
    }
    Ok(found)
}

/// Reads the state of meshgate's own namespace, and its UID if it exists.
///
/// # Errors
/// The API server refuses it or does not answer.
pub(super) async fn install_namespace(
    client: &Client,
    name: &str,
) -> Result<(InstallNamespace, Option<String>), CallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let what = || format!("cannot read namespace {name}");
    let found = call(what, api.get_metadata_opt(name)).await?;
    let Some(metadata) = found.map(|found| found.metadata) else {
        return Ok((InstallNamespace::Missing, None));
    };
    let state = match metadata.deletion_timestamp {
        None => InstallNamespace::Active,
        Some(_) => InstallNamespace::Terminating,
    };
    Ok((state, metadata.uid))
}

/// Reads whether the serving replicas have this configuration.
///
/// # Errors
/// The API server refuses it or does not answer.
pub(super) async fn fleet(
    client: &Client,
    namespace: &str,
    configuration: &str,
) -> Result<Fleet, CallError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(SERVING);
    let what = || format!("cannot list the serving replicas in namespace {namespace}");
    let pods = call(what, api.list(&params)).await?;
    Ok(Fleet::of(pods, configuration, wall_clock()))
}

/// Asks for a dry run of a ConfigMap with this label. Returns the annotations that it would have.
///
/// # Errors
/// The API server refuses it or does not answer.
pub(super) async fn dry_run(
    client: &Client,
    namespace: &str,
    label: &str,
) -> Result<BTreeMap<String, String>, CallError> {
    let mut object = ConfigMap::default();
    object.metadata.generate_name = Some("meshgate-dry-run-".to_owned());
    object.metadata.labels = Some(BTreeMap::from([(label.to_owned(), String::new())]));
    let params = PostParams {
        dry_run: true,
        ..by_meshgate()
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let what = || format!("dry run of a ConfigMap in namespace {namespace}");
    let answer = call(what, api.create(&params, &object)).await?;
    Ok(answer.metadata.annotations.unwrap_or_default())
}

/// Creates meshgate's own namespace, unless another client was quicker.
///
/// # Errors
/// The API server refuses it or does not answer.
pub(super) async fn create_namespace(client: &Client, name: &str) -> Result<(), CallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut object = Namespace::default();
    object.metadata.name = Some(name.to_owned());
    let what = || format!("cannot create namespace {name}");
    match call(what, api.create(&by_meshgate(), &object)).await {
        Err(error) if !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}

/// Does one write. An object that is gone already was deleted, and is not changed any more.
///
/// # Errors
/// The API server refuses it or does not answer; a conflict if the object has changed since it was
/// `seen`.
pub(super) async fn write(
    client: &Client,
    action: &Action,
    seen: Option<&Object>,
) -> Result<(), CallError> {
    let written = match action {
        Action::CreateNamespace => Ok(()),
        Action::Apply(object) => {
            let id = &object.id;
            let api = objects(client, id.kind);
            let (params, patch) = (PatchParams::apply(MANAGER).force(), Patch::Apply(object));
            let applied = api.patch_metadata(&id.name, &params, &patch);
            return call(|| format!("cannot write {id}"), applied)
                .await
                .map(drop);
        }
        Action::Widen { id, patch } | Action::Resume { id, patch } => {
            kube_api::merge(client, id, patch, kube_api::BREAK_GLASS_MANAGER).await
        }
        Action::Delete(id) => {
            let params = seen.map(|seen| as_seen(&seen.metadata)).unwrap_or_default();
            let api = objects(client, id.kind);
            let deleted = api.delete(&id.name, &params);
            call(|| format!("cannot delete {id}"), deleted)
                .await
                .map(drop)
        }
    };
    gone_is_deleted(written)
}
