//! Breaks the glass and closes it, for whoever has no more rights than that takes: webhook
//! configurations are read and patched by name, bindings are listed and patched.

use std::time::Duration;

use kube::Client;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::Value;

use crate::break_glass::{self, suspend::Suspended};
use crate::render::{OURS, POLICIES};

use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{CallError, MANAGER, call, objects};

/// Writes are tried as often as somebody else is quicker.
const TRIES: u32 = 8;
/// Pause between two.
const PAUSE: Duration = Duration::from_millis(100);

/// What there is that can be switched off, and what could not be looked at.
#[derive(Debug, Default)]
pub struct Seen {
    /// Objects, webhook configurations first.
    pub objects: Vec<(Id, Value)>,
    /// Why others are unknown.
    pub problems: Vec<CallError>,
}

/// Looks for all that can refuse a pod or a namespace.
pub async fn look(client: &Client) -> Seen {
    let mut seen = Seen::default();
    for id in configurations() {
        match get(client, &id).await {
            Ok(Some(object)) => seen.objects.push((id, object)),
            Ok(None) => {}
            Err(problem) => seen.problems.push(problem),
        }
    }
    let kind = Kind::ValidatingPolicyBinding;
    let what = || format!("cannot list objects of kind {}", kind.names().kind);
    let params = ListParams::default().labels(OURS);
    match call(what, objects(client, kind).list(&params)).await {
        Ok(list) => {
            let all = list.into_iter().filter_map(|object| {
                let name = object.metadata.name.clone()?;
                let value = serde_json::to_value(object).ok()?;
                let is_check = name.ends_with(POLICIES);
                is_check.then_some((Id { kind, name }, value))
            });
            seen.objects.extend(all);
        }
        Err(problem) => seen.problems.push(problem),
    }
    seen
}

fn configurations() -> [Id; 3] {
    let [pods, namespaces] = break_glass::CONFIGURATIONS;
    let id = |kind, name: &str| Id {
        kind,
        name: name.to_owned(),
    };
    [
        id(Kind::MutatingWebhooks, pods),
        id(Kind::ValidatingWebhooks, pods),
        id(Kind::MutatingWebhooks, namespaces),
    ]
}

/// What is to be written to an object so that it is as a note says.
pub fn opened(id: &Id, object: &Value, note: &break_glass::Note) -> Suspended {
    match id.kind {
        Kind::MutatingWebhooks | Kind::ValidatingWebhooks => {
            break_glass::suspend::configuration(object, note)
        }
        Kind::ValidatingPolicyBinding => break_glass::suspend::binding(object, note),
        Kind::ClusterRole
        | Kind::MutatingPolicy
        | Kind::MutatingPolicyBinding
        | Kind::ValidatingPolicy => Suspended::default(),
    }
}

async fn get(client: &Client, id: &Id) -> Result<Option<Value>, CallError> {
    let api = objects(client, id.kind);
    let found = call(|| format!("cannot read {id}"), api.get_opt(&id.name)).await?;
    Ok(found.map(|object| serde_json::to_value(object).unwrap_or_default()))
}

/// Merges into an object what `change` says of it as it is then; again and again if somebody else is
/// quicker. False if there is nothing to change, or the object is gone.
///
/// # Errors
/// The API server refuses it, or cannot be asked.
pub async fn write(
    client: &Client,
    (id, seen): (&Id, &Value),
    change: impl Fn(&Value) -> Option<Value>,
) -> Result<bool, CallError> {
    let mut object = seen.clone();
    let mut tries = 0;
    loop {
        let Some(patch) = change(&object) else {
            return Ok(false);
        };
        tries += 1;
        match merge(client, id, &patch).await {
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

/// Merges a patch into an object; the patch says for which version it holds.
///
/// # Errors
/// The API server refuses it, or cannot be asked; a conflict if the object has changed.
pub async fn merge(client: &Client, id: &Id, patch: &Value) -> Result<(), CallError> {
    let params = PatchParams {
        field_manager: Some(format!("{MANAGER}-break-glass")),
        ..PatchParams::default()
    };
    let api = objects(client, id.kind);
    let patch = Patch::Merge(patch);
    let merged = api.patch(&id.name, &params, &patch);
    call(|| format!("cannot change {id}"), merged).await?;
    Ok(())
}
