//! Takes away all that meshgate has written into a cluster, with or without a meshgate running.
//!
//! Everything is found by our label and by name, so that what other versions and configurations
//! have written goes as well.

pub mod plan;

use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::render::BREAK_GLASS;

use super::api::{self, CallError, MANAGER, OURS, call, objects};
use super::kind::{Id, Kind};

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
    let served = api::served(client).await?;
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
        objects: plan::in_order(ids),
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

/// Removes an object. One that the guard guards is first marked with who and why, as the guard
/// wants it; that also tells a running meshgate to leave it alone.
///
/// # Errors
/// The API server refuses it, or cannot be asked. That it is gone already is no error.
pub async fn remove(client: &Client, id: &Id, note: &str) -> Result<(), CallError> {
    let api = objects(client, id.kind);
    if id.kind.is_webhooks() {
        let patch = json!({"metadata": {"annotations": {BREAK_GLASS: note}}});
        let patch = Patch::Merge(&patch);
        let what = || format!("cannot mark {id} for its deletion");
        let params = PatchParams {
            field_manager: Some(format!("{MANAGER}-uninstall")),
            ..PatchParams::default()
        };
        match call(what, api.patch_metadata(&id.name, &params, &patch)).await {
            Err(error) if error.is_gone() => return Ok(()),
            done => drop(done?),
        }
    }
    let params = DeleteParams::default();
    let deleted = api.delete(&id.name, &params);
    match call(|| format!("cannot delete {id}"), deleted).await {
        Err(error) if !error.is_gone() => Err(error),
        _ => Ok(()),
    }
}

/// Takes our labels off these namespaces, once each. Returns the last error, if there was one: some
/// may have to be tried again, as an API server may use the mirror from its cache for a moment
/// after it was deleted.
pub async fn unlabel(client: &Client, namespaces: &[String]) -> Option<CallError> {
    let mut told = Instant::now();
    let patches = namespaces
        .iter()
        .map(|name| unlabel_one(client.clone(), name.clone()));
    let mut done = futures::stream::iter(patches).buffer_unordered(AT_ONCE);
    let (mut last_error, mut count) = (None, 0);
    while let Some(result) = done.next().await {
        count += 1;
        last_error = result.err().or(last_error);
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            let of = namespaces.len();
            tracing::info!(done = count, of, "taking labels off namespaces");
        }
    }
    last_error
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
