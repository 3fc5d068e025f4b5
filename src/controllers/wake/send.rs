//! Writes the annotation by which a controller tries again at once.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use meshgate_core::names::WOKEN;

use crate::cluster::workloads::{Owner, Uid};
use crate::kube_api::kind::group;
use crate::kube_api::{CallError, call};

use super::Sent;
use super::plan::Outcome;

/// A field manager that owns this one annotation, so that tools which apply the object see no drift.
const MANAGER: &str = "meshgate-wake";
/// Where the API server does not say how long to wait.
const PAUSE: Duration = Duration::from_secs(1);

/// Makes the controller of this owner try, if the owner is still as it was seen.
pub(super) async fn wake(client: Client, uid: Uid, owner: Owner, now: Timestamp) -> Sent {
    let kind = owner.kind;
    let kind = GroupVersionKind::gvk(group(kind.api_version()), "v1", kind.as_str());
    let resource = ApiResource::from_gvk_with_plural(&kind, owner.kind.plural());
    let api: Api<DynamicObject> = Api::namespaced_with(client, &owner.namespace, &resource);
    let params = PatchParams::apply(MANAGER).force();
    let what = || {
        format!(
            "cannot annotate {} {}/{}",
            kind.kind, owner.namespace, owner.name
        )
    };
    let patch = patch(uid, &owner, now);
    let sent = call(
        what,
        api.patch_metadata(&owner.name, &params, &Patch::Apply(patch)),
    )
    .await;
    match sent {
        Ok(_) => (uid, Outcome::Accepted, None),
        Err(error) if error.is_conflict() || error.is_gone() => (uid, Outcome::Conflict, None),
        Err(error) => (uid, outcome(&error), Some(error.to_string())),
    }
}

fn outcome(error: &CallError) -> Outcome {
    match error.code() {
        Some(429) => {
            let pause = error.retry_after().unwrap_or(PAUSE);
            Outcome::Throttled(SignedDuration::try_from(pause).unwrap_or_default())
        }
        _ => Outcome::Failed,
    }
}

/// One annotation, with the UID and the version for which it was planned: an owner that has changed, or was made
/// anew, is left alone.
fn patch(uid: Uid, owner: &Owner, now: Timestamp) -> Value {
    json!({
        "apiVersion": owner.kind.api_version(),
        "kind": owner.kind.as_str(),
        "metadata": {
            "name": owner.name,
            "namespace": &*owner.namespace,
            "uid": uid.to_string(),
            "resourceVersion": owner.version,
            "annotations": {WOKEN: now.to_string()},
        },
    })
}
