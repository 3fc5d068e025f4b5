//! Owners of pods, up to the topmost that is known.

use std::collections::HashMap;

use serde::Deserialize;

use super::answer::Owner;
use super::known::DEFAULT_NAMESPACE;

/// Most owners above one another: more would be a circle.
const MOST_ABOVE: usize = 8;

/// An object that may own pods, by its metadata.
#[derive(Deserialize)]
struct Head {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Box<str>,
    #[serde(default)]
    namespace: Option<Box<str>>,
    #[serde(default)]
    owner_references: Option<Vec<Reference>>,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(flatten)]
    owner: Owner,
    #[serde(default)]
    controller: Option<bool>,
}

/// The owners that were read, with their own owners.
#[derive(Debug, Default)]
pub(super) struct Owners {
    by_namespace: HashMap<Box<str>, HashMap<Owner, Option<Owner>>>,
    /// Whether an owner that was not read exists all the same: the garbage collector deletes what has none.
    pub(super) may_be_unread: bool,
}

impl Owners {
    /// Takes an object of this kind. One without a name owns no pod.
    pub(super) fn take(&mut self, kind: &str, json: &str) {
        let Ok(Head { metadata }) = serde_json::from_str(json) else {
            return;
        };
        let references = metadata.owner_references.into_iter().flatten();
        let mut controllers = references.filter(|one| one.controller == Some(true));
        let owner = Owner {
            kind: kind.into(),
            name: metadata.name,
        };
        let above = controllers.next().map(|one| one.owner);
        let namespace = metadata.namespace;
        let namespace = namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.into());
        let own = self.by_namespace.entry(namespace).or_default();
        own.insert(owner, above);
    }

    /// The topmost owner above this one, or itself.
    pub(super) fn topmost(&self, namespace: &str, mut owner: Owner) -> Owner {
        let Some(known) = self.by_namespace.get(namespace) else {
            return owner;
        };
        for _ in 0..MOST_ABOVE {
            match known.get(&owner) {
                Some(Some(above)) if self.may_be_unread || known.contains_key(above) => {
                    owner = above.clone();
                }
                _ => break,
            }
        }
        owner
    }
}
