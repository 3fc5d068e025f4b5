//! `Plain`: a switch or a number that was written as one.
//!
//! The parser would take `"true"` for true. An author who writes quotes means a text, and other
//! readers of the same file (an editor with the schema, for one) refuse it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A value that is no text. In a JSON Schema it is the value alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plain<T>(pub T);

/// What can be plain.
pub trait Scalar: Sized {
    /// In words, for "expected …".
    const EXPECTED: &'static str;
    /// The value, if `true` and `false` can be one.
    fn of_switch(_found: bool) -> Option<Self> {
        None
    }
    /// The value, if this whole number can be one.
    fn of_number(_found: i128) -> Option<Self> {
        None
    }
}

impl Scalar for bool {
    const EXPECTED: &'static str = "true or false";
    fn of_switch(found: bool) -> Option<Self> {
        Some(found)
    }
}

impl Scalar for u32 {
    const EXPECTED: &'static str = "a whole number, 1 or more";
    fn of_number(found: i128) -> Option<Self> {
        found.try_into().ok()
    }
}

impl Scalar for i32 {
    const EXPECTED: &'static str = "a whole number";
    fn of_number(found: i128) -> Option<Self> {
        found.try_into().ok()
    }
}

struct PlainVisitor<T>(PhantomData<T>);

fn take<T: Scalar, E: Error>(value: Option<T>, found: impl fmt::Display) -> Result<Plain<T>, E> {
    let problem = || E::custom(format_args!("found {found}, expected {}", T::EXPECTED));
    value.map(Plain).ok_or_else(problem)
}

impl<T: Scalar> Visitor<'_> for PlainVisitor<T> {
    type Value = Plain<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_bool<E: Error>(self, found: bool) -> Result<Plain<T>, E> {
        take(T::of_switch(found), found)
    }
    fn visit_i64<E: Error>(self, found: i64) -> Result<Plain<T>, E> {
        take(T::of_number(found.into()), found)
    }
    fn visit_u64<E: Error>(self, found: u64) -> Result<Plain<T>, E> {
        take(T::of_number(found.into()), found)
    }
    fn visit_f64<E: Error>(self, found: f64) -> Result<Plain<T>, E> {
        take(None, found)
    }
    fn visit_str<E: Error>(self, found: &str) -> Result<Plain<T>, E> {
        let short: String = found.chars().take(40).collect();
        take(None, format_args!("the text \"{}\"", short.escape_debug()))
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
