//! The values that one pod and its namespace have for the keys that rules read.
//!
//! Each key has a [`Slot`], handed out by [`super::keys::Keys`]. Rules compare slots and never
//! search a map: this is the hot path of every review.

use std::borrow::Cow;

/// Number of a key that rules read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Slot(pub(super) u16);

impl Slot {
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The values of a pod by slot, borrowed from the request where they hold no escapes.
#[derive(Debug, Clone, Default)]
pub struct PodValues<'a>(pub(super) Vec<Option<Cow<'a, str>>>);

impl<'a> PodValues<'a> {
    /// Sets a value. A later one wins, as with the API server's decoder: a JSON object may repeat a key.
    pub(crate) fn set(&mut self, slot: Slot, value: Cow<'a, str>) {
        if let Some(own) = self.0.get_mut(slot.index()) {
            *own = Some(value);
        }
    }

    /// The value in a slot, `None` if the pod does not have the key.
    pub fn get(&self, slot: Slot) -> Option<&str> {
        self.0.get(slot.index())?.as_deref()
    }
}

/// The values of a namespace: few, and kept for as long as the namespace is, so that a list is
/// smaller than room for every key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceValues(pub(super) Vec<(Slot, Box<str>)>);

/// A namespace that has none of the keys.
pub(crate) static NO_NAMESPACE_VALUES: NamespaceValues = NamespaceValues(Vec::new());

impl NamespaceValues {
    pub(crate) fn get(&self, slot: Slot) -> Option<&str> {
        let entry = self.0.iter().find(|(own, _)| *own == slot);
        entry.map(|(_, value)| &**value)
    }
}

/// What rules see: the values of a pod and those of its namespace.
#[derive(Debug, Clone, Copy)]
pub struct KeyValues<'a> {
    /// Those of the pod.
    pub pod: &'a PodValues<'a>,
    /// Those of its namespace.
    pub namespace: &'a NamespaceValues,
}

impl<'a> KeyValues<'a> {
    /// The value of a key, `None` if it is absent. A slot is either the pod's or the namespace's.
    pub fn get(&self, slot: Slot) -> Option<&'a str> {
        self.pod.get(slot).or_else(|| self.namespace.get(slot))
    }

    /// The slots that hold a value.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        let of_pod = (0..).zip(&self.pod.0);
        let of_pod = of_pod.filter_map(|(slot, value)| value.is_some().then_some(Slot(slot)));
        of_pod.chain(self.namespace.0.iter().map(|(slot, _)| *slot))
    }
}
