//! The index of the keys that rules read, and the values that one pod has for them.
//!
//! A pod carries dozens of labels and annotations; the rules of all profiles together read some
//! twenty. Each of these has a slot, so that a review is one look-up per label and annotation
//! and the rules then compare slots. Profiles none of whose keys is there are not walked at all.

use std::borrow::Cow;

use super::rule::{Key, Place};

/// Number of a key that rules read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Slot(u16);

impl Slot {
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// All keys that rules read.
#[derive(Debug, Default)]
pub struct Keys {
    /// Names by length and text. They are few, and most names that are asked for are none of
    /// them: comparing lengths tells that sooner than hashing a name that somebody else chose.
    by_place: [Vec<(String, Slot)>; 4],
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    readers: Vec<u16>,
}

impl Keys {
    /// The slot of a key, made if it is new; `reader` is the number of the injector whose rules
    /// read it.
    pub(super) fn intern(&mut self, key: &Key, reader: usize) -> Slot {
        let next = Slot(u16::try_from(self.entries.len()).unwrap_or(u16::MAX));
        let slot = match self.position(key.place, &key.name) {
            Ok(slot) => slot,
            Err(position) => {
                let names = &mut self.by_place[key.place as usize];
                names.insert(position, (key.name.clone(), next));
                self.entries.push(Entry {
                    key: key.clone(),
                    readers: Vec::new(),
                });
                next
            }
        };
        let reader = u16::try_from(reader).unwrap_or(u16::MAX);
        if let Some(entry) = self.entries.get_mut(slot.index())
            && !entry.readers.contains(&reader)
        {
            entry.readers.push(reader);
        }
        slot
    }

    /// The slot of a key that some rule reads.
    pub fn slot(&self, place: Place, name: &str) -> Option<Slot> {
        self.position(place, name).ok()
    }

    /// The slot of a key, or where its name would stand.
    fn position(&self, place: Place, name: &str) -> Result<Slot, usize> {
        let names = &self.by_place[place as usize];
        let order = |(own, _): &(String, Slot)| (own.len(), own.as_str()).cmp(&(name.len(), name));
        let position = names.binary_search_by(order)?;
        names.get(position).map(|(_, slot)| *slot).ok_or(position)
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.entries.iter().map(|entry| &entry.key)
    }

    /// Room for the values of one pod.
    pub fn pod_marks<'a>(&self) -> PodMarks<'a> {
        PodMarks(vec![None; self.entries.len()])
    }

    fn readers(&self, slot: Slot) -> &[u16] {
        self.entries
            .get(slot.index())
            .map_or(&[], |entry| &entry.readers)
    }
}

/// The values that a pod has for the keys that rules read, borrowed where they can be.
#[derive(Debug, Clone, Default)]
pub struct PodMarks<'a>(Vec<Option<Cow<'a, str>>>);

impl<'a> PodMarks<'a> {
    /// Sets a value. A later one wins, as in a JSON object.
    pub fn set(&mut self, slot: Slot, value: Cow<'a, str>) {
        if let Some(place) = self.0.get_mut(slot.index()) {
            *place = Some(value);
        }
    }

    /// The value in a slot.
    pub fn get(&self, slot: Slot) -> Option<&str> {
        self.0.get(slot.index())?.as_deref()
    }
}

/// The values that a namespace has for the keys that rules read: few, and kept for long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceMarks(Vec<(Slot, Box<str>)>);

/// A namespace that has none of them.
pub static NO_NAMESPACE_MARKS: NamespaceMarks = NamespaceMarks(Vec::new());

impl NamespaceMarks {
    /// Keeps what rules read of labels and annotations.
    pub fn new<'s>(
        keys: &Keys,
        labels: impl IntoIterator<Item = (&'s str, &'s str)>,
        annotations: impl IntoIterator<Item = (&'s str, &'s str)>,
    ) -> Self {
        let keep = |place| {
            move |(name, value): (&'s str, &'s str)| {
                Some((keys.slot(place, name)?, Box::<str>::from(value)))
            }
        };
        let labels = labels.into_iter().filter_map(keep(Place::NamespaceLabel));
        let annotations = annotations
            .into_iter()
            .filter_map(keep(Place::NamespaceAnnotation));
        Self(labels.chain(annotations).collect())
    }

    fn get(&self, slot: Slot) -> Option<&str> {
        self.0
            .iter()
            .find(|(own, _)| *own == slot)
            .map(|(_, value)| &**value)
    }
}

/// What rules see: the values of a pod and those of its namespace.
#[derive(Debug, Clone, Copy)]
pub struct Marks<'a> {
    /// Those of the pod.
    pub pod: &'a PodMarks<'a>,
    /// Those of its namespace.
    pub namespace: &'a NamespaceMarks,
}

impl<'a> Marks<'a> {
    /// The value of a key, `None` if it is absent.
    pub fn get(&self, slot: Slot) -> Option<&'a str> {
        self.pod.get(slot).or_else(|| self.namespace.get(slot))
    }

    /// Calls `visit` with the number of each injector one of whose keys is there (more than
    /// once, if several are).
    pub fn readers(&self, keys: &Keys, mut visit: impl FnMut(usize)) {
        let of_pod = (0_u16..)
            .zip(&self.pod.0)
            .filter(|(_, value)| value.is_some());
        let slots = of_pod.map(|(slot, _)| Slot(slot));
        for slot in slots.chain(self.namespace.0.iter().map(|(slot, _)| *slot)) {
            keys.readers(slot)
                .iter()
                .for_each(|reader| visit(usize::from(*reader)));
        }
    }
}
