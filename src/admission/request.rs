//! Reading a review: the fields that matter, borrowed from the body. Decoding into a full review
//! costs five times as much.
//!
//! The pod that is to be created is decoded on the way, any other object is left as it came. The
//! API server writes resource, subresource and operation before the object. Where another client
//! does not, the object is decoded afterwards, from what was kept of it.

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess};
use serde_json::value::RawValue;

use super::bad_call::BadCall;
use super::{API_VERSION, KIND, MAX_UID};
use meshgate_core::decision::Decision;
use meshgate_core::injector::keys::Keys;
use meshgate_core::text::shown;
use meshgate_core::view::json::{Flag, Object, Parts, Reading, Text, any_at, is_text, read};
use meshgate_core::view::pod::{PodParts, PodView};

/// What is read of a review's `request`.
#[derive(Debug, Default)]
pub(super) struct Request<'a> {
    pub(super) uid: Option<Text<'a>>,
    pub(super) resource: Option<Object<Resource<'a>>>,
    pub(super) sub_resource: Option<Text<'a>>,
    pub(super) operation: Option<Text<'a>>,
    pub(super) namespace: Option<Text<'a>>,
    pub(super) dry_run: Flag,
    /// Not decoded: only mirror pods depend on it.
    pub(super) user_info: Option<&'a RawValue>,
    pub(super) object: Carried<'a>,
    /// The object before an update, not decoded.
    old_object: Option<&'a RawValue>,
    /// With these, a pod to be created is decoded on the way.
    keys: Option<&'a Keys>,
}

/// The object of a request.
#[derive(Debug, Default)]
pub(super) enum Carried<'a> {
    #[default]
    Missing,
    /// A pod to be created, decoded on the way: its bytes are looked at once.
    Pod(Box<PodView<'a>>),
    /// Anything else, not decoded: most such reviews are answered without a look at it.
    Raw(&'a RawValue),
    /// It was to be a pod, and is none.
    NoPod(serde_json::Error),
}

#[derive(Debug, Deserialize)]
pub(super) struct Resource<'a> {
    #[serde(borrow, default)]
    group: Option<Text<'a>>,
    #[serde(borrow, default)]
    resource: Option<Text<'a>>,
}

impl<'a> Request<'a> {
    /// Reads a review; of the pod it keeps the values of these keys.
    ///
    /// # Errors
    /// The body is not JSON, not a v1 AdmissionReview, or has no request or uid: it
    /// cannot be answered with a review (cases 9 and 10).
    pub(super) fn read(body: &'a [u8], keys: &'a Keys) -> Result<Self, BadCall> {
        if body.is_empty() {
            return Err(BadCall::Empty);
        }
        let text = std::str::from_utf8(body).map_err(BadCall::NotText)?;
        // An object that is no pod spoils the whole text for the quick reader; the careful one
        // then leaves it alone, so that the uid can be echoed (case 8).
        let mut request = match envelope(text, Some(keys)) {
            Ok(request) => request,
            Err(_) => envelope(text, None)?,
        };
        if let (Carried::Raw(raw), true) = (&request.object, request.creates_a_pod()) {
            request.object = match PodView::read(raw.get(), keys) {
                Ok(pod) => Carried::Pod(Box::new(pod)),
                Err(problem) => Carried::NoPod(problem),
            };
        }
        request.keys = Some(keys);
        Ok(request)
    }

    /// Whether it was read with these keys.
    pub(super) fn is_read_for(&self, keys: &Keys) -> bool {
        self.keys.is_some_and(|own| std::ptr::eq(own, keys))
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
        self.dry_run.0
    }

