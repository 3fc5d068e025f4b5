//! Calls to the API server: each one has a deadline, and each error is one sentence.

pub mod backoff;
pub mod client;
pub mod event;
pub mod follow;
pub mod kind;
pub mod listen;
pub mod owner;
pub mod pages;

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, Patch,
    PatchParams, PostParams, Preconditions,
};
use kube::{Api, Client, ResourceExt};
use meshgate_core::names::OURS;
use serde_json::Value;

use crate::telemetry::with_causes;

use self::follow::Failure;
use self::kind::{Id, Kind, REGISTRATION, group};

/// The field manager of everything that meshgate writes.
pub const MANAGER: &str = "meshgate";
/// The field manager of what `break-glass` writes, and of what puts it back.
pub const BREAK_GLASS_MANAGER: &str = "meshgate-break-glass";

/// Longer than the API server waits for any one webhook (30 s).
pub const DEADLINE: Duration = Duration::from_secs(35);

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server refused it, or was not reached. The answer is not this error's source: the
    /// sentence has all of its text, once.
    #[error("{what}: {}", said(answer))]
    Call {
        what: String,
        answer: Box<kube::Error>,
    },
    #[error("{what}: no answer within {within:?}")]
    Deadline { what: String, within: Duration },
}

impl CallError {
    /// The HTTP status; `None` if the API server did not answer.
    pub fn code(&self) -> Option<u16> {
        let Self::Call { answer, .. } = self else {
            return None;
        };
        let kube::Error::Api(status) = &**answer else {
            return None;
        };
        Some(status.code)
    }

    /// How long the API server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        let Self::Call { answer, .. } = self else {
            return None;
        };
        Failure::of(&**answer).retry_after
    }

    /// The object does not exist (any more).
    pub fn is_gone(&self) -> bool {
        self.code() == Some(404)
    }

    /// A right is missing, or a policy refuses it: a retry does not help.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// The same of a write. Policies of others may say 422, as the API server does of an object that it finds
    /// invalid.
    pub fn is_refused(&self) -> bool {
        self.is_forbidden() || matches!(self.code(), Some(400 | 422))
    }

    /// Another client wrote the object first: read it again.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

/// Makes a call with the usual deadline; `what` begins the error's sentence.
///
/// # Errors
/// The API server refused the call or did not answer in time.
pub async fn call<T>(
    what: impl FnOnce() -> String,
    future: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    call_within(DEADLINE, what, future).await
}

/// As [`call`], with a deadline of its own.
///
/// # Errors
/// As those of [`call`].
pub async fn call_within<T>(
    within: Duration,
    what: impl FnOnce() -> String,
    future: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(within, future).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(answer)) => Err(CallError::Call {
            what: what(),
            answer: Box::new(answer),
        }),
        Err(_) => Err(CallError::Deadline {
            what: what(),
            within,
        }),
    }
}

/// The result of a deletion: an object that is gone already was deleted.
///
/// # Errors
/// All others.
pub fn gone_is_deleted<T>(deleted: Result<T, CallError>) -> Result<(), CallError> {
    match deleted {
        Err(error) if !error.is_gone() => Err(error),
        _ => Ok(()),
    }
}

/// The text of an error. The API server's own answer says all.
fn said(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    with_causes(error)
}

/// For writes as meshgate.
pub fn by_meshgate() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// For the deletion of an object as it was seen: none that was changed or made anew since then.
pub fn as_seen(seen: &ObjectMeta) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: seen.uid.clone(),
        resource_version: seen.resource_version.clone(),
    })
}

/// Merges a patch into an object. The patch carries the `resourceVersion` that it holds for.
///
/// # Errors
/// The API server refuses it or does not answer; a conflict if the object has changed.
pub async fn merge(
    client: &Client,
    id: &Id,
    patch: &Value,
    manager: &str,
) -> Result<(), CallError> {
    let params = PatchParams::apply(manager);
    let api = objects(client, id.kind);
    let patch = Patch::Merge(patch);
    let merged = api.patch_metadata(&id.name, &params, &patch);
    call(|| format!("cannot change {id}"), merged).await?;
    Ok(())
}

/// All objects of a kind.
pub fn objects(client: &Client, kind: Kind) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(group(kind.api_version()), "v1", kind.as_str());
    Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk))
}

/// The objects of a kind that carry meshgate's label.
///
/// # Errors
/// The API server refuses the call or does not answer.
pub async fn ours(client: &Client, kind: Kind) -> Result<Vec<(Id, DynamicObject)>, CallError> {
    let what = || format!("cannot list objects of kind {}", kind.as_str());
    let params = ListParams::default().labels(OURS);
    let list = call(what, objects(client, kind).list(&params)).await?;
    let named = |object: DynamicObject| (Id::new(kind, &object.name_any()), object);
    Ok(list.into_iter().map(named).collect())
}

/// An object; `None` if it does not exist.
///
/// # Errors
/// The API server refuses the call or does not answer.
pub async fn read(client: &Client, id: &Id) -> Result<Option<DynamicObject>, CallError> {
    let api = objects(client, id.kind);
    call(|| format!("cannot read {id}"), api.get_opt(&id.name)).await
}

/// The kinds that this cluster serves in v1.
///
/// # Errors
/// The API server refuses the call or does not answer.
pub async fn served(client: &Client) -> Result<BTreeSet<Kind>, CallError> {
    let what = || "cannot list the kinds that the cluster serves".to_owned();
    let list = call(what, client.list_api_group_resources(REGISTRATION)).await?;
    let is_listed = |kind: &Kind| {
        let mut served = list.resources.iter();
        !kind.is_optional() || served.any(|one| one.kind == kind.as_str())
    };
    Ok(Kind::ALL.into_iter().filter(is_listed).collect())
}

/// The user that the API server authenticates this process as: the guard lets it pass.
///
/// # Errors
/// The API server refuses the call or does not answer.
pub async fn own_name(client: &Client) -> Result<String, CallError> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let what = || "cannot find out which user this process is to the API server".to_owned();
    let review = SelfSubjectReview::default();
    let review = call(what, api.create(&PostParams::default(), &review)).await?;
    let user = review.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username).unwrap_or_default())
}

#[cfg(test)]
mod tests;
