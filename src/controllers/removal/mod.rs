//! Takes away all that meshgate has written into a cluster, with or without a meshgate running.
//!
//! Everything is found by our label and by name, so that what other versions and configurations
//! have written goes as well.

pub mod installation;
pub mod plan;

use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::render::BREAK_GLASS;

use crate::kube_api::kind::{Id, Kind, in_order};
use crate::kube_api::{self, CallError, MANAGER, call, objects};
use crate::render::OURS;

/// Namespaces in one page.
const PAGE: u32 = 500;
/// Patches at a time.
const AT_ONCE: usize = 8;
/// Progress is told after this time, and again.
const PROGRESS: Duration = Duration::from_secs(2);

/// What there is of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Objects, in the order in which they are to go.
    pub objects: Vec<Id>,
    /// Namespaces with labels of ours.
    pub namespaces: Vec<String>,
}

impl Found {
    /// Whether there is anything but the owner.
    pub fn has_more_than_owner(&self) -> bool {
        self.objects.iter().any(|id| id.kind != Kind::ClusterRole)
    }

    /// True if there is nothing.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.namespaces.is_empty()
    }
}

/// Looks for everything that is ours.
///
/// # Errors
/// The API server cannot be asked.
pub async fn find(client: &Client) -> Result<Found, CallError> {
    let served = kube_api::served(client).await?;
    let mut ids = Vec::new();
    for kind in served
        .iter()
        .copied()
        .filter(|kind| *kind != Kind::ClusterRole)
    {
        let what = || format!("cannot list objects of kind {}", kind.names().kind);
        let params = ListParams::default().labels(OURS);
        let list = call(what, objects(client, kind).list_metadata(&params)).await?;
        let names = list.into_iter().filter_map(|object| object.metadata.name);
        ids.extend(names.map(|name| Id { kind, name }));
    }
    for id in plan::well_known() {
        if served.contains(&id.kind) && !ids.contains(&id) && exists(client, &id).await? {
            ids.push(id);
        }
    }
    Ok(Found {
        objects: in_order(ids),
        namespaces: labelled(client).await?,
    })
}

async fn exists(client: &Client, id: &Id) -> Result<bool, CallError> {
    let api = objects(client, id.kind);
    let found = call(
        || format!("cannot read {id}"),
        api.get_metadata_opt(&id.name),
    )
    .await?;
    Ok(found.is_some())
}

/// Namespaces that carry labels of ours, and are to stay.
async fn labelled(client: &Client) -> Result<Vec<String>, CallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let what = || "cannot list namespaces".to_owned();
        let page = call(what, api.list_metadata(&params)).await?;
        for namespace in page.items {
            let metadata = namespace.metadata;
            let is_ours = metadata.labels.as_ref().and_then(plan::unlabel).is_some();
            // One that is being deleted takes its labels with it.
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

/// An object that was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// It is as it was.
    #[error("{0}")]
    Untouched(CallError),
    /// It is as it was, after its glass was broken and mended.
    #[error("{0}; the annotation {BREAK_GLASS}, which deleting it takes, was taken off it again")]
    Mended(CallError),
    /// Its glass is broken: the guard lets anybody change it.
    #[error(
        "{why}; it still has the annotation {BREAK_GLASS}, so that the guard lets anybody change it: {mending}"
    )]
    Broken {
        /// Why it was not deleted.
        why: CallError,
        /// Why the annotation is still there.
        mending: CallError,
    },
}

/// Removes an object. One that the guard guards is first marked with who and why, as the guard
/// wants it; that also tells a running meshgate to leave it alone.
///
/// # Errors
/// The API server refuses it, or cannot be asked; then the mark is as it was before, if that could be
/// done. That it is gone already is no error.
pub async fn remove(client: &Client, id: &Id, note: &str) -> Result<(), RemovalError> {
    if !id.kind.is_webhooks() {
        return delete(client, id).await.map_err(RemovalError::Untouched);
    }
    let api = objects(client, id.kind);
    let what = || format!("cannot read {id}");
    let seen = call(what, api.get_metadata_opt(&id.name)).await;
    let Some(seen) = seen.map_err(RemovalError::Untouched)? else {
        return Ok(());
    };
    let annotations = seen.metadata.annotations.unwrap_or_default();
    let what = || format!("cannot mark {id} for its deletion");
    match call(what, mark(client, id, &json!(note))).await {
        Err(error) if error.is_gone() => return Ok(()),
        done => done.map_err(RemovalError::Untouched)?,
    }
    let Err(why) = delete(client, id).await else {
        return Ok(());
    };
    let before = json!(annotations.get(BREAK_GLASS));
    let what = || format!("cannot take it off {id}");
    match call(what, mark(client, id, &before)).await {
        Err(mending) if !mending.is_gone() => Err(RemovalError::Broken { why, mending }),
        _ => Err(RemovalError::Mended(why)),
    }
}

/// Sets the break-glass annotation of an object; nothing takes it off.
async fn mark(client: &Client, id: &Id, note: &Value) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {"annotations": {BREAK_GLASS: note}}});
    let params = PatchParams {
        field_manager: Some(format!("{MANAGER}-uninstall")),
        ..PatchParams::default()
    };
    let api = objects(client, id.kind);
    let patch = Patch::Merge(&patch);
    let patched = api.patch_metadata(&id.name, &params, &patch);
    patched.await.map(drop)
}

async fn delete(client: &Client, id: &Id) -> Result<(), CallError> {
    let api = objects(client, id.kind);
    let params = DeleteParams::default();
    let deleted = api.delete(&id.name, &params);
    match call(|| format!("cannot delete {id}"), deleted).await {
        Err(error) if !error.is_gone() => Err(error),
        _ => Ok(()),
    }
}

/// Takes our labels off these namespaces, once each. Returns the last error that may pass by itself,
/// if there was one: some may have to be tried again, as an API server may use the mirror from its
/// cache for a moment after it was deleted.
///
/// # Errors
/// It is forbidden: a right is missing, and more tries do not bring it.
pub async fn unlabel(
    client: &Client,
    namespaces: &[String],
) -> Result<Option<CallError>, CallError> {
    let mut told = Instant::now();
    let patches = namespaces
        .iter()
        .map(|name| unlabel_one(client.clone(), name.clone()));
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

async fn unlabel_one(client: Client, name: String) -> Result<(), CallError> {
    let api: Api<Namespace> = Api::all(client);
    let what = || format!("cannot read namespace {name}");
    let Some(namespace) = call(what, api.get_metadata_opt(&name)).await? else {
        return Ok(());
    };
    let labels = namespace.metadata.labels.unwrap_or_default();
    let Some(patch) = plan::unlabel(&labels) else {
        return Ok(());
    };
    let params = PatchParams {
        field_manager: Some(format!("{MANAGER}-uninstall")),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(&patch);
    let what = || format!("cannot take the labels off namespace {name}");
    match call(what, api.patch_metadata(&name, &params, &patch)).await {
        Err(error) if !error.is_gone() => Err(error),
        _ => Ok(()),
    }
}
