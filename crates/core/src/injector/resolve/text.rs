//! What names and texts may look like.

use std::collections::BTreeSet;

use serde_saphyr::Spanned;

use crate::injector::shown;
use crate::yaml::{Document, ParseError};

use super::{Resolver, Result};

/// Longest warning, in characters: more than that and the API server may cut it.
const MAX_WARNING: usize = 120;

impl Resolver<'_, '_> {
    /// The name of an injector.
    pub(super) fn name(&self, name: Spanned<String>) -> Result<String> {
        let text = &name.value;
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=40).contains(&text.len())
            && text.bytes().all(inner)
            && !text.starts_with('-')
            && !text.ends_with('-');
        if fits {
            return Ok(name.value);
        }
        let expected = "expected 1 to 40 lower case letters, digits and dashes, no dash at an end";
        let problem = format!("found name \"{}\", {expected}", shown(text));
        Err(self.error(name.referenced, problem))
    }

    /// A text with something in it.
    pub(super) fn filled(&self, text: Spanned<String>, expected: &str) -> Result<String> {
        filled(self.document, text, expected)
    }

    /// A list of texts, none empty and none there twice.
    pub(super) fn texts(
        &self,
        list: Spanned<Vec<Spanned<String>>>,
        expected: &str,
    ) -> Result<Vec<String>> {
        texts(self.document, list, expected, filled)
    }

    /// One line that the API server will carry.
    pub(super) fn sentence(&self, text: Spanned<String>) -> Result<String> {
        let at = text.referenced;
        let text = self.filled(text, "one line of text")?;
        let length = text.chars().count();
        if length > MAX_WARNING {
            let problem = format!("found {length} characters, expected {MAX_WARNING} at most");
            return Err(self.error(at, problem));
        }
        Ok(text)
    }
}

/// A list of names of namespaces.
pub(in crate::injector) fn namespaces(
    document: &Document<'_>,
    list: Spanned<Vec<Spanned<String>>>,
) -> Result<Vec<String>> {
    texts(document, list, "a namespace", |document, text, expected| {
        dns_label(document, text, "", expected)
    })
}

fn texts(
    document: &Document<'_>,
    list: Spanned<Vec<Spanned<String>>>,
    expected: &str,
    check: impl Fn(&Document<'_>, Spanned<String>, &str) -> Result<String>,
) -> Result<Vec<String>> {
    not_empty(document, &list, &format!("one entry at least: {expected}"))?;
    let mut seen = BTreeSet::new();
    let mut texts = Vec::with_capacity(list.value.len());
    for text in list.value {
        let at = text.referenced;
        let text = check(document, text, expected)?;
        if !seen.insert(text.clone()) {
            let problem = format!("\"{}\" is there twice, expected once", shown(&text));
            return Err(ParseError::new(document, at, problem));
        }
        texts.push(text);
    }
    Ok(texts)
}

/// An empty list says nothing; whoever means nothing leaves the key out.
pub(in crate::injector) fn not_empty<T>(
    document: &Document<'_>,
    list: &Spanned<Vec<T>>,
    expected: &str,
) -> Result<()> {
    if !list.value.is_empty() {
        return Ok(());
    }
    let problem = format!("found an empty list, expected {expected}");
    Err(ParseError::new(document, list.referenced, problem))
}

fn filled(document: &Document<'_>, text: Spanned<String>, expected: &str) -> Result<String> {
    let problem = if text.value.trim().is_empty() {
        format!("found an empty text, expected {expected}")
    } else if text.value.chars().any(char::is_control) {
        let shown = shown(&text.value);
        format!("found \"{shown}\" with a line break, tab or the like, expected {expected}")
    } else {
        return Ok(text.value);
    };
    Err(ParseError::new(document, text.referenced, problem))
}

/// A name as Namespaces and Services have them; `placeholder` may stand in it.
pub(super) fn dns_label(
    document: &Document<'_>,
    text: Spanned<String>,
    placeholder: &str,
    expected: &str,
) -> Result<String> {
    let at = text.referenced;
    let text = filled(document, text, expected)?;
    let stand_in = if placeholder.is_empty() {
        text.clone()
    } else {
        text.replace(placeholder, "x")
    };
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = stand_in.len() <= 63
        && stand_in.bytes().all(inner)
        && !stand_in.starts_with('-')
        && !stand_in.ends_with('-');
    if fits {
        return Ok(text);
    }
    let problem = format!(
        "found \"{}\", expected {expected}: at most 63 lower case letters, digits and dashes",
        shown(&text)
    );
    Err(ParseError::new(document, at, problem))
}

/// The name of a label or annotation: `prefix/name` or `name`.
pub(super) fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_prefix = |prefix: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
        (1..=253).contains(&prefix.len()) && prefix.bytes().all(inner)
    };
    prefix.is_none_or(is_prefix) && !name.is_empty() && is_label_value(name)
}

/// What a label's value can be; any other one is never met.
pub(super) fn is_label_value(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let end = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    value.len() <= 63
        && value.bytes().all(inner)
        && end(value.bytes().next())
        && end(value.bytes().last())
}
