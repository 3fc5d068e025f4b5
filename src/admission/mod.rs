//! HTTP in, HTTP out: reads a review, asks `decision` with the view of `cluster`, answers.
//!
//! Knows no sockets and no TLS.

mod answer;
mod bad_call;
mod body;
mod handler;
mod metadata;
mod record;
mod request;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tower_http::catch_panic::CatchPanicLayer;

use crate::cluster::Cluster;
use crate::cluster::namespace_lookup::NamespaceLookup;
use crate::lifecycle::panic_text;
use crate::metrics::{Hook, Metrics};
use meshgate_core::render::path;
use meshgate_core::render::webhooks::EntryNames;

pub use self::bad_call::BadCall;
use self::record::RefusalLog;

/// The one version of reviews that is served.
const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Longest uid, in bytes: the API server's have 36. Answers repeat it, and wait in memory for
/// clients that do not take them.
const MAX_UID: usize = 253;

/// Largest body that is read, in bytes: a review can carry two copies of an object of 3 MiB
/// (case 11).
pub const MAX_BODY: usize = 8 * 1024 * 1024;

/// What the handlers share.
pub struct Admission {
    cluster: Arc<Cluster>,
    lookup: NamespaceLookup,
    metrics: Arc<Metrics>,
    refusals: RefusalLog,
    entries: EntryNames,
}

impl Admission {
    /// Answers from `cluster`, and from `lookup` for namespaces that it does not hold.
    pub fn new(cluster: Arc<Cluster>, lookup: NamespaceLookup, metrics: Arc<Metrics>) -> Self {
        let entries = EntryNames::new(cluster.read().injectors());
        Self {
            entries,
            cluster,
            lookup,
            metrics,
            refusals: RefusalLog::default(),
        }
    }
}

/// The HTTPS endpoints: `POST /mutate/pods` (gate) and `POST /validate/pods` (check), each also followed by
/// the name of the entry that asks, `POST /mutate/namespaces` (the mirror of annotations) and
/// `POST /mutate/reach/…` (by which meshgate finds out whether the API server reaches it).
pub fn router(admission: Arc<Admission>) -> Router {
    let answers = |hook: Hook| {
        any(
            async move |State(admission): State<Arc<Admission>>, request: Request| {
                admission.respond(hook, request).await
            },
        )
    };
    Router::new()
        .route(path::GATE, answers(Hook::Gate))
        .route(path::CHECK, answers(Hook::Check))
        .route(&format!("{}/{{entry}}", path::GATE), answers(Hook::Gate))
        .route(&format!("{}/{{entry}}", path::CHECK), answers(Hook::Check))
        .route(path::NAMESPACES, answers(Hook::Namespaces))
        .route(&format!("{}/{{proof}}", path::REACH), answers(Hook::Reach))
        .fallback(wrong_path)
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(admission)
}

async fn wrong_path(uri: Uri) -> BadCall {
    BadCall::Path(meshgate_core::text::shown(uri.path()))
}

/// A panic in one request is a 500 for that request and nothing more.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the layer hands the panic over"
)]
fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic_text(&*panic).unwrap_or("unknown");
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
