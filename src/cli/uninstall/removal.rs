//! Finds and removes what meshgate writes at run time, with or without a meshgate running. Found by
//! label and by name, so that what other versions and configurations wrote goes as well.

use std::collections::BTreeMap;
use std::fmt::Display;
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
use meshgate_core::names::{BREAK_GLASS, CONTROL, OURS, PART_OF};

use super::plan::{self, INSTALLED, Installed, OWN, ObjectRef, ResourceKind};

const MANAGER: &str = "meshgate-uninstall";
/// The wait for the pods of [`CONTROL`] to end: one on a lost node never does.
const STOPS_WITHIN: Duration = Duration::from_secs(60);
/// Pause between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(250);
/// Namespaces in one page: each page has a deadline of its own.
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
    /// Namespaces with labels of meshgate's, and the patches that take these off.
    pub(super) namespaces: BTreeMap<String, Value>,
    /// The Deployment [`CONTROL`] is not scaled to zero: it would write the registration again.
    pub(super) control_runs: bool,
    /// What could not be read, and why.
    pub(super) unseen: Vec<String>,
}

impl Found {
    /// Whether there is anything to do.
    pub(super) fn is_any(&self) -> bool {
        !self.is_empty() || self.control_runs
    }

    /// Whether meshgate has written nothing.
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
        let object = ObjectRef::new(kind, namespace, name);
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
        let objects = kube_api::ours(client, *kind).await?;
        ids.extend(objects.into_iter().map(|(id, _)| id));
    }
    for id in plan::well_known() {
        let is_unknown = served.contains(&id.kind) && !ids.contains(&id);
        if is_unknown && kube_api::read(client, &id).await?.is_some() {
            ids.push(id);
        }
    }
    ids.sort();
    Ok(ids)
}

/// Namespaces with labels of meshgate's that are not being deleted.
async fn labelled(client: &Client) -> Result<BTreeMap<String, Value>, CallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut labelled = BTreeMap::new();
    loop {
        let what = || "cannot list namespaces".to_owned();
        let page = call(what, api.list_metadata(&params)).await?;
        for metadata in page.items.into_iter().map(|namespace| namespace.metadata) {
            let patch = metadata.labels.as_ref().and_then(plan::unlabel);
            let patch = patch.filter(|_| metadata.deletion_timestamp.is_none());
            labelled.extend(metadata.name.zip(patch));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(labelled),
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
            let [namespace, name] =
                [metadata.namespace, metadata.name].map(Option::unwrap_or_default);
            let object = ObjectRef::new(kind, &namespace, &name);
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
    let params = PatchParams::apply(MANAGER);
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    let what = || format!("cannot scale Deployment {namespace}/{CONTROL}");
    call(what, deployments.patch_scale(CONTROL, &params, &patch)).await?;
    Ok(())
}

/// Waits for the pods of [`CONTROL`] to end. Returns why one may still write, if it may.
///
/// # Errors
/// The API server does not answer. A user who may not list pods waits for none.
pub(super) async fn control_may_write(
    client: &Client,
    namespace: &str,
    deadline: Instant,
) -> Result<Option<String>, CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let end = deadline.min(Instant::now() + STOPS_WITHIN);
    let params =
        ListParams::default().labels(&format!("{PART_OF},app.kubernetes.io/component=control"));
    loop {
        let what = || format!("cannot list pods of namespace {namespace}");
        let left = match call(what, pods.list_metadata(&params)).await {
            Err(error) if error.is_forbidden() => return Ok(Some(error.to_string())),
            left => left?,
        };
        if left.items.is_empty() {
            return Ok(None);
        }
        if Instant::now() >= end {
            return Ok(Some(format!("a pod of {CONTROL} does not end")));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Deletes an object. What the guard protects is first marked with who and why, as the guard demands;
/// the mark also tells a running meshgate to leave it alone.
///
/// # Errors
/// The API server refuses it or does not answer. Then the mark is as it was, or the error says so.
pub(super) async fn remove(client: &Client, id: &Id, note: &str) -> anyhow::Result<()> {
    let api = objects(client, id.kind);
    if !id.kind.is_webhooks() {
        return Ok(delete(&api, &id.name, id).await?);
    }
    let Some(seen) = kube_api::read(client, id).await? else {
        return Ok(());
    };
    match mark(client, id, &json!(note)).await {
        Err(error) if error.is_gone() => return Ok(()),
        marked => marked?,
    }
    let Err(why) = delete(&api, &id.name, id).await else {
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

/// Deletes what is meshgate's own in its namespace.
pub(super) async fn remove_own(client: &Client, object: &ObjectRef) -> Result<(), CallError> {
    delete(&api_of(client, object), &object.name, object).await
}

async fn delete(
    api: &Api<DynamicObject>,
    name: &str,
    object: &impl Display,
) -> Result<(), CallError> {
    let what = || format!("cannot delete {object}");
    gone_is_deleted(call(what, api.delete(name, &DeleteParams::default())).await)
}

/// Takes meshgate's labels off these namespaces, once each. Returns the last error that may pass: for a
/// moment after its deletion an API server may still use the mirror from its cache.
///
/// # Errors
/// A right is missing, which a retry does not change.
pub(super) async fn unlabel(
    client: &Client,
    namespaces: &BTreeMap<String, Value>,
) -> Result<Option<CallError>, CallError> {
    let mut told = Instant::now();
    let api = &Api::all(client.clone());
    let patches = namespaces
        .iter()
        .map(|(name, patch)| unlabel_one(api, name, patch));
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

async fn unlabel_one(api: &Api<Namespace>, name: &str, patch: &Value) -> Result<(), CallError> {
    let (params, patch) = (PatchParams::apply(MANAGER), Patch::Merge(patch));
    let what = || format!("cannot take the labels off namespace {name}");
    gone_is_deleted(call(what, api.patch_metadata(name, &params, &patch)).await)
}
