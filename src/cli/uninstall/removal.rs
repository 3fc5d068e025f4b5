//! Finds and removes what meshgate writes at run time, with or without a meshgate running. Found by
//! label and by name, so that what other versions and configurations wrote goes as well.

use std::time::{Duration, Instant};

use anyhow::bail;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{self, CallError, call, gone_is_deleted, objects};
use meshgate_core::render::{BREAK_GLASS, OURS};

use super::plan::{self, INSTALLED, Installed, OWN, ObjectRef, PART_OF, ResourceKind};

const MANAGER: &str = "meshgate-uninstall";
/// The Deployment that would write the registration again.
pub(super) const CONTROL: &str = "meshgate-control";
const CONTROL_PODS: &str = "app.kubernetes.io/part-of=meshgate,app.kubernetes.io/component=control";
/// The wait for its pods to end: one on a lost node never does.
const STOPS_WITHIN: Duration = Duration::from_secs(60);
/// Pause between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(250);
/// Namespaces in one page.
const PAGE: u32 = 500;
/// Patches at a time.
const AT_ONCE: usize = 8;
/// Progress is logged this often.
const PROGRESS: Duration = Duration::from_secs(2);

/// What meshgate has written.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// In the order in which they go.
    pub(super) objects: Vec<Id>,
    /// Secrets and Lease in meshgate's own namespace.
    pub(super) own: Vec<ObjectRef>,
    /// Namespaces with labels of meshgate's.
    pub(super) namespaces: Vec<String>,
    /// The Deployment [`CONTROL`] is not scaled to zero.
    pub(super) control_runs: bool,
    /// What could not be read, and why.
    pub(super) unseen: Vec<String>,
}

impl Found {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.own.is_empty() && self.namespaces.is_empty()
    }
}

/// # Errors
/// The API server does not answer, or refuses to list what is cluster-wide.
pub(super) async fn find(client: &Client, namespace: &str) -> Result<Found, CallError> {
    let mut found = Found {
        objects: registered(client).await?,
        namespaces: labelled(client).await?,
        ..Found::default()
    };
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let what = || format!("cannot read the scale of Deployment {namespace}/{CONTROL}");
    let scale = call(what, deployments.get_scale(CONTROL)).await;
    let scale = seen(scale, &mut found.unseen)?;
    let replicas = scale.and_then(|scale| scale.spec?.replicas);
    found.control_runs = replicas.is_some_and(|replicas| replicas > 0);
    for (kind, name) in OWN {
        let object = ObjectRef {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let what = || format!("cannot read {object}");
        let api = api_of(client, &object);
        let read = seen(call(what, api.get_metadata(name)).await, &mut found.unseen)?;
        let labels = read.and_then(|object| object.metadata.labels);
        // cert-manager's, for instance, is not meshgate's to delete.
        let is_ours = |(key, value): (&String, &String)| format!("{key}={value}") == OURS;
        if labels.iter().flatten().any(is_ours) {
            found.own.push(object);
        }
    }
    Ok(found)
}

/// What was read; nothing if it does not exist, or may not be read, which is noted.
fn seen<T>(read: Result<T, CallError>, unseen: &mut Vec<String>) -> Result<Option<T>, CallError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_gone() => Ok(None),
        Err(error) if error.is_forbidden() => {
            unseen.push(error.to_string());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn registered(client: &Client) -> Result<Vec<Id>, CallError> {
    let served = kube_api::served(client).await?;
    let mut ids = Vec::new();
    for kind in served.iter().filter(|kind| **kind != Kind::ClusterRole) {
        let what = || format!("cannot list objects of kind {}", kind.as_str());
        let params = ListParams::default().labels(OURS);
        let list = call(what, objects(client, *kind).list_metadata(&params)).await?;
        let names = list.into_iter().filter_map(|object| object.metadata.name);
        ids.extend(names.map(|name| Id { kind: *kind, name }));
    }
    for id in plan::well_known() {
        if !served.contains(&id.kind) || ids.contains(&id) {
            continue;
        }
        let (api, what) = (objects(client, id.kind), || format!("cannot read {id}"));
        if call(what, api.get_metadata_opt(&id.name)).await?.is_some() {
            ids.push(id);
        }
    }
    ids.sort();
    Ok(ids)
}

/// Namespaces with labels of meshgate's that are not being deleted.
async fn labelled(client: &Client) -> Result<Vec<String>, CallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let what = || "cannot list namespaces".to_owned();
        let page = call(what, api.list_metadata(&params)).await?;
        for metadata in page.items.into_iter().map(|namespace| namespace.metadata) {
            let is_ours = metadata.labels.as_ref().and_then(plan::unlabel).is_some();
            if is_ours && metadata.deletion_timestamp.is_none() {
                found.extend(metadata.name);
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// What another tool has installed, by its label.
pub(super) async fn installed(
    client: &Client,
    unseen: &mut Vec<String>,
) -> Result<Installed, CallError> {
    let mut found = Installed::default();
    let params = ListParams::default().labels(PART_OF);
    for kind in INSTALLED {
        let what = || format!("cannot list {kind}");
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
        let list = seen(call(what, api.list_metadata(&params)).await, unseen)?;
        for metadata in list.into_iter().flatten().map(|object| object.metadata) {
            let object = ObjectRef {
                kind,
                namespace: metadata.namespace.unwrap_or_default(),
                name: metadata.name.unwrap_or_default(),
            };
            found.add(object, &metadata.annotations.unwrap_or_default());
        }
    }
    Ok(found)
}

fn api_of(client: &Client, object: &ObjectRef) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), &object.namespace, &resource(object.kind))
}

fn resource(kind: ResourceKind) -> ApiResource {
    let (plural, group) = kind.split_once('.').unwrap_or((kind, ""));
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", plural), plural)
}

/// Scales the Deployment [`CONTROL`] to zero.
pub(super) async fn scale_down_control(client: &Client, namespace: &str) -> Result<(), CallError> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    let params = params();
    let what = || format!("cannot scale Deployment {namespace}/{CONTROL}");
    call(what, deployments.patch_scale(CONTROL, &params, &patch)).await?;
    Ok(())
}

