//! A client that writes only by a claim. What it is given to controllers for cannot be forgotten by
//! any of them: they have no other.
//!
//! A write goes out only while the claim lasts for longer than the write may take, and both we and the
//! API server (`timeout`, as client-go sends it) give it up before the claim is over: whoever holds it
//! next does not meet writes of ours. A process that is stopped in the middle is not helped by that
//! alone; what is written carries the resourceVersion that was seen, and comes too late then.

use std::time::Duration;

use kube::Client;
use kube::client::Body;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tower::BoxError;

use axum::http::uri::PathAndQuery;
use axum::http::{Method, Request, Response, Uri};

use super::claim::{Claim, NotHeld};

/// A write is given so long at least. Claims are renewed every two seconds and last for ten, so that
/// it need not wait before renewals fail.
const LEAST: Duration = Duration::from_secs(5);

/// Paths below which a POST asks and stores nothing.
const QUESTIONS: [&str; 2] = [
    "/apis/authentication.k8s.io/",
    "/apis/authorization.k8s.io/",
];

/// A client that writes only by a claim.
#[derive(Clone)]
pub struct Fenced(Client);

/// A write that was given up before the claim was over.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {within:?}, which is how long the Lease is sure to be held")]
struct TooLong {
    within: Duration,
}

impl Fenced {
    /// The same client, but for writes: these need the claim, of this term. Inside a runtime only.
    pub fn new(client: Client, claim: Claim, term: u64) -> Self {
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request| {
            let fence = Fence {
                client: client.clone(),
                claim: claim.clone(),
                term,
            };
            fence.send(request)
        });
        Self(Client::new(service, namespace))
    }

    /// As controllers use it.
    pub fn client(self) -> Client {
        self.0
    }
}

struct Fence {
    client: Client,
    claim: Claim,
    term: u64,
}

impl Fence {
    async fn send(mut self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        if !changes(request.method(), request.uri()) {
            return Ok(self.client.send(request).await?);
        }
        let Some(end) = self.claim.room(self.term, LEAST).await? else {
            return Ok(self.client.send(request).await?);
        };
        // A task of its own: what was sent is waited for, also when the controller that wanted it
        // is stopped. Only then is it known when it is over.
        let (answer, answered) = oneshot::channel();
        let writes = self.claim.writes().clone();
        writes.spawn(async move {
            // Nobody is there to be told any more, or cares.
            drop(answer.send(self.write(request, end).await));
        });
        answered.await?
    }

    async fn write(self, request: Request<Body>, end: Instant) -> Result<Response<Body>, BoxError> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NotHeld.into());
        }
        let request = within(request, left)?;
        match timeout_at(end, self.client.send(request)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(TooLong { within: left }.into()),
        }
    }
}

/// Whether a request may change anything.
fn changes(method: &Method, uri: &Uri) -> bool {
    let is_question = QUESTIONS.iter().any(|path| uri.path().starts_with(path));
    let mut query = uri.query().unwrap_or_default().split('&');
    let is_dry_run = query.any(|pair| pair == "dryRun=All");
    !matches!(*method, Method::GET | Method::HEAD) && !is_question && !is_dry_run
}

/// The request with the time that the API server may take for it.
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
