//! What is to be said of an installation, from what was seen of it. PURE: told what time it is.

mod around;
mod observed;
mod registration;
#[cfg(test)]
mod tests;

use jiff::{Timestamp, Unit};
use serde::Serialize;

pub(super) use self::observed::{Injector, Known, Leader, Observed, Pod, Refusal, Said};

/// How good a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Grade {
    /// As it should be.
    Good,
    /// Somebody should look.
    Finding,
    /// It could not be seen.
    Unknown,
    /// Neither good nor bad.
    Fact,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    /// Of what.
    pub(super) part: &'static str,
    /// How good it is.
    pub(super) grade: Grade,
    /// What there is to know.
    pub(super) text: String,
}

/// A row.
fn row(part: &'static str, grade: Grade, text: impl Into<String>) -> Row {
    Row {
        part,
        grade,
        text: text.into(),
    }
}

/// A row on what could not be seen.
fn unknown(part: &'static str, why: &str) -> Row {
    row(part, Grade::Unknown, format!("not known: {why}"))
}

/// All there is to say, what is most urgent first.
pub(super) fn report(seen: &Observed) -> Vec<Row> {
    let mut rows = registration::glass(seen);
    rows.extend(registration::registration(seen));
    rows.extend(around::replicas(seen));
    rows.push(around::leader(seen));
    rows.extend(around::certificates(seen));
    rows.extend(around::injectors(seen));
    rows.extend(around::refusals(seen));
    rows
}

/// A distance in time, as `3m 20s`.
fn span(from: Timestamp, to: Timestamp) -> String {
    let seconds = (to.as_second() - from.as_second()).max(0);
    let parts = [
        (seconds / 86_400, "d"),
        (seconds % 86_400 / 3_600, "h"),
        (seconds % 3_600 / 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let shown = parts.iter().skip(first).take(2);
    let shown = shown.filter(|(count, unit)| *count > 0 || *unit == "s" && first == 3);
    let shown: Vec<String> = shown
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    shown.join(" ")
}

/// A time without parts of a second.
fn time(at: Timestamp) -> String {
    at.round(Unit::Second).unwrap_or(at).to_string()
}
