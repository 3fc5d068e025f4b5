//! `NamespaceView`: the little of a namespace that rules read.

use crate::injector::keys::{Keys, NamespaceMarks};

/// What rules may read of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceView {
    /// Its name.
    pub name: Box<str>,
    /// The values of the keys that rules read.
    pub marks: NamespaceMarks,
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
            marks: NamespaceMarks::new(keys, labels, annotations),
        }
    }
}
