//! `Plain`: a switch or a number that was written as one.
//!
//! The parser would take `"true"` for true. An author who writes quotes means a text, and other
//! readers of the same file (an editor with the schema, for one) refuse it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, IntoDeserializer, Visitor};

/// A value that is no text. In a JSON Schema it is the value alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plain<T>(pub T);

/// What can be plain.
pub trait Scalar: DeserializeOwned {
    /// In words, for "expected …".
    const EXPECTED: &'static str;
}

impl Scalar for bool {
    const EXPECTED: &'static str = "true or false";
}

impl Scalar for u32 {
    const EXPECTED: &'static str = "a whole number, 1 or more";
}

impl Scalar for i32 {
    const EXPECTED: &'static str = "a whole number";
}

struct PlainVisitor<T>(PhantomData<T>);

/// The value as it was found, if it can be a `T`: serde takes a number only where it fits.
fn take<'de, T: Scalar, E: Error>(
    found: impl IntoDeserializer<'de, E> + fmt::Display + Copy,
) -> Result<Plain<T>, E> {
    let problem = |_| E::custom(format_args!("found {found}, expected {}", T::EXPECTED));
    let value = T::deserialize(found.into_deserializer());
    value.map(Plain).map_err(problem)
}

impl<T: Scalar> Visitor<'_> for PlainVisitor<T> {
    type Value = Plain<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_bool<E: Error>(self, found: bool) -> Result<Plain<T>, E> {
        take(found)
    }
    fn visit_i64<E: Error>(self, found: i64) -> Result<Plain<T>, E> {
        take(found)
    }
    fn visit_u64<E: Error>(self, found: u64) -> Result<Plain<T>, E> {
        take(found)
    }
    fn visit_f64<E: Error>(self, found: f64) -> Result<Plain<T>, E> {
        take(found)
    }
    fn visit_str<E: Error>(self, found: &str) -> Result<Plain<T>, E> {
        let short: String = found.chars().take(40).collect();
        let (found, expected) = (short.escape_debug(), T::EXPECTED);
        let problem = format_args!("found the text \"{found}\", expected {expected}");
        Err(E::custom(problem))
    }
}

impl<'de, T: Scalar> Deserialize<'de> for Plain<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Plain<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
