//! What `status` reports of an installation, from what it has seen. PURE: the caller passes the time.

mod installation;
mod registration;
#[cfg(test)]
mod tests;

use jiff::{Timestamp, Unit};
use serde::Serialize;

use self::installation::{injectors, owners, refusals, replicas};

use super::observed::{Known, Observed};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Grade {
    Good,
    /// An administrator should look.
    Finding,
    /// It could not be seen.
    Unknown,
    /// Neither good nor bad.
    Fact,
}

/// One line about one part of the installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    pub(super) part: &'static str,
    pub(super) grade: Grade,
    pub(super) text: String,
}

fn row(part: &'static str, grade: Grade, text: impl Into<String>) -> Row {
    Row {
        part,
        grade,
        text: text.into(),
    }
}

/// A row that is good or a finding.
fn judged(part: &'static str, is_good: bool, text: impl Into<String>) -> Row {
    let grade = if is_good { Grade::Good } else { Grade::Finding };
    row(part, grade, text)
}

/// The rows on what was seen; where it could not be seen, one row that says why.
fn known<T>(part: &'static str, seen: &Known<T>, rows: impl FnOnce(&T) -> Vec<Row>) -> Vec<Row> {
    match seen {
        Ok(seen) => rows(seen),
        Err(why) => vec![row(part, Grade::Unknown, format!("not known: {why:#}"))],
    }
}

/// All rows, the most urgent first.
pub(super) fn report(seen: &Observed) -> Vec<Row> {
    let parts = [
        registration::suspensions(seen),
        known("registration", &seen.registration, |objects| {
            registration::registration(objects, seen)
        }),
        known("replicas", &seen.pods, |pods| replicas(pods, &seen.wanted)),
        known("leader", &seen.leader, |leader| {
            vec![installation::leader(leader.as_ref(), seen.now)]
        }),
        installation::certificates(seen).into(),
        known("injectors", &seen.injectors, |all| injectors(all)),
        known("refusals", &seen.refusals, |all| refusals(all, seen.now)),
        known("owners", &seen.owners, |all| owners(all, seen.now)),
    ];
    parts.into_iter().flatten().collect()
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

/// A time without fractions of a second.
fn time(at: Timestamp) -> String {
    at.round(Unit::Second).unwrap_or(at).to_string()
}
