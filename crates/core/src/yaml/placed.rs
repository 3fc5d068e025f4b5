//! `Placed`: a value that knows where it stands, for problems that are found after parsing.

use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer};
use serde_saphyr::{Location, Spanned};

/// A value and its place. In a JSON Schema it is the value alone.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct Placed<T> {
    /// What stands there.
    pub value: T,
    /// Where: for an alias, the place where it is used.
    #[schemars(skip)]
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
