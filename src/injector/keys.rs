//! The index of the keys that rules read, and the values that one pod has for them.
//!
//! A pod carries dozens of labels and annotations; the rules of all profiles together read some
//! twenty. Each of these has a slot, so that a review is one look-up per label and annotation
//! and the rules then compare slots. Profiles none of whose keys is there are not walked at all.

use std::borrow::Cow;
use std::collections::HashMap;

use super::rule::{Key, Place};

/// Number of a key in [`Marks`].
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
    by_place: [HashMap<String, Slot>; 4],
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
        let names = &mut self.by_place[key.place as usize];
        let slot = *names.entry(key.name.clone()).or_insert(next);
        if slot == next {
            self.entries.push(Entry { key: key.clone(), readers: Vec::new() });
        }
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
        self.by_place[place as usize].get(name).copied()
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.entries.iter().map(|entry| &entry.key)
    }

    /// Numbers of the injectors whose rules read the key of a slot.
    fn readers(&self, slot: Slot) -> &[u16] {
        self.entries.get(slot.index()).map_or(&[], |entry| &entry.readers)
    }

    /// An empty set of values.
    pub fn marks<'a>(&self) -> Marks<'a> {
        Marks { values: vec![None; self.entries.len()] }
    }
}

/// The values that one pod and its namespace have for the keys that rules read.
#[derive(Debug, Clone, Default)]
pub struct Marks<'a> {
    values: Vec<Option<Cow<'a, str>>>,
}

impl<'a> Marks<'a> {
    /// Sets a value. A later one wins, as in a JSON object.
    pub fn set(&mut self, slot: Slot, value: Cow<'a, str>) {
        if let Some(place) = self.values.get_mut(slot.index()) {
            *place = Some(value);
        }
    }

    /// The value of a key, `None` if it is absent.
    pub fn get(&self, slot: Slot) -> Option<&str> {
        self.values.get(slot.index())?.as_deref()
    }

    /// Calls `visit` with the number of each injector one of whose keys is there (more than
    /// once, if several are).
    pub fn readers(&self, keys: &Keys, mut visit: impl FnMut(usize)) {
        for (slot, value) in (0_u16..).zip(&self.values) {
            if value.is_some() {
                keys.readers(Slot(slot)).iter().for_each(|reader| visit(usize::from(*reader)));
            }
        }
    }

    /// The same without what places of one kind hold.
    pub fn without(&self, keys: &Keys, absent: impl Fn(Place) -> bool) -> Marks<'_> {
        let values = keys.iter().zip(&self.values).map(|(key, value)| {
            if absent(key.place) { None } else { value.as_deref().map(Cow::Borrowed) }
        });
        Marks { values: values.collect() }
    }
}
