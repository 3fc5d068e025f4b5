//! `Placed`: a value that knows where it stands, for problems that are found after parsing.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer};
use serde_saphyr::{Location, Spanned};

/// A value and its place. In a JSON Schema it is the value alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<T> {
    /// What stands there.
    pub value: T,
    /// Where: for an alias, the place where it is used.
    pub at: Location,
}

/// A list whose entries have places of their own.
pub type List<T> = Placed<Vec<Placed<T>>>;

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Placed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = Spanned::deserialize(deserializer)?;
        Ok(Self {
            value: found.value,
            at: found.referenced,
        })
    }
}

impl<T: JsonSchema> JsonSchema for Placed<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
