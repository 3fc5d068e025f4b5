//! Parts of JSON objects as the API server reads them, borrowed from the text.
//!
//! The API server is written in Go: `null` means absent, of a key that stands twice the last one
//! counts, and no struct is read out of a list. These readers hold to that, so that meshgate never
//! judges another pod than the one that is stored.
//!
//! They take memory in proportion to the text. Lists and maps are read entry by entry, and only what
//! a rule may ask for is kept. An error repeats no text: escaped, it could be six times as long.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess};
use serde::de::{SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;

use crate::text::shown;

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
            fn visit_str<E: de::Error>(self, _: &str) -> Result<T, E> {
                Err(E::invalid_type(A_TEXT, &self))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        let visitor = ObjectVisitor(PhantomData);
        deserializer.deserialize_any(visitor).map(Self)
    }
}

/// A text where something else is expected, without the text.
const A_TEXT: Unexpected<'_> = Unexpected::Other("string");

/// What takes an object field by field, or a list entry by entry.
pub trait Parts<'de>: Sized {
    /// What is taken, for errors.
    const EXPECTED: &'static str;
    /// Whether only lists are taken.
    const IS_LIST: bool = false;
    /// Fields that are an error if they stand twice; at most eight.
    const ONCE: &'static [&'static str] = &[];

    /// Takes the value of a field; never called for lists.
    ///
    /// # Errors
    /// It is not what was expected.
    fn field<A: MapAccess<'de>>(&mut self, _key: &str, _map: &mut A) -> Result<(), A::Error> {
        Err(A::Error::invalid_type(Unexpected::Map, &Self::EXPECTED))
    }

    /// Takes an entry, and says whether there was one.
    ///
    /// # Errors
    /// It is not what was expected; no lists are taken.
    fn entry<A: SeqAccess<'de>>(&mut self, _list: &mut A) -> Result<bool, A::Error> {
        Err(A::Error::invalid_type(Unexpected::Seq, &Self::EXPECTED))
    }
}

/// Reads an object or a list part by part. Says whether there is one: `null` is none.
#[derive(Debug)]
pub struct Reading<'t, T>(pub &'t mut T);

impl<'de, T: Parts<'de>> DeserializeSeed<'de> for Reading<'_, T> {
    type Value = bool;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Parts<'de>> Visitor<'de> for Reading<'_, T> {
    type Value = bool;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_unit<E: de::Error>(self) -> Result<bool, E> {
        Ok(false)
    }
    fn visit_str<E: de::Error>(self, _: &str) -> Result<bool, E> {
        Err(E::invalid_type(A_TEXT, &self))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        if T::IS_LIST {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        let mut seen = 0_u8;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let mut bits = T::ONCE.iter().zip((0..8).map(|number| 1 << number));
            if let Some((field, bit)) = bits.find(|(field, _)| **field == &*key) {
                if seen & bit != 0 {
                    return Err(A::Error::duplicate_field(field));
                }
                seen |= bit;
            }
            self.0.field(&key, &mut map)?;
        }
        Ok(true)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        while self.0.entry(&mut list)? {}
        Ok(true)
    }
}

/// Reads a whole text part by part.
///
/// # Errors
/// It is not what was expected.
pub fn read<'de>(json: &'de str, parts: &mut impl Parts<'de>) -> Result<bool, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let is_there = Reading(parts).deserialize(&mut deserializer)?;
    deserializer.end().map(|()| is_there)
}

/// `null` and a missing field mean the same to the API server.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

/// True for `true`; `null` is the same as `false`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flag(pub bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match <&RawValue>::deserialize(deserializer)?.get() {
            flag @ ("true" | "false" | "null") => Ok(Self(flag == "true")),
            _ => Err(D::Error::custom("expected true or false")),
        }
    }
}

/// Most entries that a map may have: far beyond what the API server stores.
const MOST_ENTRIES: usize = 20_000;

/// Most entries of a list that may be kept: far more containers than any node runs in one pod. An
/// empty one takes twenty times the memory of its text.
const MOST_KEPT: usize = 256;

