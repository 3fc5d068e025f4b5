//! Break-glass: an administrator suspends, for a time and with who and why, what refuses pods.
//!
//! Everything stays in the cluster. An entry gets one more condition, which never holds or holds only for
//! the requirements of other injectors, so that the API server does not call it, with or without
//! meshgate. A binding warns where it denied, and its annotation says what it did before. So to resume takes
//! no configuration and no meshgate, and restores exactly what was there.
//!
//! What comes out is a merge patch that holds only for the version that was seen.
//!
//! - [`note`]: the annotation: who, why, until when, which injectors.
//! - [`suspend`], [`resume`]: the patches.

pub mod note;
mod object;
pub mod resume;
pub mod suspend;

use serde_json::Value;

use crate::names::{CONFIGURATION, MIRROR};

pub use self::note::Note;
pub use self::object::CONDITION;
pub use crate::names::BREAK_GLASS as ANNOTATION;

/// The webhook configurations that can be suspended, by their names.
pub const CONFIGURATIONS: [&str; 2] = [CONFIGURATION, MIRROR];

/// The configuration on which replicas read the note.
pub const SEEN_ON: &str = CONFIGURATION;

/// What the condition of an entry says that asks about no pod.
pub const OFF: &str = "false";

/// The note on an object, if it suspends enforcement.
pub fn of(object: &Value) -> Option<Note> {
    Note::parse(object::annotation(object, ANNOTATION)?)
}

#[cfg(test)]
mod tests;
