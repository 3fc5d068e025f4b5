//! What `break-glass` says that it did.

use serde::Serialize;

use crate::cli::Done;
use crate::cli::output::{self, Exit, Format};
use crate::controllers::glass::Seen;
use crate::break_glass::Note;
use crate::break_glass::suspend::Suspended;
use crate::kube_api::CallError;
use crate::kube_api::kind::Id;

/// The answer for programs.
#[derive(Debug, Serialize)]
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
    /// Entries and bindings that refuse nobody now.
    off: Vec<String>,
    /// Entries that ask for other injectors alone now.
    only_for_others: Vec<String>,
    /// Entries that still ask for the injector.
    still_asking: Vec<String>,
    problems: Vec<String>,
}

impl Answer {
    pub(super) fn of(seen: &Seen, note: Option<&Note>) -> Self {
        Self {
            state: if note.is_some() { "open" } else { "closed" },
            note: note.map(ToString::to_string),
            until: note
                .and_then(|note| note.until)
                .map(|until| until.to_string()),
            changed: Vec::new(),
            off: Vec::new(),
            only_for_others: Vec::new(),
            still_asking: Vec::new(),
            problems: seen.problems.iter().map(ToString::to_string).collect(),
        }
    }

    pub(super) fn opened(&mut self, id: &Id, opened: Suspended) {
        self.changed.push(id.to_string());
        self.off.extend(opened.off);
        self.only_for_others.extend(opened.others);
        self.still_asking.extend(opened.shared);
    }

    pub(super) fn closed(&mut self, id: &Id) {
        self.changed.push(id.to_string());
    }

    pub(super) fn problem(&mut self, problem: &CallError) {
        self.problems.push(problem.to_string());
    }

    pub(super) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    fn exit(&self) -> Exit {
        match (
            self.problems.is_empty(),
            self.is_changed() && self.still_asking.is_empty(),
        ) {
            (false, _) => Exit::CannotTell,
            (true, true) => Exit::Fine,
            (true, false) => Exit::Findings,
        }
    }

    pub(super) fn print(mut self, format: Format) -> Done {
        if self.note.is_some() && !self.is_changed() {
            self.state = "unchanged";
        }
        match format {
            Format::Table => output::print(&self.text())?,
            Format::Json | Format::Yaml => output::print_value(format, &self)?,
        }
        Ok(self.exit())
    }

    /// What was done, in a sentence; whoever reads no further must not think that it was more.
    fn sentence(&self) -> String {
        let is_all = self.problems.is_empty();
        match (&self.note, self.is_changed()) {
            (Some(note), true) if is_all => {
                output::bad(&format!("THE GLASS IS BROKEN: {note}")) + "\n"
            }
            (Some(note), true) => {
                let text = format!("THE GLASS IS BROKEN, but not everywhere: {note}");
                output::bad(&text) + "\n"
            }
            (Some(_), false) if is_all => {
                "Nothing was switched off: nothing of it is registered.\n".to_owned()
            }
            (Some(_), false) => "Nothing was switched off.\n".to_owned(),
            (None, true) if is_all => "The glass is closed: everything is as it was.\n".to_owned(),
            (None, true) => "The glass is closed, but not everywhere.\n".to_owned(),
            (None, false) if is_all => "Nothing was open.\n".to_owned(),
            (None, false) => "Nothing was closed.\n".to_owned(),
        }
    }

    fn text(&self) -> String {
        let mut text = self.sentence();
        let mut table = output::table(&[]);
        let rows = [
            ("changed", &self.changed),
            ("off", &self.off),
            ("asks for others only", &self.only_for_others),
            ("still asks for it", &self.still_asking),
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
                "meshgate control closes it at that time. If none runs, or sooner: meshgate break-glass --close\n",
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube_api::kind::Kind;

    fn sentence(note: Option<&str>, changed: usize, problems: usize) -> String {
        let note = note.and_then(Note::parse);
        let mut answer = Answer::of(&Seen::default(), note.as_ref());
        let id = Id {
            kind: Kind::MutatingWebhooks,
            name: "a".to_owned(),
        };
        (0..changed).for_each(|_| answer.closed(&id));
        let what = "alice may not".to_owned();
        (0..problems).for_each(|_| answer.problem(&CallError::Deadline { what: what.clone() }));
        answer.sentence()
    }

    #[test]
    fn nothing_is_said_to_be_done_that_was_not() {
        let note = Some("alice: x");
        for (note, changed, problems, expected) in [
            (note, 1, 0, "THE GLASS IS BROKEN: alice: x"),
            (note, 1, 1, "THE GLASS IS BROKEN, but not everywhere"),
            (note, 0, 0, "nothing of it is registered"),
            (note, 0, 1, "Nothing was switched off.\n"),
            (None, 1, 0, "everything is as it was"),
            (None, 1, 1, "closed, but not everywhere"),
            (None, 0, 0, "Nothing was open"),
            (None, 0, 1, "Nothing was closed.\n"),
        ] {
            let found = sentence(note, changed, problems);
            assert!(found.contains(expected), "{expected}: {found}");
        }
    }
}
