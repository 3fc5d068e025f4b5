//! Owners of pods, up to the topmost that is known.

use std::collections::HashMap;

use serde_json::Value;

use super::answer::{DEFAULT_NAMESPACE, Owner};

/// Most owners above one another: more would be a circle.
const MOST_ABOVE: usize = 8;

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
        let object: Value = serde_json::from_str(json).unwrap_or_default();
        let metadata = &object["metadata"];
        let Some(name) = metadata["name"].as_str() else {
            return;
        };
        let owner = Owner::new(kind, name);
        let mut references = metadata["ownerReferences"].as_array().into_iter().flatten();
        let above = references.find(|one| one["controller"] == true);
        let above =
            above.and_then(|one| Some(Owner::new(one["kind"].as_str()?, one["name"].as_str()?)));
        let namespace = metadata["namespace"].as_str();
        let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE).into();
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
