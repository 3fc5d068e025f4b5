//! Parts of JSON objects as the API server reads them, borrowed from the text.
//!
//! The API server is written in Go: `null` means absent, of a key that stands twice the last one
//! counts, and no struct is read out of a list. These readers hold to that, so that meshgate never
//! judges another pod than the one that is stored.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A text, borrowed from the JSON unless it holds escapes.
///
/// A plain `Cow` silently allocates inside `Option`, lists and maps; this newtype does not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// A JSON object and nothing else: serde would read a struct out of a list as well, by the order
/// of its fields.
#[derive(Debug, Clone, Default)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer
            .deserialize_map(ObjectVisitor(PhantomData))
            .map(Self)
    }
}

/// `null` and a missing field mean the same to the API server.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

/// Most entries that a list or a map may have: far beyond what the API server stores, and few
/// enough that a body of empty entries takes no more memory than itself.
const MOST_ENTRIES: usize = 20_000;

/// A list in which `null`, for itself or an entry, is nothing, as in Go.
pub(super) fn list<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<Vec<T>, D::Error> {
    struct ListVisitor<T>(PhantomData<T>);
    impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_unit<E: serde::de::Error>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(entry) = entries.next_element::<Option<Object<T>>>()? {
                not_too_many::<A::Error>(list.len())?;
                list.push(entry.unwrap_or_default().0);
            }
            Ok(list)
        }
    }
    d.deserialize_any(ListVisitor(PhantomData))
}

fn not_too_many<E: serde::de::Error>(count: usize) -> Result<(), E> {
    if count < MOST_ENTRIES {
        return Ok(());
    }
    Err(E::custom(format_args!(
        "more than {MOST_ENTRIES} entries in one list or map"
    )))
}

/// A map of texts whose values stay undecoded until a rule reads one: an annotation may hold a
/// whole escaped manifest that none reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries<'a>(pub(super) Vec<(Text<'a>, RawText<'a>)>);

/// A text or `null`, still as it stands in the JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawText<'a>(&'a RawValue);

impl<'a> RawText<'a> {
    /// The value; `null` is the empty text, as in Go.
    pub(super) fn decode(self) -> Result<Cow<'a, str>, serde_json::Error> {
        let text: Option<Text<'a>> = serde_json::from_str(self.0.get())?;
        Ok(text.map_or(Cow::Borrowed(""), |text| text.0))
    }
}

impl<'a> Entries<'a> {
    /// The last value of a key, as a JSON object given twice has it.
    pub(super) fn get(&self, key: &str) -> Option<RawText<'a>> {
        self.0
            .iter()
            .rev()
            .find(|(own, _)| &**own == key)
            .map(|(_, value)| *value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<Text<'de>, &RawValue>()? {
                    if !value.get().starts_with(['"', 'n']) {
                        return Err(A::Error::custom(format_args!(
                            "the value of {} is no text (put it in quotes)",
                            &*key
                        )));
                    }
                    not_too_many::<A::Error>(entries.len())?;
                    entries.push((key, RawText(value)));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}
