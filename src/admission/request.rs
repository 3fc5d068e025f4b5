//! Reading a review: the fields that matter, borrowed from the body. Decoding into a full review
//! costs five times as much.
//!
//! The pod that is to be created is decoded on the way, any other object is left as it came. The
//! API server writes resource, subresource and operation before the object. Where another client
//! does not, the object is decoded later, from what was kept of it.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::bad_call::BadCall;
use super::{API_VERSION, KIND, MAX_UID};
use meshgate_core::injector::keys::Keys;
use meshgate_core::view::json::{Object, Text};
use meshgate_core::view::pod::{PodFields, PodView};

/// What is read of a review's `request`.
#[derive(Debug, Default)]
pub(super) struct Request<'a> {
    pub(super) uid: Option<Text<'a>>,
    pub(super) resource: Option<Object<Resource<'a>>>,
    pub(super) sub_resource: Option<Text<'a>>,
    pub(super) operation: Option<Text<'a>>,
    pub(super) namespace: Option<Text<'a>>,
    pub(super) dry_run: Option<bool>,
    /// Not decoded: only mirror pods depend on it.
    pub(super) user_info: Option<&'a RawValue>,
    pub(super) object: Carried<'a>,
    /// The object before an update, not decoded.
    pub(super) old_object: Option<&'a RawValue>,
}

/// The object of a request.
#[derive(Debug, Default)]
pub(super) enum Carried<'a> {
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
    /// The body is not JSON, not a v1 AdmissionReview, or has no request or uid: it
    /// cannot be answered with a review (cases 9 and 10).
    pub(super) fn read(body: &'a [u8]) -> Result<Self, BadCall> {
        if body.is_empty() {
            return Err(BadCall::Empty);
        }
        let text = std::str::from_utf8(body).map_err(BadCall::NotText)?;
        // An object that is no pod spoils the whole text for the quick reader; the careful one
        // then leaves it alone, so that the uid can be echoed (case 8).
        envelope::<true>(text).or_else(|_| envelope::<false>(text))
    }

    /// The uid to echo. Never empty.
    pub(super) fn uid(&self) -> &str {
        self.uid.as_deref().unwrap_or_default()
    }

    /// The namespace of the request; the object's own is not believed (case 3).
    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Whether nothing will be stored.
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run == Some(true)
    }

    /// Whether the user who asks is in a group.
    pub(super) fn is_by_member_of(&self, group: &str) -> bool {
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
    pub(super) fn creates_a_pod(&self) -> bool {
        self.is("pods", &["CREATE"], &[""])
    }

    /// True for UPDATE of `pods`, no subresource: it can give a sidecar another image.
    pub(super) fn updates_a_pod(&self) -> bool {
        self.is("pods", &["UPDATE"], &[""])
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

    /// The object before an update, as a pod.
    ///
    /// # Errors
    /// There is none, or it is no pod.
    pub(super) fn old_pod(&self, keys: &Keys) -> Result<PodView<'a>, NoPod> {
        let raw = self.old_object.ok_or(NoPod::Missing)?;
        Ok(PodView::read(raw.get(), keys)?)
    }

    /// The object as a pod.
    ///
    /// # Errors
    /// There is no object, or it is no pod.
    pub(super) fn pod(&self, keys: &Keys) -> Result<PodView<'a>, NoPod> {
        match &self.object {
            Carried::Missing => Err(NoPod::Missing),
            Carried::Pod(fields) => Ok(PodView::new(Arc::clone(fields), keys)?),
            Carried::Raw(raw) => Ok(PodView::read(raw.get(), keys)?),
        }
    }
}

/// Why the object of a request is no pod.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoPod {
    #[error("there is none")]
    Missing,
    /// A field is missing or has another type than the API gives it.
    #[error(transparent)]
    Field(#[from] serde_json::Error),
}

#[derive(Deserialize)]
#[serde(bound = "")]
struct Envelope<'a, const DECODES_PODS: bool> {
    #[serde(borrow, default, rename = "apiVersion")]
    api_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    request: Option<Fields<'a, DECODES_PODS>>,
}

/// A request; `DECODES_PODS`: its object is decoded on the way if it is a pod to be created.
struct Fields<'a, const DECODES_PODS: bool>(Request<'a>);

fn envelope<const DECODES_PODS: bool>(text: &str) -> Result<Request<'_>, BadCall> {
    let read = serde_json::from_str(text);
    let Object(envelope): Object<Envelope<'_, DECODES_PODS>> = read.map_err(BadCall::NotAReview)?;
    let version = envelope.api_version.as_deref().unwrap_or_default();
    let kind = envelope.kind.as_deref().unwrap_or_default();
    if (version, kind) == ("", "") {
        return Err(BadCall::NoVersion);
    }
    if (version, kind) != (API_VERSION, KIND) {
        let found = meshgate_core::text::shown(&format!("{version} {kind}"));
        return Err(BadCall::Version(found));
    }
    let Fields(request) = envelope.request.ok_or(BadCall::NoRequest)?;
    if request.uid().is_empty() {
        return Err(BadCall::NoUid);
    }
    if request.uid().len() > MAX_UID {
        return Err(BadCall::LongUid(request.uid().len()));
    }
    Ok(request)
}

impl<'de: 'a, 'a, const DECODES_PODS: bool> Deserialize<'de> for Fields<'a, DECODES_PODS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = RequestVisitor {
            decodes_pods: DECODES_PODS,
        };
        deserializer.deserialize_map(visitor).map(Self)
    }
}

struct RequestVisitor {
    decodes_pods: bool,
}

impl<'de> Visitor<'de> for RequestVisitor {
    type Value = Request<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request of a review")
    }

    /// A field that is there twice counts as it was given last, as in Go.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut request = Request::default();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key {
                "uid" => request.uid = map.next_value()?,
                "resource" => request.resource = map.next_value()?,
                "subResource" => request.sub_resource = map.next_value()?,
                "operation" => request.operation = map.next_value()?,
                "namespace" => request.namespace = map.next_value()?,
                "dryRun" => request.dry_run = map.next_value()?,
                "userInfo" => request.user_info = map.next_value()?,
                "object" if self.decodes_pods && request.creates_a_pod() => {
                    let pod: Option<Object<PodFields<'de>>> = map.next_value()?;
                    request.object =
                        pod.map_or(Carried::Missing, |pod| Carried::Pod(Arc::new(pod.0)));
                }
                "object" => {
                    let raw: Option<&'de RawValue> = map.next_value()?;
                    request.object = raw.map_or(Carried::Missing, Carried::Raw);
                }
                "oldObject" => request.old_object = map.next_value()?,
                _ => drop(map.next_value::<serde::de::IgnoredAny>()?),
            }
        }
        Ok(request)
    }
}
