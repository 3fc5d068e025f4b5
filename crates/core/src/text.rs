//! Texts that tenants and administrators chose: whether they can be names, and made fit for a sentence, short
//! and on one line.

/// Longest value that a sentence repeats, in characters: that of a label.
const LONGEST_VALUE: usize = 63;

/// A value for a sentence.
pub fn shown(value: &str) -> String {
    one_line(value, LONGEST_VALUE)
}

/// The first `longest` characters of a text. Control characters, among them line breaks, become
/// `U+FFFD`: they could forge a log line or move a terminal's cursor.
pub fn one_line(text: &str, longest: usize) -> String {
    let is_long = text.chars().nth(longest).is_some();
    let head = text.chars().take(longest);
    let mut line: String = head
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if is_long {
        line.push('…');
    }
    line
}

/// Longest DNS label, which names of Namespaces and Services are.
pub const MAX_DNS_LABEL: usize = 63;

/// RFC 1123, lower case (`IsDNS1123Label` in kubernetes/apimachinery pkg/util/validation): what the API server
/// accepts as the name of a Namespace. A Service's may be narrower, and a wrong one is then not found.
pub fn is_dns_label(text: &str, longest: usize) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=longest).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}
