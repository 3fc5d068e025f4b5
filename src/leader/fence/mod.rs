//! A client that writes only by a claim. Controllers have no other client, so none can forget the claim.
//!
//! A write goes out only while the claim lasts for longer than the write may take. Both this process
//! and the API server (by `timeout`, as client-go sends it) give the write up before the claim ends, so
//! that the next leader meets no late write. That does not help a process that is frozen between its
//! check and the network; its writes carry the resourceVersion that it saw, and fail as conflicts.

use std::time::Duration;

use kube::Client;
use kube::client::Body;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tower::BoxError;

use axum::http::uri::PathAndQuery;
use axum::http::{Method, Request, Response, Uri};

use crate::kube_api::DEADLINE;

use super::claim::{Claim, NotHeld};

/// A write may take at least so long. Claims last for ten seconds and are renewed every two, so that
/// a write waits only when renewals fail.
const LEAST: Duration = Duration::from_secs(5);

/// Paths below which a POST stores nothing.
const QUESTIONS: [&str; 2] = [
    "/apis/authentication.k8s.io/",
    "/apis/authorization.k8s.io/",
];

/// See the module.
#[derive(Clone)]
pub struct Fenced(Client);

/// A write that was given up before the claim was over.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {within:?}, which is how long the Lease is sure to be held")]
struct TooLong {
    within: Duration,
}

impl Fenced {
    /// As `client`, but writes need the claim in this term. Only inside a runtime.
    pub fn new(client: Client, claim: Claim, term: u64) -> Self {
        let namespace = client.default_namespace().to_owned();
        let service =
            tower::service_fn(move |request| send(client.clone(), claim.clone(), term, request));
        Self(Client::new(service, namespace))
    }

    pub fn client(self) -> Client {
        self.0
    }
}

async fn send(
    client: Client,
    mut claim: Claim,
    term: u64,
    request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    if !changes(request.method(), request.uri()) {
        return Ok(client.send(request).await?);
    }
    let end = claim.room(term, LEAST).await?;
    // A claim may last for ever: no call waits for longer than this.
    let end = end.min(Instant::now() + DEADLINE);
    // In a task of its own, which goes on when the controller that wanted the write is stopped:
    // the elector must know when the write has ended.
    let (answer, answered) = oneshot::channel();
    claim.writes.spawn(async move {
        // The receiver is gone if that controller was stopped.
        drop(answer.send(write(client, request, end).await));
    });
    answered.await?
}

async fn write(
    client: Client,
    request: Request<Body>,
    end: Instant,
) -> Result<Response<Body>, BoxError> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(NotHeld.into());
    }
    let request = within(request, left)?;
    match timeout_at(end, client.send(request)).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(TooLong { within: left }.into()),
    }
}

/// Whether a request may change an object.
fn changes(method: &Method, uri: &Uri) -> bool {
    let is_question = QUESTIONS.iter().any(|path| uri.path().starts_with(path));
    let mut query = uri.query().unwrap_or_default().split('&');
    let is_dry_run = query.any(|pair| pair == "dryRun=All");
    !matches!(*method, Method::GET | Method::HEAD) && !is_question && !is_dry_run
}

/// The request with a limit for the time that the API server may take.
fn within(mut request: Request<Body>, left: Duration) -> Result<Request<Body>, BoxError> {
    let mut parts = request.uri().clone().into_parts();
    let uri = request.uri();
    let (path, millis) = (uri.path(), left.as_millis());
    let with_query = match uri.query() {
        None | Some("") => format!("{path}?timeout={millis}ms"),
        Some(query) => format!("{path}?{query}&timeout={millis}ms"),
    };
    parts.path_and_query = Some(with_query.parse::<PathAndQuery>()?);
    *request.uri_mut() = Uri::from_parts(parts)?;
    Ok(request)
}

#[cfg(test)]
mod tests;
