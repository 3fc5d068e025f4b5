//! The text of the annotation.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

macro_rules! time {
    () => {
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
    };
}

macro_rules! tail {
    () => {
        concat!(";\\s*until=", time!(), "(\\s*;\\s*injector=[^;]+)?\\s*$")
    };
}

/// For the guard, as regular expressions: a note with who, why and an end; its fields; the end.
/// What matches is read by [`Note::parse`] with the same end.
pub(crate) const CEL_NOTE: &str = concat!("^\\s*[^;\\s]+\\s+[^;\\s][\\s\\S]*", tail!());
pub(crate) const CEL_TAIL: &str = tail!();
pub(crate) const CEL_TIME: &str = time!();

/// How far away the end may be.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(24);
/// Clocks may differ by this much.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// How far away the guard and replicas let the end be.
pub(crate) fn longest() -> SignedDuration {
    LONGEST + SKEW
}

/// The annotation: `WHO: WHY; until=TIME; injector=A,B`. The command writes the fields behind the text; a
/// person may write them or leave them out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Who, and why.
    pub text: String,
    /// When enforcement resumes by itself, if it does.
    pub until: Option<Timestamp>,
    /// The injectors that it is about; empty for all of them.
    pub injectors: Vec<String>,
}

/// Whether the text says who and why: two words at least before any semicolon. A word ends with ASCII white
/// space, as in the guard's expression.
fn says_who_and_why(annotation: &str) -> bool {
    let text = annotation.split(';').next().unwrap_or_default();
    text.split_ascii_whitespace().nth(1).is_some()
}

impl Note {
    /// A note of this user, for this reason, about these injectors; about all if there is none. A semicolon
    /// would end the name of a user.
    pub fn new(who: &str, why: &str, until: Timestamp, injectors: Vec<String>) -> Self {
        Self {
            text: format!("{}: {why}", who.replace(';', ",")),
            until: Some(until),
            injectors,
        }
    }

    /// Reads an annotation; `None` if it does not say who and why. What cannot be read as a field is text.
    pub fn parse(annotation: &str) -> Option<Self> {
        if !says_who_and_why(annotation) {
            return None;
        }
        let mut note = Self {
            text: String::new(),
            until: None,
            injectors: Vec::new(),
        };
        let mut rest = annotation.trim();
        while let Some((before, field)) = rest.rsplit_once(';') {
            if !note.read(field.trim()) {
                break;
            }
            rest = before.trim_end();
        }
        note.text = rest.to_owned();
        Some(note)
    }

    fn read(&mut self, field: &str) -> bool {
        match field.split_once('=') {
            // The last of each is the field; an earlier one is part of the reason.
            Some(("until", time)) if self.until.is_none() => match time.parse() {
                Ok(time) => self.until = Some(time),
                Err(_) => return false,
            },
            Some(("injector", names)) if self.injectors.is_empty() && !names.is_empty() => {
                self.injectors = names
                    .split(',')
                    .map(|name| name.trim().to_owned())
                    .collect();
            }
            _ => return false,
        }
        true
    }

    /// Whether its end has come.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Whether it is about this injector.
    pub fn is_about(&self, injector: &str) -> bool {
        self.injectors.is_empty() || self.injectors.iter().any(|name| name == injector)
    }

    /// Whether it suspends enforcement: it has an end, which has not come and is at most a day away.
    pub fn is_open(&self, now: Timestamp) -> bool {
        let left = self.until.map(|until| until.duration_since(now));
        left.is_some_and(|left| left.is_positive() && left <= longest())
    }

    /// Names for reports and metrics: those of the injectors, or `all`.
    pub fn subjects(&self) -> Vec<&str> {
        if self.injectors.is_empty() {
            return vec!["all"];
        }
        self.injectors.iter().map(String::as_str).collect()
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if let Some(until) = self.until {
            write!(f, "; until={until}")?;
        }
        if !self.injectors.is_empty() {
            write!(f, "; injector={}", self.injectors.join(","))?;
        }
        Ok(())
    }
}
