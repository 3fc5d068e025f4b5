//! The answer of `break-glass`.

use serde::Serialize;

use crate::cli::output::{self, Done, Exit, OutputArgs};
use crate::kube_api::kind::Id;
use meshgate_core::break_glass::Note;
use meshgate_core::break_glass::suspend::Suspended;

use super::objects::Seen;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    /// `open`, `closed`, or `unchanged` where nothing could be opened.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// Objects that were written.
    changed: Vec<String>,
    /// Entries and bindings that refuse no pod now.
    off: Vec<String>,
    /// Entries that now require other injectors only.
    only_for_others: Vec<String>,
    /// Entries that still require the injector.
    still_asking: Vec<String>,
    pub(super) problems: Vec<String>,
}

impl Answer {
    pub(super) fn of(seen: &Seen, note: Option<&Note>) -> Self {
        Self {
            state: if note.is_some() { "open" } else { "closed" },
            note: note.map(ToString::to_string),
            until: note
                .and_then(|note| note.until)
                .map(|until| until.to_string()),
            problems: seen.problems.iter().map(ToString::to_string).collect(),
            ..Self::default()
        }
    }

    pub(super) fn changed(&mut self, id: &Id, change: Suspended) {
        self.changed.push(id.to_string());
        self.off.extend(change.off);
        self.only_for_others.extend(change.others);
        self.still_asking.extend(change.shared);
    }

    pub(super) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    fn exit(&self) -> Exit {
        if !self.problems.is_empty() {
            Exit::CannotTell
        } else if self.is_changed() && self.still_asking.is_empty() {
            Exit::Fine
        } else {
            Exit::Findings
        }
    }

    pub(super) fn print(mut self, output: OutputArgs) -> Done {
        if self.note.is_some() && !self.is_changed() {
            self.state = "unchanged";
        }
        output.print(&self, || self.text())?;
        Ok(self.exit())
    }

    /// What was done. A reader who stops here must not think that it was more.
    fn sentence(&self) -> String {
        let is_all = self.problems.is_empty();
        let sentence = match (&self.note, self.is_changed()) {
            (Some(note), true) => {
                let but = if is_all { "" } else { ", but not everywhere" };
                output::bad(&format!("ENFORCEMENT IS SUSPENDED{but}: {note}"))
            }
            (Some(_), false) if is_all => {
                "Nothing was switched off: there is no registration.".to_owned()
            }
            (Some(_), false) => "Nothing was switched off.".to_owned(),
            (None, true) if is_all => "Enforcement resumed: everything is as it was.".to_owned(),
            (None, true) => "Enforcement resumed, but not everywhere.".to_owned(),
            (None, false) if is_all => "Enforcement was not suspended.".to_owned(),
            (None, false) => "Nothing was put back.".to_owned(),
        };
        sentence + "\n"
    }

    fn text(&self) -> String {
        let mut text = self.sentence();
        let mut table = output::table(&[]);
        let rows = [
            ("changed", &self.changed),
            ("off", &self.off),
            ("requires others only", &self.only_for_others),
            ("still requires it", &self.still_asking),
            ("PROBLEM", &self.problems),
        ];
        for (what, names) in rows {
            for name in names {
                table.add_row([what, name.as_str()]);
            }
        }
        text.push_str(&output::indented(&table));
        if self.note.is_some() && self.is_changed() {
            text.push_str(
                "meshgate control resumes enforcement at that time. If none runs, or sooner: meshgate break-glass --close\n",
            );
        }
        text
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