    /// Whether the user who asks is in a group.
    pub(super) fn is_by_member_of(&self, group: &str) -> bool {
        let is_it = |entry: &RawValue| is_text(entry, group);
        let user = self.user_info;
        user.is_some_and(|user| any_at(user.get(), &["groups"], &is_it))
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
            Carried::Missing | Carried::Pod(_) | Carried::NoPod(_) => None,
        }
    }

    /// The pods before and after an update.
    ///
    /// # Errors
    /// One of them is missing, or is no pod.
    pub(super) fn updated_pods(&self, keys: &Keys) -> Result<[PodView<'a>; 2], Decision<'static>> {
        let old = self.old_object.map(RawValue::get);
        let pod = |json: Option<&'a str>| {
            let json = json.ok_or_else(|| Decision::unreadable(&NoPod::Missing))?;
            PodView::read(json, keys).map_err(|problem| Decision::unreadable(&problem))
        };
        Ok([pod(old)?, pod(self.raw_object())?])
    }

    /// The object of the creation of a pod.
    ///
    /// # Errors
    /// There is no object, or it is no pod.
    pub(super) fn pod(&self) -> Result<&PodView<'a>, NoPod<'_>> {
        match &self.object {
            Carried::Pod(pod) => Ok(pod),
            Carried::NoPod(problem) => Err(NoPod::Field(problem)),
            Carried::Missing | Carried::Raw(_) => Err(NoPod::Missing),
        }
    }
}

/// Why the object of a request is no pod.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoPod<'r> {
    #[error("there is none")]
    Missing,
    /// A field is missing or has another type than the API gives it.
    #[error("{0}")]
    Field(&'r serde_json::Error),
}

/// Reads a review. With `keys`, its object is decoded on the way if it is a pod to be created.
fn envelope<'a>(text: &'a str, keys: Option<&'a Keys>) -> Result<Request<'a>, BadCall> {
    let mut envelope = Envelope {
        keys,
        ..Envelope::default()
    };
    if !read(text, &mut envelope).map_err(BadCall::NotAReview)? {
        return Err(BadCall::NoVersion);
    }
    let version = envelope.api_version.as_deref().unwrap_or_default();
    let kind = envelope.kind.as_deref().unwrap_or_default();
    if (version, kind) == ("", "") {
        return Err(BadCall::NoVersion);
    }
    if (version, kind) != (API_VERSION, KIND) {
        return Err(BadCall::Version(shown(&format!(
            "{} {}",
            shown(version),
            shown(kind)
        ))));
    }
    let request = envelope.request.ok_or(BadCall::NoRequest)?;
    if request.uid().is_empty() {
        return Err(BadCall::NoUid);
    }
    if request.uid().len() > MAX_UID {
        return Err(BadCall::LongUid(request.uid().len()));
    }
    Ok(request)
}

#[derive(Default)]
struct Envelope<'a> {
    keys: Option<&'a Keys>,
    api_version: Option<Text<'a>>,
    kind: Option<Text<'a>>,
    request: Option<Request<'a>>,
}

impl<'de> Parts<'de> for Envelope<'de> {
    const EXPECTED: &'static str = "an object";
    const ONCE: &'static [&'static str] = &["apiVersion", "kind", "request"];
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "apiVersion" => self.api_version = map.next_value()?,
            "kind" => self.kind = map.next_value()?,
            "request" => {
                let keys = self.keys;
                let mut request = Request {
                    keys,
                    ..Request::default()
                };
                let is_there = map.next_value_seed(Reading(&mut request))?;
                self.request = is_there.then_some(request);
            }
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

/// A field that is there twice counts as it was given last, as in Go.
impl<'de> Parts<'de> for Request<'de> {
    const EXPECTED: &'static str = "the request of a review";
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "uid" => self.uid = map.next_value()?,
            "resource" => self.resource = map.next_value()?,
            "subResource" => self.sub_resource = map.next_value()?,
            "operation" => self.operation = map.next_value()?,
            "namespace" => self.namespace = map.next_value()?,
            "dryRun" => self.dry_run = map.next_value()?,
            "userInfo" => self.user_info = map.next_value()?,
            "oldObject" => self.old_object = map.next_value()?,
            "object" => {
                // One at a time in memory.
                self.object = Carried::Missing;
                if let Some(keys) = self.keys.filter(|_| self.creates_a_pod()) {
                    let mut parts = PodParts::new(keys);
                    if map.next_value_seed(Reading(&mut parts))? {
                        self.object = Carried::Pod(Box::new(parts.pod()?));
                    }
                } else if let Some(raw) = map.next_value()? {
                    self.object = Carried::Raw(raw);
                }
            }
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}
