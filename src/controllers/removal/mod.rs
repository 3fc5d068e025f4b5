//! Takes away all that meshgate has written into a cluster, with or without a meshgate running.
//!
//! Everything is found by our label and by name, so that what other versions and configurations
//! have written goes as well.

pub mod plan;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::render::{BREAK_GLASS, mirror};

use super::api::{self, CallError, MANAGER, OURS, call, objects};
use super::kind::{Id, Kind};

/// Namespaces in one page.
const PAGE: u32 = 500;
/// Patches at a time.
const AT_ONCE: usize = 8;
/// Pause before something is tried again.
const PAUSE: Duration = Duration::from_millis(500);
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
    let labelled = labelled(client).await?;
    Ok(Found {
        objects: plan::in_order(ids),
        namespaces: labelled.into_keys().collect(),
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

/// Namespaces that carry labels of ours and are to stay, with the patch that takes them off.
async fn labelled(client: &Client) -> Result<BTreeMap<String, Value>, CallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut found = BTreeMap::new();
    loop {
        let what = || "cannot list namespaces".to_owned();
        let page = call(what, api.list_metadata(&params)).await?;
        for namespace in page.items {
            let metadata = namespace.metadata;
            let patch = metadata.labels.as_ref().and_then(plan::unlabel);
            // One that is being deleted takes its labels with it.
            if let (Some(patch), Some(name), None) =
                (patch, metadata.name, metadata.deletion_timestamp)
            {
                found.insert(name, patch);
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

/// Takes our labels off all namespaces, again and again until none has any: an API server may use
/// the mirror from its cache for a moment after it was deleted.
///
/// Returns the namespaces that were changed.
///
/// # Errors
/// The API server cannot be asked, or some namespace still refuses at the deadline.
pub async fn unlabel(client: &Client, deadline: Instant) -> Result<Vec<String>, CallError> {
    let mut changed: Vec<String> = Vec::new();
    let mut told = Instant::now();
    loop {
        let todo = labelled(client).await?;
        if todo.is_empty() {
            changed.sort();
            changed.dedup();
            return Ok(changed);
        }
        let all = todo.len();
        let patches = todo
            .into_iter()
            .map(|(name, patch)| unlabel_one(client.clone(), name, patch));
        let mut done = futures::stream::iter(patches).buffer_unordered(AT_ONCE);
        let mut last_error = None;
        let mut count = 0;
        while let Some((name, result)) = done.next().await {
            count += 1;
            match result {
                Ok(is_off) => changed.extend(is_off.then_some(name)),
                Err(error) => last_error = Some(error),
            }
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                tracing::info!(done = count, of = all, "taking labels off namespaces");
            }
        }
        if let Some(error) = last_error.filter(|_| Instant::now() >= deadline) {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// True if the labels are off.
async fn unlabel_one(
    client: Client,
    name: String,
    patch: Value,
) -> (String, Result<bool, CallError>) {
    let api: Api<Namespace> = Api::all(client);
    let params = PatchParams {
        field_manager: Some(format!("{MANAGER}-uninstall")),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(&patch);
    let what = || format!("cannot take the labels off namespace {name}");
    let result = match call(what, api.patch_metadata(&name, &params, &patch)).await {
        Ok(after) => {
            let labels = after.metadata.labels.unwrap_or_default();
            Ok(!labels
                .keys()
                .any(|key| key.starts_with(mirror::LABEL_PREFIX)))
        }
        Err(error) if error.is_gone() => Ok(false),
        Err(error) => Err(error),
    };
    (name, result)
}