/// A list in which `null`, for itself or an entry, is nothing, as in Go.
pub(super) fn list<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<Vec<T>, D::Error> {
    list_of(d, |_| true)
}

/// Those entries of a list that are wanted.
pub(super) fn list_of<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
    wanted: fn(&T) -> bool,
) -> Result<Vec<T>, D::Error> {
    struct List<T>(Vec<T>, fn(&T) -> bool);
    impl<'de, T: Default + Deserialize<'de>> Parts<'de> for List<T> {
        const EXPECTED: &'static str = "a list";
        const IS_LIST: bool = true;
        fn entry<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
            let Some(entry) = list.next_element::<Option<Object<T>>>()? else {
                return Ok(false);
            };
            let entry = entry.unwrap_or_default().0;
            if (self.1)(&entry) {
                not_too_many(self.0.len(), MOST_KEPT)?;
                self.0.push(entry);
            }
            Ok(true)
        }
    }
    let mut list = List(Vec::new(), wanted);
    Reading(&mut list).deserialize(d)?;
    Ok(list.0)
}

fn not_too_many<E: de::Error>(count: usize, most: usize) -> Result<(), E> {
    if count < most {
        return Ok(());
    }
    let problem = format_args!("more than {most} entries in one list or map");
    Err(E::custom(problem))
}

/// A text or `null`, still as it stands in the JSON: an annotation may hold a whole escaped manifest
/// that no rule reads.
#[derive(Debug, Clone, Copy)]
pub struct RawText<'a>(&'a RawValue);

impl<'a> RawText<'a> {
    /// The value; `null` is the empty text, as in Go.
    pub(super) fn decode(self) -> Result<Cow<'a, str>, serde_json::Error> {
        let text: Option<Text<'a>> = serde_json::from_str(self.0.get())?;
        Ok(text.map_or(Cow::Borrowed(""), |text| text.0))
    }
}

/// A map of texts: hands over each entry.
pub(super) struct EachText<F> {
    each: F,
    count: usize,
}

impl<F> EachText<F> {
    pub(super) fn new(each: F) -> Self {
        Self { each, count: 0 }
    }
}

impl<'de, F> Parts<'de> for EachText<F>
where
    F: FnMut(&str, RawText<'de>) -> Result<(), serde_json::Error>,
{
    const EXPECTED: &'static str = "a map of texts";
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let value: &RawValue = map.next_value()?;
        if !value.get().starts_with(['"', 'n']) {
            return Err(A::Error::custom(format_args!(
                "the value of {} is no text (put it in quotes)",
                shown(key)
            )));
        }
        not_too_many(self.count, MOST_ENTRIES)?;
        self.count += 1;
        (self.each)(key, RawText(value)).map_err(A::Error::custom)
    }
}

/// Whether the list at a path of fields has an entry that passes a test. Lists on the way stand for
/// each of their entries. JSON of another shape has no such entry.
pub fn any_at(json: &str, path: &[&str], test: &dyn Fn(&RawValue) -> bool) -> bool {
    let found = false;
    let mut any = AnyAt { path, test, found };
    read(json, &mut any).is_ok() && any.found
}

struct AnyAt<'p> {
    path: &'p [&'p str],
    test: &'p dyn Fn(&RawValue) -> bool,
    found: bool,
}

impl<'de> Parts<'de> for AnyAt<'_> {
    const EXPECTED: &'static str = "an object or a list";
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match self.path {
            [first, path @ ..] if *first == key => {
                let mut inner = AnyAt { path, ..*self };
                map.next_value_seed(Reading(&mut inner))?;
                self.found = inner.found;
            }
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
    fn entry<A: SeqAccess<'de>>(&mut self, list: &mut A) -> Result<bool, A::Error> {
        if !self.path.is_empty() {
            return Ok(list.next_element_seed(Reading(self))?.is_some());
        }
        let entry: Option<&RawValue> = list.next_element()?;
        self.found |= entry.is_some_and(self.test);
        Ok(entry.is_some())
    }
}

/// Whether a value is this text.
pub fn is_text(value: &RawValue, text: &str) -> bool {
    RawText(value).decode().is_ok_and(|own| own == text)
}
