//! The index of the keys that rules read.
//!
//! A pod carries dozens of labels and annotations; the rules of all profiles together read some
//! twenty. Each of these has a slot, so that a review is one look-up per label and annotation
//! and the rules then compare slots. Profiles none of whose keys is there are not walked at all.

use super::rule::{Key, Place};
use super::values::{KeyValues, NamespaceValues, PodValues, Slot};

/// All keys that rules read.
#[derive(Debug, Default)]
pub struct Keys {
    /// Per [`Place`], names ordered by length and text. They are few, and most names that a review
    /// asks for are none of them. Comparing lengths tells so sooner than hashing a name that a
    /// tenant chose.
    by_place: [Vec<(String, Slot)>; 4],
    /// By slot.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    /// Numbers of the injectors whose rules read the key.
    readers: Vec<u16>,
}

impl Keys {
    /// The slot of a key, made if it is new; `reader` is the number of the injector whose rules
    /// read it.
    pub(crate) fn intern(&mut self, key: &Key, reader: usize) -> Slot {
        let slot = match self.position(key.place, &key.name) {
            Ok(slot) => slot,
            Err(position) => {
                // Never the maximum: a term takes five values of a document, which has 250,000 at most.
                let next = Slot(u16::try_from(self.entries.len()).unwrap_or(u16::MAX));
                self.by_place[key.place as usize].insert(position, (key.name.clone(), next));
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

    /// The slot of a key, `None` if no rule reads it.
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

    /// All keys, by slot.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.entries.iter().map(|entry| &entry.key)
    }

    /// Room for the values of one pod, all absent.
    pub(crate) fn pod_values<'a>(&self) -> PodValues<'a> {
        PodValues(vec![None; self.entries.len()])
    }

    /// Keeps what rules read of a namespace's labels and annotations. Of tens of thousands of namespaces,
    /// nothing else stays in memory (case 70).
    pub(crate) fn namespace_values<'s>(
        &self,
        labels: impl IntoIterator<Item = (&'s str, &'s str)>,
        annotations: impl IntoIterator<Item = (&'s str, &'s str)>,
    ) -> NamespaceValues {
        let keep = |place| {
            move |(name, value): (&'s str, &'s str)| {
                Some((self.slot(place, name)?, Box::<str>::from(value)))
            }
        };
        let labels = labels.into_iter().filter_map(keep(Place::NamespaceLabel));
        let annotations = annotations.into_iter();
        let annotations = annotations.filter_map(keep(Place::NamespaceAnnotation));
        let mut values: Vec<_> = labels.chain(annotations).collect();
        values.shrink_to_fit();
        NamespaceValues(values)
    }

    /// Numbers of the injectors one of whose keys has a value; a number may come more than once.
    pub(crate) fn readers(&self, values: &KeyValues<'_>) -> impl Iterator<Item = usize> {
        let entries = values
            .slots()
            .filter_map(|slot| self.entries.get(slot.index()));
        entries.flat_map(|entry| entry.readers.iter().map(|reader| usize::from(*reader)))
    }
}
