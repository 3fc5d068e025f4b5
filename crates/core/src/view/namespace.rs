//! `NamespaceView`: the little of a namespace that rules read.

use crate::injector::keys::Keys;
use crate::injector::values::NamespaceValues;

/// What rules may read of a namespace. One is kept for each namespace of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceView {
    /// `metadata.name`.
    pub name: Box<str>,
    /// The values of the keys that rules read.
    pub values: NamespaceValues,
}

impl NamespaceView {
    /// Keeps what rules read of a namespace's labels and annotations.
    pub fn new<'s>(
        name: &str,
        labels: impl IntoIterator<Item = (&'s str, &'s str)>,
        annotations: impl IntoIterator<Item = (&'s str, &'s str)>,
        keys: &Keys,
    ) -> Self {
        Self {
            name: name.into(),
            values: keys.namespace_values(labels, annotations),
        }
    }
}
