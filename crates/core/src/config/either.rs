//! Values that are a text or a mapping.

use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};

use crate::yaml;

use super::spec::{InstanceSpec, SidecarSpec};

fn without_quotes<E: serde::de::Error>(found: impl fmt::Display) -> E {
    E::custom(yaml::without_quotes(found))
}

/// A text, or a mapping: serde's untagged enums would lose place and reason of an error. A value without
/// quotes is refused for both types as it is everywhere else, since YAML 1.1 readers take `on` for true.
macro_rules! text_or_mapping {
    ($name:ident, $text:ident, $mapping:ident, $expecting:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct TextOrMapping;
                impl<'de> Visitor<'de> for TextOrMapping {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        Ok($name::$text(text.to_owned()))
                    }
                    fn visit_bool<E: serde::de::Error>(self, found: bool) -> Result<$name, E> {
                        Err(without_quotes(found))
                    }
                    fn visit_i64<E: serde::de::Error>(self, found: i64) -> Result<$name, E> {
                        Err(without_quotes(found))
                    }
                    fn visit_u64<E: serde::de::Error>(self, found: u64) -> Result<$name, E> {
                        Err(without_quotes(found))
                    }
                    fn visit_f64<E: serde::de::Error>(self, found: f64) -> Result<$name, E> {
                        Err(without_quotes(found))
                    }
                    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$name, A::Error> {
                        let mapping = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                        Ok($name::$mapping(Box::new(mapping)))
                    }
                }
                deserializer.deserialize_any(TextOrMapping)
            }
        }
    };
}

text_or_mapping!(
    InstanceSpec,
    Constant,
    Key,
    "a name, or one key such as {podLabel: KEY}"
);
text_or_mapping!(
    SidecarSpec,
    Name,
    Prefix,
    "a container's name, or {prefix: TEXT}"
);
