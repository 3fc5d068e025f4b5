//! Reads the `request` of a review in one go: the pod that is to be created is decoded on the way,
//! anything else is left as it came.
//!
//! The API server writes resource, subresource and operation before the object. Where another
//! client does not, the object is decoded later, from what was kept of it.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::review::{Carried, Request};
use crate::view::json::{Object, Text};
use crate::view::pod::PodFields;

/// A request whose pod is decoded on the way.
pub(super) struct Quick<'a>(Request<'a>);

/// A request whose object is left as it came.
pub(super) struct Careful<'a>(Request<'a>);

impl<'a> From<Quick<'a>> for Request<'a> {
    fn from(quick: Quick<'a>) -> Self {
        quick.0
    }
}

impl<'a> From<Careful<'a>> for Request<'a> {
    fn from(careful: Careful<'a>) -> Self {
        careful.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Quick<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_map(RequestVisitor { decodes_pods: true })
            .map(Self)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Careful<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_map(RequestVisitor {
                decodes_pods: false,
            })
            .map(Self)
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
                _ => drop(map.next_value::<serde::de::IgnoredAny>()?),
            }
        }
        Ok(request)
    }
}
