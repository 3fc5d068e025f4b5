//! YAML documents with positions: a leaf that every reader of files goes through.
//!
//! Owns the parser's options (limits, duplicate keys, quoting) and the wording of its errors.
//! Knows nothing of what the documents mean.

mod placed;
mod plain;
mod wording;

use std::fmt;

use serde::de::DeserializeOwned;
use serde_saphyr::{Budget, Error, Location, Options, options::DuplicateKeyPolicy};

use crate::text::one_line;

pub use self::placed::{List, Placed};
pub use self::plain::Plain;
pub use self::wording::of_json;
pub(crate) use self::wording::without_quotes;

/// Largest input that is looked at, in bytes. Ten thousand Namespaces fit.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Longest sentence about a problem, in characters.
const MAX_PROBLEM: usize = 500;

/// Most values in one document.
const MAX_VALUES: usize = 250_000;

/// Deepest nesting. The parser recurses, and an unoptimised build uses the two megabytes of a
/// thread's stack at about ninety levels; a pod has twenty at most.
const MAX_LEVELS: usize = 48;

/// A problem at a place in a file: `FILE:LINE:COLUMN: PROBLEM`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}:{column}: {problem}")]
pub struct ParseError {
    origin: String,
    /// In the file, from 1.
    pub line: u64,
    /// In that line, in characters, from 1.
    pub column: u64,
    /// The sentence without the place.
    pub problem: String,
}

/// One document of a file. The target type decides about unknown keys (`deny_unknown_fields`);
/// duplicate keys and an unquoted `true` or `1` for a text never pass, as they do not with
/// `kubectl`.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    origin: &'a str,
    lines_before: u64,
    text: &'a str,
    syntax: Syntax,
    /// Without limits on its size: what a person gives of a whole cluster.
    is_large: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Yaml,
    /// Nearly YAML, but for escapes of surrogate pairs.
    Json,
}

impl<'a> Document<'a> {
    /// A text that is one YAML document.
    pub fn whole(origin: &'a str, text: &'a str) -> Self {
        Self {
            origin,
            lines_before: 0,
            text,
            syntax: Syntax::Yaml,
            is_large: false,
        }
    }

    /// The same text, however large it is.
    #[must_use]
    pub fn large(self) -> Self {
        Self {
            is_large: true,
            ..self
        }
    }

    /// The same text for the reader of YAML. That of JSON lets a key stand twice, and a list for a
    /// mapping. JSON is YAML but for surrogate pairs.
    #[must_use]
    pub fn strict(self) -> Self {
        Self {
            syntax: Syntax::Yaml,
            ..self
        }
    }

    /// The text of this document alone.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The line in the file where its content begins, from 1.
    pub fn line(&self) -> u64 {
        let before = self.text.lines().take_while(|line| is_blank(line));
        self.lines_before + 1 + before.count() as u64
    }

    /// A problem of the document as a whole.
    pub fn error(&self, problem: impl fmt::Display) -> ParseError {
        self.error_at(Location::UNKNOWN, problem)
    }

    /// A problem at a place in the document, found after it was parsed.
    pub(crate) fn error_at(&self, location: Location, problem: impl fmt::Display) -> ParseError {
        ParseError {
            origin: self.origin.to_owned(),
            line: self.lines_before + location.line().max(1),
            column: location.column().max(1),
            problem: in_one_line(&problem.to_string()),
        }
    }

    /// Reads the document as `T`.
    ///
    /// # Errors
    /// The first problem with its place: not YAML, a type or key that `T` does not accept, a
    /// duplicate key, a text that needs quotes, or more aliases and nesting than a person writes.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ParseError> {
        match self.syntax {
            Syntax::Yaml => serde_saphyr::from_str_with_options(self.text, options(self.is_large))
                .map_err(|error| self.describe(&error)),
            Syntax::Json => serde_json::from_str(self.text).map_err(|error| ParseError {
                origin: self.origin.to_owned(),
                line: self.lines_before + error.line() as u64,
                column: error.column().max(1) as u64,
                problem: in_one_line(&of_json(&error)),
            }),
        }
    }

    fn describe(&self, error: &Error) -> ParseError {
        let error = innermost(error);
        let location = error.location().unwrap_or(Location::UNKNOWN);
        let rest = self.from(location);
        self.error_at(location, wording::problem(error, rest))
    }

    /// The rest of the line from a location on.
    fn from(&self, location: Location) -> &'a str {
        let index = |from_1: u64| usize::try_from(from_1.saturating_sub(1)).unwrap_or(usize::MAX);
        let mut lines = self.text.lines();
        let line = lines.nth(index(location.line())).unwrap_or_default();
        let start = line.char_indices().nth(index(location.column()));
        start.map_or("", |(start, _)| line.get(start..).unwrap_or_default())
    }
}

