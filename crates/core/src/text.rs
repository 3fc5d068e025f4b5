//! Texts that tenants and administrators chose, made fit for a sentence: short, and on one line.

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