/// Waits for the pods of [`CONTROL`] to end. False if one has not in time.
///
/// # Errors
/// The API server does not answer. A user who may not list pods waits for none.
pub(super) async fn has_control_ended(
    client: &Client,
    namespace: &str,
    deadline: Instant,
) -> Result<bool, CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let end = deadline.min(Instant::now() + STOPS_WITHIN);
    let params = ListParams::default().labels(CONTROL_PODS);
    loop {
        let what = || format!("cannot list pods of namespace {namespace}");
        let left = match call(what, pods.list_metadata(&params)).await {
            Err(error) if error.is_forbidden() => return Ok(false),
            left => left?,
        };
        if left.items.is_empty() || Instant::now() >= end {
            return Ok(left.items.is_empty());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

pub(super) async fn remove_own(client: &Client, object: &ObjectRef) -> Result<(), CallError> {
    let (api, params) = (api_of(client, object), DeleteParams::default());
    let what = || format!("cannot delete {object}");
    gone_is_deleted(call(what, api.delete(&object.name, &params)).await)
}

/// Deletes an object. What the guard protects is first marked with who and why, as the guard demands;
/// the mark also tells a running meshgate to leave it alone.
///
/// # Errors
/// The API server refuses it or does not answer. Then the mark is as it was, or the error says so.
pub(super) async fn remove(client: &Client, id: &Id, note: &str) -> anyhow::Result<()> {
    if !id.kind.is_webhooks() {
        return Ok(delete(client, id).await?);
    }
    let (api, what) = (objects(client, id.kind), || format!("cannot read {id}"));
    let Some(seen) = call(what, api.get_metadata_opt(&id.name)).await? else {
        return Ok(());
    };
    match mark(client, id, &json!(note)).await {
        Err(error) if error.is_gone() => return Ok(()),
        marked => marked?,
    }
    let Err(why) = delete(client, id).await else {
        return Ok(());
    };
    let annotations = seen.metadata.annotations.unwrap_or_default();
    match mark(client, id, &json!(annotations.get(BREAK_GLASS))).await {
        Err(mending) if !mending.is_gone() => bail!(
            "{why}; it still has the annotation {BREAK_GLASS}, with which the guard lets any client \
             change it: {mending}"
        ),
        _ => bail!(
            "{why}; the annotation {BREAK_GLASS}, which a deletion needs, was taken off it again"
        ),
    }
}

/// Sets the break-glass annotation; null takes it off.
async fn mark(client: &Client, id: &Id, note: &Value) -> Result<(), CallError> {
    let patch = json!({"metadata": {"annotations": {BREAK_GLASS: note}}});
    kube_api::merge(client, id, &patch, MANAGER).await
}

async fn delete(client: &Client, id: &Id) -> Result<(), CallError> {
    let (api, what) = (objects(client, id.kind), || format!("cannot delete {id}"));
    gone_is_deleted(call(what, api.delete(&id.name, &DeleteParams::default())).await)
}

/// Takes meshgate's labels off these namespaces, once each. Returns the last error that may pass: for a
/// moment after its deletion an API server may still use the mirror from its cache.
///
/// # Errors
/// A right is missing, which a retry does not change.
pub(super) async fn unlabel(
    client: &Client,
    namespaces: &[String],
) -> Result<Option<CallError>, CallError> {
    let mut told = Instant::now();
    let patches = namespaces.iter().map(|name| unlabel_one(client, name));
    let mut done = futures::stream::iter(patches).buffer_unordered(AT_ONCE);
    let (mut last_error, mut count) = (None, 0);
    while let Some(result) = done.next().await {
        count += 1;
        match result {
            Err(error) if error.is_forbidden() => return Err(error),
            result => last_error = result.err().or(last_error),
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            let of = namespaces.len();
            tracing::info!(done = count, of, "taking labels off namespaces");
        }
    }
    Ok(last_error)
}

async fn unlabel_one(client: &Client, name: &str) -> Result<(), CallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let what = || format!("cannot read namespace {name}");
    let found = call(what, api.get_metadata_opt(name)).await?;
    let labels = found.and_then(|namespace| namespace.metadata.labels);
    let Some(patch) = labels.as_ref().and_then(plan::unlabel) else {
        return Ok(());
    };
    let (params, patch) = (params(), Patch::Merge(&patch));
    let what = || format!("cannot take the labels off namespace {name}");
    gone_is_deleted(call(what, api.patch_metadata(name, &params, &patch)).await)
}
