//! Writing the review that answers another.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use super::{API_VERSION, KIND};
use meshgate_core::decision::Decision;
use meshgate_core::decision::verdict::Verdict;
use meshgate_core::view::pod::PodView;

/// A decision, and the JSON Patch that carries it out if there is something to do.
pub(super) struct Patched<'a> {
    pub(super) decision: Decision<'a>,
    pub(super) patch: Option<String>,
}

impl<'a> Patched<'a> {
    pub(super) fn pod(decision: Decision<'a>, pod: &PodView<'_>) -> Self {
        let patch = decision.mark.patch(pod);
        Self { decision, patch }
    }
}

impl<'a> From<Decision<'a>> for Patched<'a> {
    fn from(decision: Decision<'a>) -> Self {
        let patch = None;
        Self { decision, patch }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
    audit_annotations: AuditAnnotations<'a>,
}

/// Without a slash in the keys, which the API server would drop silently.
#[derive(Serialize)]
struct AuditAnnotations<'a> {
    decision: &'static str,
    reason: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    injectors: Cow<'a, str>,
}

/// No `details.retryAfterSeconds`, ever: client-go would sleep inside a controller's worker
/// (case 20).
#[derive(Serialize)]
struct Status<'a> {
    status: &'static str,
    code: u16,
    reason: &'static str,
    message: &'a str,
}

/// Writes the answer: the version and kind of the question, and its uid.
pub(super) fn write(uid: &str, Patched { decision, patch }: &Patched<'_>) -> Vec<u8> {
    let (code, reason) = match decision.verdict {
        Verdict::Admit | Verdict::Mark | Verdict::Warn => (200, ""),
        Verdict::Defer => (503, "ServiceUnavailable"),
        Verdict::Deny => (403, "Forbidden"),
        Verdict::Unreadable => (400, "BadRequest"),
    };
    let allowed = decision.verdict.allows();
    let status = Status {
        status: "Failure",
        code,
        reason,
        message: &decision.message,
    };
    let injectors = match decision.required.as_slice() {
        [] => Cow::Borrowed(""),
        [one] => Cow::Borrowed(*one),
        several => Cow::Owned(several.join(",")),
    };
    let review = Review {
        api_version: API_VERSION,
        kind: KIND,
        response: Response {
            uid,
            allowed,
            status: (!allowed).then_some(status),
            patch_type: patch.is_some().then_some("JSONPatch"),
            patch: patch.as_ref().map(|patch| BASE64_STANDARD.encode(patch)),
            warnings: &decision.warnings,
            audit_annotations: AuditAnnotations {
                decision: decision.verdict.as_str(),
                reason: decision.reason.as_str(),
                injectors,
            },
        },
    };
    let mut body = Vec::with_capacity(512);
    // Only maps with keys that are no texts fail, and there are none.
    serde_json::to_writer(&mut body, &review).ok();
    body
}
