//! The objects that `break-glass` changes, read and written with no more rights than that takes:
//! webhook configurations are read and patched by name, bindings are listed and patched.

use std::time::Duration;

use kube::Client;
use serde_json::Value;

use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{self, BREAK_GLASS_MANAGER, CallError};
use meshgate_core::break_glass::{self, Note, suspend::Suspended};
use meshgate_core::names::POLICIES;

/// Tries of one write, when other clients keep writing first.
const TRIES: u32 = 8;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(in crate::cli) struct Seen {
    /// What can be switched off, webhook configurations first.
    pub(in crate::cli) objects: Vec<(Id, Value)>,
    /// Why others are unknown.
    pub(in crate::cli) problems: Vec<CallError>,
}

/// Reads all that can refuse a pod or a namespace.
pub(in crate::cli) async fn look(client: &Client) -> Seen {
    let mut seen = Seen::default();
    let [pods, namespaces] = break_glass::CONFIGURATIONS;
    for id in [
        Id::new(Kind::MutatingWebhooks, pods),
        Id::new(Kind::ValidatingWebhooks, pods),
        Id::new(Kind::MutatingWebhooks, namespaces),
    ] {
        match get(client, &id).await {
            Ok(found) => seen.objects.extend(found.map(|object| (id, object))),
            Err(problem) => seen.problems.push(problem),
        }
    }
    match checks(client).await {
        Ok(checks) => seen.objects.extend(checks),
        Err(problem) => seen.problems.push(problem),
    }
    seen
}

/// The bindings of checks.
async fn checks(client: &Client) -> Result<Vec<(Id, Value)>, CallError> {
    let bindings = kube_api::ours(client, Kind::ValidatingPolicyBinding).await?;
    let checks = bindings
        .into_iter()
        .filter(|(id, _)| id.name.ends_with(POLICIES));
    let values = checks.map(|(id, object)| (id, serde_json::to_value(object).unwrap_or_default()));
    Ok(values.collect())
}

/// What an object needs to be as a note says, or as it was before any note.
pub(super) fn change(id: &Id, object: &Value, note: Option<&Note>) -> Suspended {
    match note {
        Some(note) if id.kind.is_webhooks() => break_glass::suspend::configuration(object, note),
        Some(note) => break_glass::suspend::binding(object, note),
        None => Suspended {
            patch: break_glass::resume::resume(object),
            ..Suspended::default()
        },
    }
}

async fn get(client: &Client, id: &Id) -> Result<Option<Value>, CallError> {
    let found = kube_api::read(client, id).await?;
    Ok(found.map(|object| serde_json::to_value(object).unwrap_or_default()))
}

/// Merges the patch that `change` makes for the object as it is then, again after each conflict. False
/// if there is nothing to change, or the object is gone.
///
/// # Errors
/// The API server refuses it or does not answer.
pub(super) async fn write(
    client: &Client,
    id: &Id,
    seen: &Value,
    change: impl Fn(&Value) -> Option<Value>,
) -> Result<bool, CallError> {
    let mut object = seen.clone();
    let mut tries = 0;
    loop {
        let Some(patch) = change(&object) else {
            return Ok(false);
        };
        tries += 1;
        match kube_api::merge(client, id, &patch, BREAK_GLASS_MANAGER).await {
            Ok(()) => return Ok(true),
            Err(error) if error.is_gone() => return Ok(false),
            Err(error) if !error.is_conflict() || tries >= TRIES => return Err(error),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        match get(client, id).await? {
            Some(newer) => object = newer,
            None => return Ok(false),
        }
    }
}
