//! The text of the annotation.

use std::fmt;

use jiff::Timestamp;

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

/// Whether the text of the annotation suspends enforcement: two words at least, who and why. A word ends
/// with ASCII white space, as in the guard's expression.
pub fn suspends(annotation: &str) -> bool {
    annotation.split_ascii_whitespace().nth(1).is_some()
}

impl Note {
    /// Reads an annotation; `None` if it does not suspend enforcement. What cannot be read as a field is
    /// text, so that a time with a typing error never comes.
    pub fn parse(annotation: &str) -> Option<Self> {
        if !suspends(annotation) {
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

    /// Whether replicas admit pods without the sidecars that it is about. Not for a note without an end:
    /// its writer changes the objects by hand.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until)
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
