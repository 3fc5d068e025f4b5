//! Bad calls: requests that cannot be answered with a review, HTTP 4xx and a short text. Under
//! failurePolicy Fail the API server then refuses the pod.

use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use meshgate_core::text::one_line;

use super::{API_VERSION, MAX_UID};

/// Why a request could not be answered with a review.
#[derive(Debug, thiserror::Error)]
pub enum BadCall {
    #[error("the body is empty, expected an AdmissionReview of {API_VERSION} as JSON")]
    Empty,
    #[error("the body is no AdmissionReview of {API_VERSION}: {0}")]
    NotText(std::str::Utf8Error),
    /// Not JSON, cut off, or not shaped like a review.
    #[error("the body is no AdmissionReview of {API_VERSION}: {0}")]
    NotAReview(serde_json::Error),
    /// Another version or kind (case 9).
    #[error("the body is \"{0}\", expected {API_VERSION} AdmissionReview, the one version served")]
    Version(String),
    #[error("the body has no apiVersion and no kind, expected an AdmissionReview of {API_VERSION}")]
    NoVersion,
    #[error("the review has no request")]
    NoRequest,
    #[error("the review's request has no uid")]
    NoUid,
    /// The answer would repeat it.
    #[error("the review's uid has {0} bytes, expected {MAX_UID} at most")]
    LongUid(usize),
    #[error("content type {0}, expected application/json")]
    ContentType(String),
    #[error("method {0}, expected POST")]
    Method(String),
    #[error(
        "nothing is served at {0}, expected /mutate/pods, /validate/pods or /mutate/namespaces; probes and metrics have a port of their own"
    )]
    Path(String),
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the body could not be read: {0}")]
    CutOff(String),
    /// It came too slowly while others waited for its place in memory.
    #[error("the body came too slowly")]
    Stalled,
    /// Half of the webhook's timeout is over.
    #[error("the body was not there within {0:?}")]
    TooSlow(Duration),
}

/// Longest text, in characters: a parser's error repeats what it found, however long that is.
const MAX_TEXT: usize = 300;

impl BadCall {
    /// What is wrong, on one line.
    pub(super) fn text(&self) -> String {
        one_line(&self.to_string(), MAX_TEXT)
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Empty
            | Self::NotText(_)
            | Self::NotAReview(_)
            | Self::Version(_)
            | Self::NoVersion
            | Self::NoRequest
            | Self::NoUid
            | Self::LongUid(_)
            | Self::CutOff(_) => StatusCode::BAD_REQUEST,
            Self::ContentType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Path(_) => StatusCode::NOT_FOUND,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow(_) | Self::Stalled => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

impl IntoResponse for BadCall {
    fn into_response(self) -> Response {
        let text = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        let allow = matches!(self, Self::Method(_)).then_some([(header::ALLOW, "POST")]);
        (self.status(), text, allow, format!("{}\n", self.text())).into_response()
    }
}
