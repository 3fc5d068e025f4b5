//! What the API server writes, read straight into slim objects: full ones, with their
//! `managedFields`, never exist. PURE.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube::error::Status;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

use crate::cluster::object::{Kind, Object, ObjectId};
use crate::injector::keys::Keys;

/// Where an object is read to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'k> {
    /// Its kind.
    pub(super) kind: Kind,
    /// What rules read of it.
    pub(super) keys: &'k Keys,
}

/// One object as it came.
#[derive(Debug)]
pub(super) struct Item {
    /// Which one it is; `None` if not even that can be read.
    pub(super) id: Option<ObjectId>,
    /// Its version.
    pub(super) version: Option<String>,
    /// What is kept of it, or why it cannot be read.
    pub(super) object: Result<Object, String>,
}

/// One event of a watch.
#[derive(Debug)]
pub(super) enum Event {
    /// An object was made or changed.
    Applied(Item),
    /// An object is gone.
    Deleted(Item),
    /// Nothing happened up to this version.
    Bookmark {
        /// The version.
        version: String,
        /// Whether this ends the list that the watch began with.
        is_end_of_list: bool,
    },
    /// The watch failed.
    Failed(Box<Status>),
}

/// One page of a list.
#[derive(Debug)]
pub(super) struct Page {
    /// What is on it.
    pub(super) items: Vec<Item>,
    /// How to ask for the next one.
    pub(super) next: Option<String>,
    /// The version of the whole list.
    pub(super) version: String,
}

#[derive(Deserialize)]
struct Head {
    metadata: HeadMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMetadata {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    resource_version: Option<String>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Mark {
    metadata: MarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

/// The annotation of the bookmark that ends the initial events of a streaming list.
const INITIAL_END: &str = "k8s.io/initial-events-end";

impl Reader<'_> {
    /// Reads a line of a watch.
    ///
    /// # Errors
    /// It is no event.
    pub(super) fn event(self, line: &str) -> Result<Event, serde_json::Error> {
        let Line { kind, object } = serde_json::from_str(line)?;
        Ok(match &*kind {
            "ADDED" | "MODIFIED" => Event::Applied(self.item(object)),
            "DELETED" => Event::Deleted(self.item(object)),
            "BOOKMARK" => {
                let Mark { metadata } = serde_json::from_str(object.get())?;
                let annotations = metadata.annotations.unwrap_or_default();
                Event::Bookmark {
                    version: metadata.resource_version,
                    is_end_of_list: annotations.contains_key(INITIAL_END),
                }
            }
            "ERROR" => Event::Failed(serde_json::from_str(object.get())?),
            other => {
                return Err(serde_json::Error::custom(format!(
                    "unknown event {other:?}"
                )));
            }
        })
    }

    /// Reads an object. One that is not what its kind looks like is told by name, so that no
    /// old version of it stays in force and nothing else is held up (case 41).
    pub(super) fn item(self, json: &RawValue) -> Item {
        let head = serde_json::from_str::<Head>(json.get()).ok();
        let head = head.map(|head| head.metadata);
        let id = head.as_ref().map(|head| {
            let namespace = head.namespace.clone().unwrap_or_default();
            (self.kind, namespace, head.name.clone())
        });
        let version = head.and_then(|head| head.resource_version);
        let object = match Object::from_json(self.kind, json.get()) {
            Ok(object) if object.id().2.is_empty() => Err("it has no name".to_owned()),
            Ok(object) => Ok(object.pruned(self.keys)),
            Err(error) => Err(error.to_string()),
        };
        Item {
            id,
            version: version.filter(|version| !version.is_empty()),
            object,
        }
    }

    /// Reads a page of a list.
    ///
    /// # Errors
    /// It is no list.
    pub(super) fn page(self, json: &str) -> Result<Page, String> {
        let list: List<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let version = given(list.metadata.resource_version);
        Ok(Page {
            items: list
                .items
                .into_iter()
                .flatten()
                .map(|item| self.item(item))
                .collect(),
            next: given(list.metadata.next),
            version: version.ok_or("the list has no resourceVersion")?,
        })
    }
}
