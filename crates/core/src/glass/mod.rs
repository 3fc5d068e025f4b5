//! Broken glass: somebody switches off, for a time and with who and why, what refuses pods.
//!
//! PURE: no async, no clock, no IO, no logging. Objects are JSON values as the API server has them,
//! and what comes out is a merge patch that holds only against the version that was seen. Must not
//! import anything but `render`, for names.
//!
//! Everything stays where it is: an entry gets one more condition, that never holds or holds only for
//! the requirements of other injectors, so that the API server does not call it, whoever is dead or
//! alive; a binding warns where it denied, and its
//! annotation says what it did before. So closing needs no configuration and no meshgate, and puts
//! back exactly what was there.
//!
//! - [`note`]: the annotation: who, why, until when, which injectors.
//! - [`open`], [`close`]: the patches.

pub mod close;
pub mod note;
pub mod open;

use serde_json::{Value, json};

pub use self::note::Note;
pub use crate::render::BREAK_GLASS as ANNOTATION;

/// The webhook configurations that can be switched off, by their names.
pub const CONFIGURATIONS: [&str; 2] = [crate::render::CONFIGURATION, crate::render::MIRROR];

/// The configuration on which replicas read the note.
pub const SEEN_ON: &str = crate::render::CONFIGURATION;

/// Name of the condition that is added.
const CONDITION: &str = "break-glass";

/// Annotation of a binding with what it did before.
const BEFORE: &str = "meshgate.io/break-glass-before";

/// Whether an entry of a webhook configuration is switched off, as a whole or in part.
pub fn is_off(entry: &Value) -> bool {
    let conditions = entry["matchConditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(is_added))
}

fn is_added(condition: &Value) -> bool {
    condition["name"] == CONDITION
}

/// The note on an object, if its glass is broken.
pub fn of(object: &Value) -> Option<Note> {
    let text = object["metadata"]["annotations"][ANNOTATION].as_str()?;
    Note::parse(text)
}

/// A merge patch that holds only for the version that was seen.
fn patch_of(object: &Value, annotations: &Value) -> Value {
    json!({"metadata": {
        "resourceVersion": object["metadata"]["resourceVersion"],
        "annotations": annotations,
    }})
}

#[cfg(test)]
mod tests;
