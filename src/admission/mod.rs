//! HTTP in, HTTP out: reads a review, asks `decision` with the view of `cluster`, answers.
//!
//! Knows no sockets and no TLS.

pub mod bad_call;
mod handler;
mod metadata;
mod reader;
mod record;
pub mod review;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tower_http::catch_panic::CatchPanicLayer;

use crate::cluster::Cluster;
use crate::cluster::live::Live;
use crate::metrics::{Hook, Metrics};
use crate::render::path;

use self::bad_call::BadCall;
use self::record::RefusalLog;

/// Largest body that is read, in bytes: a review can carry two copies of an object of 3 MiB
/// (case 11).
pub const MAX_BODY: usize = 8 * 1024 * 1024;

/// What the handlers share.
#[derive(Debug)]
pub struct Admission {
    cluster: Arc<Cluster>,
    live: Live,
    metrics: Arc<Metrics>,
    refusals: RefusalLog,
}

impl Admission {
    /// Answers from `cluster`, and from `live` for namespaces that it does not hold.
    pub fn new(cluster: Arc<Cluster>, live: Live, metrics: Arc<Metrics>) -> Self {
        Self {
            cluster,
            live,
            metrics,
            refusals: RefusalLog::default(),
        }
    }
}

/// The HTTPS endpoints: `POST /mutate/pods` (gate), `POST /validate/pods` (check),
/// `POST /mutate/namespaces` (the mirror of annotations) and `POST /mutate/reach/…` (by which
/// meshgate finds out whether the API server reaches it).
pub fn router(admission: Arc<Admission>) -> Router {
    Router::new()
        .route(path::GATE, any(gate))
        .route(path::CHECK, any(check))
        .route(path::NAMESPACES, any(namespaces))
        .route(&format!("{}/{{proof}}", path::REACH), any(reach))
        .fallback(wrong_path)
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(admission)
}

async fn gate(
    State(admission): State<Arc<Admission>>,
    request: axum::extract::Request,
) -> Response {
    admission.respond(Hook::Gate, request).await
}

async fn check(
    State(admission): State<Arc<Admission>>,
    request: axum::extract::Request,
) -> Response {
    admission.respond(Hook::Check, request).await
}

async fn namespaces(
    State(admission): State<Arc<Admission>>,
    request: axum::extract::Request,
) -> Response {
    admission.respond(Hook::Namespaces, request).await
}

async fn reach(
    State(admission): State<Arc<Admission>>,
    request: axum::extract::Request,
) -> Response {
    admission.respond(Hook::Reach, request).await
}

async fn wrong_path(uri: Uri) -> BadCall {
    BadCall::Path(crate::text::shown(uri.path()))
}

/// A panic in one request is a 500 for that request and nothing more.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the layer hands the panic over"
)]
fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown");
    tracing::error!(
        panic = text,
        "a request ended in a panic: please report this as a bug"
    );
    (
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal error, see the log\n",
    )
        .into_response()
}
