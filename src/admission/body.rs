//! Reads the body of a request.

use std::error::Error;
use std::io;
use std::iter::successors;

use axum::extract::Request as HttpRequest;
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::MAX_BODY;
use super::bad_call::BadCall;

/// The body in one piece: never in memory twice, nor in more than was announced.
pub(super) async fn body(request: HttpRequest) -> Result<Vec<u8>, BadCall> {
    expect_json(request.headers())?;
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > MAX_BODY) {
        return Err(BadCall::TooLarge(MAX_BODY));
    }
    let mut pieces = Limited::new(request.into_body(), MAX_BODY);
    let mut body = Vec::new();
    while let Some(piece) = pieces.frame().await {
        let piece = piece.map_err(|error| match error {
            error if error.is::<LengthLimitError>() => BadCall::TooLarge(MAX_BODY),
            error if ran_out_of_time(&*error) => BadCall::Stalled,
            error => BadCall::CutOff(error.to_string()),
        })?;
        let piece = piece.into_data().unwrap_or_default();
        let there = body.len() + piece.len();
        if there > body.capacity() {
            let announced = length.unwrap_or(usize::MAX).max(there);
            body.reserve_exact(announced.min(there + there / 2) - body.len());
        }
        body.extend_from_slice(&piece);
    }
    body.shrink_to_fit();
    Ok(body)
}

/// Whether the server gave a body up because it came too slowly.
fn ran_out_of_time(error: &(dyn Error + 'static)) -> bool {
    successors(Some(error), |&cause| cause.source()).any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    })
}

fn expect_json(headers: &HeaderMap) -> Result<(), BadCall> {
    let found = headers.get(header::CONTENT_TYPE);
    let found = found.map(|value| value.to_str().unwrap_or("?"));
    let media_type = found.and_then(|value| value.split(';').next());
    if media_type.is_some_and(|own| own.trim().eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let found = found.map_or_else(|| "missing".to_owned(), meshgate_core::text::shown);
    Err(BadCall::ContentType(found))
}
