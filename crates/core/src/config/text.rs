//! What names, texts and lists may look like.

use std::collections::BTreeSet;

use serde_saphyr::Location;

use crate::text::{MAX_DNS_LABEL, is_dns_label, shown};
use crate::yaml::{List, Placed};

use super::Result;
use super::profile::Resolver;

/// Longest warning, in characters, as the API's documentation asks (kubernetes/api admission/v1 types.go,
/// `warnings`): the API server may cut a longer one.
const MAX_WARNING: usize = 120;

impl Resolver<'_> {
    /// Refuses any text but one.
    pub(super) fn is(&self, found: &Placed<String>, expected: &str) -> Result<()> {
        let problem = format_args!("found \"{}\", expected {expected}", shown(&found.value));
        self.refuse_if(found.value != expected, found.at, problem)
    }

    /// Refuses an empty list. It says nothing, and leaving the key out says so better.
    pub(super) fn not_empty<T>(&self, list: &Placed<Vec<T>>, expected: &str) -> Result<()> {
        let problem = format_args!("found an empty list, expected {expected}");
        self.refuse_if(list.value.is_empty(), list.at, problem)
    }

    /// Refuses more entries than people write.
    pub(super) fn not_above<T>(
        &self,
        list: &Placed<Vec<T>>,
        most: usize,
        noun: &str,
    ) -> Result<()> {
        let found = list.value.len();
        let problem = format_args!("found {found} {noun}s, expected {most} at most");
        self.refuse_if(found > most, list.at, problem)
    }

    /// Refuses a list with no entry, or with more than `most`.
    pub(super) fn count<T>(&self, list: &Placed<Vec<T>>, most: usize, noun: &str) -> Result<()> {
        self.not_empty(list, &format!("one {noun} at least"))?;
        self.not_above(list, most, noun)
    }

    /// A text with something in it, on one line: it becomes part of sentences and of log lines.
    pub(super) fn text(&self, text: String, at: Location, expected: &str) -> Result<String> {
        let problem = format_args!("found an empty text, expected {expected}");
        self.refuse_if(text.trim().is_empty(), at, problem)?;
        let found = format!("\"{}\" with a line break, tab or the like", shown(&text));
        let problem = format_args!("found {found}, expected {expected}");
        self.refuse_if(text.chars().any(char::is_control), at, problem)?;
        Ok(text)
    }

    /// A text with something in it, on one line.
    pub(super) fn filled(&self, text: Placed<String>, expected: &str) -> Result<String> {
        self.text(text.value, text.at, expected)
    }

    /// A list of texts, none empty and none there twice: a text that stands twice is a line that its
    /// author copied and did not change.
    pub(super) fn texts(&self, list: List<String>, expected: &str) -> Result<Vec<String>> {
        self.checked(list, expected, |text| self.filled(text, expected))
    }

    /// The same of a list that may be left out.
    pub(super) fn texts_or_none(
        &self,
        list: Option<List<String>>,
        expected: &str,
    ) -> Result<Vec<String>> {
        list.map_or(Ok(Vec::new()), |list| self.texts(list, expected))
    }

    /// A list of names of namespaces. They need not exist: a configuration may come before its cluster has
    /// them.
    pub(super) fn namespaces(&self, list: List<String>) -> Result<Vec<String>> {
        let expected = "a namespace";
        self.checked(list, expected, |text| self.dns_label(text, "", expected))
    }

    fn checked(
        &self,
        list: List<String>,
        expected: &str,
        check: impl Fn(Placed<String>) -> Result<String>,
    ) -> Result<Vec<String>> {
        self.not_empty(&list, &format!("one entry at least: {expected}"))?;
        let mut seen = BTreeSet::new();
        let mut texts = Vec::with_capacity(list.value.len());
        for text in list.value {
            let at = text.at;
            let text = check(text)?;
            let problem = format_args!("\"{}\" is there twice, expected once", shown(&text));
            self.refuse_if(!seen.insert(text.clone()), at, problem)?;
            texts.push(text);
        }
        Ok(texts)
    }

    /// A text that goes with answers, where the API server bounds its length.
    pub(super) fn sentence(&self, text: Placed<String>) -> Result<String> {
        let at = text.at;
        let text = self.filled(text, "one line of text")?;
        let length = text.chars().count();
        let problem = format_args!("found {length} characters, expected {MAX_WARNING} at most");
        self.refuse_if(length > MAX_WARNING, at, problem)?;
        Ok(text)
    }

    /// The name of an injector: see [`Profile::name`](crate::injector::profile::Profile::name).
    pub(super) fn name(&self, name: Placed<String>) -> Result<String> {
        let expected = "expected 1 to 40 lower case letters, digits and dashes, no dash at an end";
        let problem = format_args!("found name \"{}\", {expected}", shown(&name.value));
        self.refuse_if(!is_dns_label(&name.value, 40), name.at, problem)?;
        Ok(name.value)
    }

    /// A name as Namespaces and Services have them; `placeholder` may stand in it.
    pub(super) fn dns_label(
        &self,
        text: Placed<String>,
        placeholder: &str,
        expected: &str,
    ) -> Result<String> {
        let at = text.at;
        let text = self.filled(text, expected)?;
        let fits = if placeholder.is_empty() {
            is_dns_label(&text, MAX_DNS_LABEL)
        } else {
            is_dns_label(&text.replace(placeholder, "x"), MAX_DNS_LABEL)
        };
        let expected = format!("{expected}: at most 63 lower case letters, digits and dashes");
        let problem = format_args!("found \"{}\", expected {expected}", shown(&text));
        self.refuse_if(!fits, at, problem)?;
        Ok(text)
    }
}

/// The name of a label or annotation: `prefix/name` or `name` (`IsQualifiedName` in kubernetes/apimachinery
/// pkg/util/validation). Upper case passes in the prefix, as the API server folds the keys of annotations
/// before it looks.
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

/// What a label's value can be. The API server stores no other, so that a term with another would
/// never hold.
pub(super) fn is_label_value(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let end = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    value.len() <= 63
        && value.bytes().all(inner)
        && end(value.bytes().next())
        && end(value.bytes().last())
}