/// A problem repeats what was found, and a key can run over many lines.
fn in_one_line(problem: &str) -> String {
    let words: Vec<&str> = problem.split_whitespace().collect();
    one_line(&words.join(" "), MAX_PROBLEM)
}

/// Splits a file into its documents; those with nothing in them are left out. A file whose name
/// ends with `.json` is one.
///
/// `---` and `...` in the first column are document markers wherever they stand, so that no
/// parser is needed, and one broken document does not hide the place of the next.
///
/// # Errors
/// The file is larger than [`MAX_BYTES`] or not UTF-8.
pub fn documents<'a>(origin: &'a str, bytes: &'a [u8]) -> Result<Vec<Document<'a>>, ParseError> {
    if bytes.len() > MAX_BYTES {
        let problem = format!("found {} bytes, expected {MAX_BYTES} at most", bytes.len());
        return Err(Document::whole(origin, "").error(problem));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let before = String::from_utf8_lossy(before);
        let line = before.rsplit('\n').next().unwrap_or_default();
        ParseError {
            origin: origin.to_owned(),
            line: before.matches('\n').count() as u64 + 1,
            column: line.chars().count() as u64 + 1,
            problem: "found bytes that are not UTF-8, expected text".to_owned(),
        }
    })?;
    Ok(split_up(origin, text))
}

/// The same of a text of any size.
pub fn split_up<'a>(origin: &'a str, text: &'a str) -> Vec<Document<'a>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if origin.ends_with(".json") {
        return vec![Document {
            syntax: Syntax::Json,
            ..Document::whole(origin, text)
        }];
    }
    split(origin, text)
}

fn split<'a>(origin: &'a str, text: &'a str) -> Vec<Document<'a>> {
    let mut documents = Vec::new();
    let (mut start, mut lines_before, mut offset) = (0, 0, 0);
    let document = |start: usize, end: usize, lines_before| Document {
        lines_before,
        ..Document::whole(origin, text.get(start..end).unwrap_or_default())
    };
    for (number, line) in (0_u64..).zip(text.split_inclusive('\n')) {
        if behind_marker(line).is_some() && offset > start {
            documents.push(document(start, offset, lines_before));
            start = offset;
            lines_before = number;
        }
        offset += line.len();
    }
    documents.push(document(start, offset, lines_before));
    documents.retain(|document| !document.text.lines().all(is_blank));
    documents
}

/// True for a line without content: white space, a comment, a directive, or a document marker alone.
fn is_blank(line: &str) -> bool {
    let line = behind_marker(line).unwrap_or(line).trim();
    line.is_empty() || line.starts_with(['#', '%'])
}

/// The rest of a line that begins with a document marker, `None` for another line.
fn behind_marker(line: &str) -> Option<&str> {
    let markers = ["---", "..."];
    let rest = markers.into_iter().find_map(|one| line.strip_prefix(one))?;
    (rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n'])).then_some(rest)
}

fn innermost(error: &Error) -> &Error {
    let error = error.without_snippet();
    if let Error::AliasError { error, .. } = error {
        innermost(error)
    } else {
        error
    }
}

fn options(is_large: bool) -> Options {
    let limit = |most: usize| if is_large { usize::MAX } else { most };
    let budget: Option<Budget> = serde_saphyr::budget! {
        max_reader_input_bytes: Some(limit(MAX_BYTES)),
        max_events: limit(2_000_000),
        max_aliases: 1_000,
        max_anchors: 1_000,
        max_depth: MAX_LEVELS,
        flow_nesting_limit: MAX_LEVELS,
        max_nodes: limit(MAX_VALUES),
        max_total_scalar_bytes: limit(MAX_BYTES * 4),
        max_documents: 2,
    };
    serde_saphyr::options! {
        budget: budget,
        duplicate_keys: DuplicateKeyPolicy::Error,
        // An alias bomb is refused long before it costs memory.
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 16,
        },
        // `on` and `yes` are booleans to other readers of the same file.
        strict_booleans: false,
        no_schema: true,
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests;
