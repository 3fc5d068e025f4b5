//! The wire types of admission reviews: what is read of a request, what an answer looks like.
//!
//! Own types, borrowed from the body: decoding into a full review costs five times as much, and
//! the object stays raw until something wants it.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::decision::Decision;
use crate::decision::verdict::Verdict;
use crate::injector::keys::Keys;
use crate::view::json::{Object, Text};
use crate::view::pod::{PodFields, PodView};

use super::bad_call::BadCall;
use super::reader::{Careful, Quick};

/// The one version that is served.
pub const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Longest uid, in bytes: the API server's have 36. Answers repeat it, and wait in memory for
/// clients that do not take them.
pub(super) const MAX_UID: usize = 253;

#[derive(Deserialize)]
struct Envelope<'a, R> {
    #[serde(borrow, default, rename = "apiVersion")]
    api_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    kind: Option<Text<'a>>,
    #[serde(default = "Option::default")]
    request: Option<R>,
}

/// What is read of a review's `request`.
#[derive(Debug, Default)]
pub struct Request<'a> {
    pub(super) uid: Option<Text<'a>>,
    pub(super) resource: Option<Object<Resource<'a>>>,
    pub(super) sub_resource: Option<Text<'a>>,
    pub(super) operation: Option<Text<'a>>,
    pub(super) namespace: Option<Text<'a>>,
    pub(super) dry_run: Option<bool>,
    /// Not decoded: only mirror pods depend on it.
    pub(super) user_info: Option<&'a RawValue>,
    pub(super) object: Carried<'a>,
}

/// The object of a request.
#[derive(Debug, Default)]
pub(super) enum Carried<'a> {
    /// Missing or null.
    #[default]
    Missing,
    /// A pod to be created, decoded on the way: its bytes are looked at once.
    Pod(Arc<PodFields<'a>>),
    /// Anything else, not decoded: most such reviews are answered without a look at it.
    Raw(&'a RawValue),
}

#[derive(Debug, Deserialize)]
pub(super) struct Resource<'a> {
    #[serde(borrow, default)]
    group: Option<Text<'a>>,
    #[serde(borrow, default)]
    resource: Option<Text<'a>>,
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
        let text = std::str::from_utf8(body).map_err(BadCall::NotText)?;
        // An object that is no pod spoils the whole text for the quick reader; the careful one
        // then leaves it alone, so that the uid can be echoed (case 8).
        match envelope::<Quick<'a>>(text) {
            Ok(request) => Ok(request),
            Err(_) => envelope::<Careful<'a>>(text),
        }
    }

    /// The uid to echo. Never empty.
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

    /// Whether the user who asks is in a group.
    pub fn is_by_member_of(&self, group: &str) -> bool {
        #[derive(Deserialize)]
        struct UserInfo<'a> {
            #[serde(borrow, default)]
            groups: Option<Vec<Text<'a>>>,
        }
        let user = self
            .user_info
            .and_then(|raw| serde_json::from_str::<Object<UserInfo<'_>>>(raw.get()).ok());
        let groups = user.and_then(|user| user.0.groups);
        groups.into_iter().flatten().any(|own| *own == *group)
    }

    /// True for the one thing that is judged: CREATE of `pods`, no subresource (cases 12 to 18).
    pub fn creates_a_pod(&self) -> bool {
        self.is("pods", &["CREATE"], &[""])
    }

    /// Whether this is one of some operations on a resource of the core group or on one of its
    /// subresources (`""`: the object itself).
    pub(super) fn is(&self, resource: &str, operations: &[&str], parts: &[&str]) -> bool {
        let text = |text: &'_ Option<Text<'a>>, among: &[&str]| {
            among.contains(&text.as_deref().unwrap_or_default())
        };
        let asked = self.resource.as_ref().map(|resource| &resource.0);
        let is_resource =
            asked.is_some_and(|own| text(&own.group, &[""]) && text(&own.resource, &[resource]));
        is_resource && text(&self.operation, operations) && text(&self.sub_resource, parts)
    }

    /// The object's JSON, unless it was decoded as a pod on the way.
    pub(super) fn raw_object(&self) -> Option<&'a str> {
        match &self.object {
            Carried::Raw(raw) => Some(raw.get()),
            Carried::Missing | Carried::Pod(_) => None,
        }
    }

    /// The object as a pod.
    ///
    /// # Errors
    /// There is no object, or it is no pod.
    pub fn pod(&self, keys: &Keys) -> Result<PodView<'a>, NoPod> {
        match &self.object {
            Carried::Missing => Err(NoPod::Missing),
            Carried::Pod(fields) => Ok(PodView::new(Arc::clone(fields), keys)?),
            Carried::Raw(raw) => Ok(PodView::read(raw.get(), keys)?),
        }
    }
}

/// Why the object of a request is no pod.
#[derive(Debug, thiserror::Error)]
pub enum NoPod {
    /// It is missing or null.
    #[error("there is none")]
    Missing,
    /// A field is missing or has another type than the API gives it.
    #[error(transparent)]
    Field(#[from] serde_json::Error),
}

fn envelope<'a, R: Deserialize<'a> + Into<Request<'a>>>(
    text: &'a str,
) -> Result<Request<'a>, BadCall> {
    let read = serde_json::from_str(text);
    let Object(envelope): Object<Envelope<'a, R>> = read.map_err(BadCall::NotAReview)?;
    let version = envelope.api_version.as_deref().unwrap_or_default();
    let kind = envelope.kind.as_deref().unwrap_or_default();
    if (version, kind) == ("", "") {
        return Err(BadCall::NoVersion);
    }
    if (version, kind) != (API_VERSION, KIND) {
        let found = crate::text::shown(&format!("{version} {kind}"));
        return Err(BadCall::Version(found));
    }
    let request: Request<'a> = envelope.request.ok_or(BadCall::NoRequest)?.into();
    if request.uid().is_empty() {
        return Err(BadCall::NoUid);
    }
    if request.uid().len() > MAX_UID {
        return Err(BadCall::LongUid(request.uid().len()));
    }
    Ok(request)
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
    let mut body = Vec::with_capacity(512);
    // Only maps with keys that are no texts fail, and there are none.
    serde_json::to_writer(&mut body, &review).ok();
    body
}
