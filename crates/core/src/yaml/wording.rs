//! The parser's errors in words for people: what was found, what was expected.

use std::fmt;

use serde_saphyr::Error;

use super::{MAX_LEVELS, MAX_VALUES};

/// `true`, `1` or `on` where a text is meant.
pub(crate) fn without_quotes(found: impl fmt::Display) -> String {
    format!("found {found} without quotes, expected a text: write \"{found}\"")
}

/// What is wrong; `rest` is the text of the line from there on.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the parser's own wording is fine elsewhere"
)]
pub(super) fn problem(error: &Error, rest: &str) -> String {
    match error {
        Error::SerdeUnknownField {
            field, expected, ..
        } => format!("unknown key \"{field}\", expected {}", one_of(expected)),
        Error::SerdeUnknownVariant {
            variant, expected, ..
        } => format!("found \"{variant}\", expected {}", one_of(expected)),
        Error::SerdeMissingField { field, .. } => format!("key \"{field}\" is missing here"),
        Error::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("key \"{key}\" is there twice, expected once"),
            None => "a key is there twice, expected once".to_owned(),
        },
        Error::SerdeInvalidType {
            unexpected,
            expected,
            ..
        }
        | Error::SerdeInvalidValue {
            unexpected,
            expected,
            ..
        } => format!("found {}, expected {}", kind(unexpected), kind(expected)),
        Error::QuotingRequired { value, .. } => without_quotes(value),
        Error::Unexpected { expected, .. } => {
            let expected = kind(expected);
            let found = found(rest);
            // A list is reported at its first entry.
            if expected == "a text" && found.starts_with('"') {
                return "found a list, expected a text".to_owned();
            }
            format!("found {found}, expected {expected}")
        }
        Error::InvalidScalar { ty, .. } => {
            format!("found {}, expected {}", found(rest), kind(ty))
        }
        Error::NullIntoString { .. } => "found nothing, expected a text".to_owned(),
        Error::Eof { .. } => "the file ends in the middle of something".to_owned(),
        Error::Budget { .. } => format!(
            "found more in one document than is looked at, expected {MAX_VALUES} values, \
             {MAX_LEVELS} levels and 1000 aliases at most"
        ),
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. } => {
            "found aliases that repeat far more than a person would write, expected the values \
             themselves"
                .to_owned()
        }
        Error::Message { msg, .. } => msg.clone(),
        other => own_words(other),
    }
}

/// The parser's sentence without the place, which a `ParseError` begins with.
fn own_words(error: &Error) -> String {
    let plain = serde_saphyr::render_options! { snippets: serde_saphyr::SnippetMode::Off };
    let text = error.render_with_options(plain);
    let line = text.lines().next().unwrap_or("not YAML");
    without_place(line).replace(
        "recursion limit exceeded",
        &format!("found more than {MAX_LEVELS} levels, expected fewer"),
    )
}

/// What serde_json says, without the place.
pub fn of_json(error: &serde_json::Error) -> String {
    without_place(&error.to_string()).to_owned()
}

fn without_place(message: &str) -> &str {
    message
        .rsplit_once(" at line ")
        .map_or(message, |(problem, _)| problem)
}

fn one_of(expected: &[&str]) -> String {
    match expected {
        [] => "no key".to_owned(),
        [only] => (*only).to_owned(),
        several => format!("one of {}", several.join(", ")),
    }
}

/// A kind of value in words.
fn kind(name: &str) -> &str {
    match name {
        "sequence start" | "sequence" | "seq" => "a list",
        "mapping start" | "mapping" | "map" => "a mapping (KEY: VALUE)",
        "string scalar" | "string" | "scalar" => "a text",
        "boolean" | "bool" => "true or false",
        "unit value" | "null" => "nothing",
        other if other.starts_with("struct ") => "a mapping (KEY: VALUE)",
        other => other,
    }
}

/// What stands at a place, for "found …".
fn found(rest: &str) -> String {
    const LONGEST: usize = 40;
    let ends = |text: &str| text.is_empty() || text.starts_with([' ', '\t', '#']);
    match rest.chars().next() {
        Some('[') => return "a list".to_owned(),
        Some('{') => return "a mapping".to_owned(),
        Some('-') if rest.strip_prefix('-').is_some_and(ends) => return "a list".to_owned(),
        Some('|' | '>') => return "a text".to_owned(),
        _ => {}
    }
    let token = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inner = rest.trim_start_matches(quote);
            inner.split(quote).next().unwrap_or_default()
        }
        _ => {
            let end = rest.find([',', ']', '}']).unwrap_or(rest.len());
            let plain = rest.get(..end).unwrap_or_default();
            plain.split(" #").next().unwrap_or_default().trim()
        }
    };
    if token.contains(": ") || (token.len() > 1 && token.ends_with(':')) {
        return "a mapping".to_owned();
    }
    let token = token.trim_start_matches(':');
    if matches!(token, "" | "~" | "null" | "Null" | "NULL") || token.starts_with('#') {
        return "nothing".to_owned();
    }
    let short: String = token.chars().take(LONGEST).collect();
    let more = if short.len() < token.len() { "…" } else { "" };
    format!("\"{short}{more}\"")
}
