//! An object as the API server wrote it, and the slim object that is read from it.
//!
//! Why not kube's `DeserializeGuard`: it copies each object twice into trees, with its `managedFields`,
//! and one object whose metadata cannot be read fails the whole list (case 41).
//! The text is had as it is because an event of a watch has its `type` before its `object`.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;

use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::cluster::object::{Kind, Object, ObjectId};
use crate::cluster::workloads;
use crate::kube_api::kind::group;
use meshgate_core::injector::keys::Keys;

/// A kind that is watched.
pub(super) trait Named: Copy + Debug + Send + Sync + 'static {
    fn as_str(self) -> &'static str;
    fn api_version(self) -> &'static str;
    fn plural(self) -> &'static str;
}

/// The kinds of the view and those of workloads have the same three words.
macro_rules! named {
    ($($kind:ty),+) => {
        $(impl Named for $kind {
            fn as_str(self) -> &'static str {
                self.as_str()
            }
            fn api_version(self) -> &'static str {
                self.api_version()
            }
            fn plural(self) -> &'static str {
                self.plural()
            }
        })+
    };
}

named!(Kind, workloads::Kind);

#[derive(Debug, Clone)]
pub(super) struct Written<K = Kind> {
    /// Name, namespace and version: what the watcher and the log need. Empty if they cannot be read.
    metadata: ObjectMeta,
    json: Box<RawValue>,
    kind: PhantomData<K>,
}

impl<'de, K> Deserialize<'de> for Written<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize, Default)]
        struct Head {
            metadata: Names,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase")]
        struct Names {
            name: Option<String>,
            namespace: Option<String>,
            resource_version: Option<String>,
        }
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let Head { metadata } = serde_json::from_str(json.get()).unwrap_or_default();
        let metadata = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            resource_version: metadata.resource_version,
            ..ObjectMeta::default()
        };
        Ok(Self {
            metadata,
            json,
            kind: PhantomData,
        })
    }
}

impl<K> Written<K> {
    pub(super) fn json(&self) -> &str {
        self.json.get()
    }
}

impl Written {
    pub(super) fn id(&self, kind: Kind) -> ObjectId {
        ObjectId {
            kind,
            namespace: self.metadata.namespace.clone().unwrap_or_default(),
            name: self.metadata.name.clone().unwrap_or_default(),
        }
    }

    /// What is kept of it.
    ///
    /// # Errors
    /// It is not what its kind looks like.
    pub(super) fn object(&self, kind: Kind, keys: &Keys) -> Result<Object, String> {
        object(kind, self.json(), keys)
    }
}

/// What is kept of the text of an object.
///
/// # Errors
/// It is not what its kind looks like.
pub(super) fn object(kind: Kind, json: &str, keys: &Keys) -> Result<Object, String> {
    match Object::from_json(kind, json) {
        Ok(object) if object.id().name.is_empty() => Err("it has no name".to_owned()),
        Ok(object) => Ok(object.pruned(keys)),
        Err(error) => Err(error.to_string()),
    }
}

impl<K: Named> Resource for Written<K> {
    type DynamicType = K;
    type Scope = DynamicResourceScope;

    fn kind(kind: &K) -> Cow<'_, str> {
        kind.as_str().into()
    }

    fn group(kind: &K) -> Cow<'_, str> {
        group(kind.api_version()).into()
    }

    fn version(_: &K) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(kind: &K) -> Cow<'_, str> {
        kind.plural().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
