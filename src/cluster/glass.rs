//! The broken glass that the view knows of. PURE: told what time it is.

use jiff::Timestamp;

use crate::break_glass::{self, Note};

use super::slim::Metadata;

/// What is known.
#[derive(Debug, Default)]
pub(super) struct Glass {
    note: Option<Note>,
    now: Option<Timestamp>,
}

impl Glass {
    /// Takes note of a webhook configuration; only our own says anything.
    pub(super) fn see(&mut self, metadata: &Metadata) {
        if metadata.name == break_glass::SEEN_ON {
            let text = metadata.annotations.get(break_glass::ANNOTATION);
            self.note = text.and_then(|text| Note::parse(text));
        }
    }

    /// A webhook configuration is gone.
    pub(super) fn forget(&mut self, name: &str) {
        if name == break_glass::SEEN_ON {
            self.note = None;
        }
    }

    pub(super) fn tick(&mut self, now: Timestamp) {
        self.now = Some(now);
    }

    /// The note, while it lets pods pass.
    pub(super) fn broken(&self) -> Option<&Note> {
        let now = self.now?;
        self.note.as_ref().filter(|note| note.is_open(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_on_our_configuration_from_the_first_tick_to_its_end() {
        let mut glass = Glass::default();
        let at = |time: &str| -> Timestamp { time.parse().unwrap() };
        let metadata = |name: &str, note: &str| {
            let annotation = (break_glass::ANNOTATION.to_owned(), note.to_owned());
            Metadata {
                name: name.to_owned(),
                annotations: [annotation].into(),
                ..Metadata::default()
            }
        };
        let note = "jane: x; until=2026-01-01T00:15:00Z; injector=a";
        glass.see(&metadata(break_glass::SEEN_ON, note));
        assert_eq!(glass.broken(), None, "nobody said what time it is");
        glass.tick(at("2026-01-01T00:00:00Z"));
        assert!(glass.broken().unwrap().is_about("a"));
        glass.see(&metadata("others", "jane: y"));
        assert!(!glass.broken().unwrap().is_about("b"));
        glass.tick(at("2026-01-01T00:15:00Z"));
        assert_eq!(glass.broken(), None);
        glass.tick(at("2026-01-01T00:00:00Z"));
        glass.see(&metadata(break_glass::SEEN_ON, "jane: x"));
        assert_eq!(
            glass.broken(),
            None,
            "without an end it is about the object"
        );
        glass.see(&metadata(break_glass::SEEN_ON, note));
        glass.forget("others");
        assert!(glass.broken().is_some());
        glass.forget(break_glass::SEEN_ON);
        assert_eq!(glass.broken(), None);
    }
}
