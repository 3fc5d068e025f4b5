//! How the controllers talk to the API server: each call with a deadline, each error as a
//! sentence.

pub mod client;
pub mod event;
pub mod follow;
pub mod kind;
pub mod listen;

use std::collections::BTreeSet;
use std::error::Error as _;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};

use self::kind::Kind;

/// The clock by which people and objects tell the time. Plans are told it.
#[expect(
    clippy::disallowed_methods,
    reason = "the edge where plans, which are pure, get the time from"
)]
pub fn wall_clock() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// The field manager of everything that we write.
pub const MANAGER: &str = "meshgate";

/// How long one call may take: longer than any webhook that it may have to wait for.
pub const DEADLINE: Duration = Duration::from_secs(35);

/// A call that did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server said no, or was not reached.
    #[error("{what}: {}", said(answer))]
    Call {
        /// What was tried.
        what: String,
        /// What came back. No source of this error: its text has all of it, and once.
        answer: Box<kube::Error>,
    },
    /// No answer came.
    #[error("{what}: no answer within {DEADLINE:?}")]
    Deadline {
        /// What was tried.
        what: String,
    },
}

impl CallError {
    /// The HTTP status of the API server's answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        let Self::Call { answer, .. } = self else {
            return None;
        };
        code(answer)
    }

    /// The object is not there (any more).
    pub fn is_gone(&self) -> bool {
        self.code() == Some(404)
    }

    /// A right is missing, or a policy refuses it: trying again does not help.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Somebody else was quicker: look again.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

/// Makes a call with a deadline; `what` is said where it fails.
///
/// # Errors
/// The call failed or took too long.
pub async fn call<T>(
    what: impl FnOnce() -> String,
    future: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(answer)) => Err(CallError::Call {
            what: what(),
            answer: Box::new(answer),
        }),
        Err(_) => Err(CallError::Deadline { what: what() }),
    }
}

/// The HTTP status of the API server's answer, if there was one.
pub fn code(error: &kube::Error) -> Option<u16> {
    if let kube::Error::Api(status) = error {
        return Some(status.code);
    }
    None
}

/// What an error says, once: the client's own text says everything twice.
pub fn said(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// All objects of a kind.
pub fn objects(client: &Client, kind: Kind) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(kind))
}

fn resource(kind: Kind) -> ApiResource {
    let names = kind.names();
    ApiResource {
        group: names.group.to_owned(),
        version: "v1".to_owned(),
        api_version: format!("{}/v1", names.group),
        kind: names.kind.to_owned(),
        plural: names.plural.to_owned(),
    }
}

/// The kinds that this cluster serves in v1.
///
/// # Errors
/// The API server cannot be asked.
pub async fn served(client: &Client) -> Result<BTreeSet<Kind>, CallError> {
    let group = Kind::MutatingPolicy.names().group;
    let what = || "cannot find out which kinds the cluster serves".to_owned();
    let group = format!("{group}/v1");
    let list = call(what, client.list_api_group_resources(&group)).await?;
    let is_listed = |kind: &Kind| {
        let plural = kind.names().plural;
        !kind.is_optional() || list.resources.iter().any(|one| one.name == plural)
    };
    Ok(Kind::BY_REMOVAL.into_iter().filter(is_listed).collect())
}

/// The name that the API server knows us by: the guard lets it pass.
///
/// # Errors
/// The API server cannot be asked.
pub async fn own_name(client: &Client) -> Result<String, CallError> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let what = || "cannot find out who we are to the API server".to_owned();
    let review = SelfSubjectReview::default();
    let review = call(what, api.create(&PostParams::default(), &review)).await?;
    let user = review.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use kube::core::Status;

    use super::CallError;

    #[test]
    fn an_error_says_each_cause_once() {
        let status = Status::failure("alice may not", "Forbidden").with_code(403);
        let error = CallError::Call {
            what: "cannot delete it".to_owned(),
            answer: Box::new(kube::Error::Api(Box::new(status))),
        };
        assert_eq!(error.to_string(), "cannot delete it: alice may not");
        assert!(error.source().is_none());
        assert!(error.is_forbidden() && !error.is_gone() && !error.is_conflict());
    }
}
