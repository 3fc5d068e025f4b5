//! The wire types of admission reviews: what is read of a request, what an answer looks like.
//!
//! Own types, borrowed from the body: decoding into a full review costs five times as much, and
//! the object stays raw until something wants it.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::decision::pod::{Object, Text};
use crate::decision::{Decision, Verdict};

use super::bad_call::BadCall;

/// The one version that is served.
pub const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, rename = "apiVersion")]
    api_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    request: Option<Object<Request<'a>>>,
}

/// What is read of a review's `request`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request<'a> {
    /// Echoed in the answer. Never empty.
    #[serde(borrow, default)]
    uid: Option<Text<'a>>,
    #[serde(borrow, default)]
    resource: Option<Resource<'a>>,
    #[serde(borrow, default)]
    sub_resource: Option<Text<'a>>,
    #[serde(borrow, default)]
    operation: Option<Text<'a>>,
    #[serde(borrow, default)]
    namespace: Option<Text<'a>>,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(borrow, default)]
    user_info: Option<UserInfo<'a>>,
    /// Not decoded: most reviews are answered without a look at it.
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Resource<'a> {
    #[serde(borrow, default)]
    group: Option<Text<'a>>,
    #[serde(borrow, default)]
    resource: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
struct UserInfo<'a> {
    #[serde(borrow, default)]
    groups: Option<Vec<Text<'a>>>,
}

impl<'a> Request<'a> {
    /// Reads a review.
    ///
    /// # Errors
    /// The body is not JSON, not a v1 AdmissionReview, or has no request or uid: nobody could
    /// answer it with a review (cases 9 and 10).
    pub fn read(body: &'a [u8]) -> Result<Self, BadCall> {
        if body.is_empty() {
            return Err(BadCall::Empty);
        }
        let read = serde_json::from_slice(body);
        let Object(envelope): Object<Envelope<'a>> = read.map_err(BadCall::NotAReview)?;
        let version = envelope.api_version.as_deref().unwrap_or_default();
        let kind = envelope.kind.as_deref().unwrap_or_default();
        if (version, kind) != (API_VERSION, KIND) {
            let found = crate::injector::shown(&format!("{version} {kind}"));
            return Err(BadCall::Version(found));
        }
        let Object(request) = envelope.request.ok_or(BadCall::NoRequest)?;
        if request.uid().is_empty() {
            return Err(BadCall::NoUid);
        }
        Ok(request)
    }

    /// The uid to echo.
    pub fn uid(&self) -> &str {
        self.uid.as_deref().unwrap_or_default()
    }

    /// The namespace of the request; the object's own is not believed (case 3).
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Whether nothing will be stored.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run == Some(true)
    }

    /// The groups of the user who asks.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let groups = self
            .user_info
            .as_ref()
            .and_then(|user| user.groups.as_ref());
        groups.into_iter().flatten().map(|group| &**group)
    }

    /// True for the one thing that is judged: CREATE of `pods`, no subresource (cases 12 to 18).
    pub fn creates_a_pod(&self) -> bool {
        let text =
            |text: &Option<Text<'_>>, wanted: &str| text.as_deref().unwrap_or_default() == wanted;
        let is_pods = self
            .resource
            .as_ref()
            .is_some_and(|resource| text(&resource.group, "") && text(&resource.resource, "pods"));
        is_pods && text(&self.operation, "CREATE") && text(&self.sub_resource, "")
    }

    /// The object, as it came.
    pub fn object(&self) -> Option<&'a str> {
        self.object.map(RawValue::get)
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

/// Writes the answer: HTTP 200, the version and kind of the question, its uid.
pub fn answer(uid: &str, decision: &Decision<'_>, patch: Option<String>) -> Vec<u8> {
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
            patch: patch.map(|patch| BASE64_STANDARD.encode(patch)),
            warnings: &decision.warnings,
            audit_annotations: AuditAnnotations {
                decision: decision.verdict.as_str(),
                reason: decision.reason.as_str(),
                injectors,
            },
        },
    };
    // Only maps with keys that are no texts fail, and there are none.
    serde_json::to_vec(&review).unwrap_or_default()
}
