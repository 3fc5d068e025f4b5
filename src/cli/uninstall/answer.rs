//! The answer of `uninstall`.

use meshgate_core::names::CONTROL;
use serde_json::{Value, json};

use crate::cli::output::{self, Done, Exit, OutputArgs};

use super::plan::{Installed, ObjectRef};
use super::removal::Found;

pub(super) struct Answer {
    pub(super) found: Found,
    /// What is left of it; `None` where nothing was removed.
    pub(super) left: Option<Found>,
    /// With `--dry-run`: what another tool installed.
    pub(super) installed: Installed,
}

impl Answer {
    /// Before anything is removed.
    pub(super) fn of(found: Found) -> Self {
        Self {
            found,
            left: None,
            installed: Installed::default(),
        }
    }

    /// What could not be read at the end, and why.
    fn unseen(&self) -> &[String] {
        &self.left.as_ref().unwrap_or(&self.found).unseen
    }

    fn exit(&self) -> Exit {
        let is_there = match &self.left {
            None => self.found.is_any(),
            Some(left) => !left.is_empty(),
        };
        if is_there {
            Exit::Findings
        } else if self.unseen().is_empty() {
            Exit::Fine
        } else {
            Exit::CannotTell
        }
    }

    fn json(&self) -> Value {
        let left = self.left.as_ref();
        json!({
            "dryRun": left.is_none(),
            "objects": objects(&self.found),
            "namespaces": namespaces(&self.found),
            "left": left.map(objects).unwrap_or_default(),
            "leftNamespaces": left.map(namespaces).unwrap_or_default(),
            "unseen": self.unseen(),
            "installed": self.installed.objects,
            "commands": self.installed.commands(),
            "controlRuns": self.found.control_runs,
        })
    }

    pub(super) fn print(&self, output: OutputArgs, server: &str) -> Done {
        output.print(&self.json(), || self.text(server))?;
        Ok(self.exit())
    }

    fn text(&self, server: &str) -> String {
        let found = table_of(&self.found);
        let is_dry_run = self.left.is_none();
        let mut text = if self.found.is_empty() {
            format!("meshgate has written nothing into {server}.\n")
        } else if is_dry_run {
            format!("Would be removed from {server}:\n\n{found}")
        } else {
            format!("Removed from {server}:\n\n{found}")
        };
        if is_dry_run && self.found.control_runs {
            text.push_str(&format!(
                "\nFirst, Deployment {CONTROL} would be scaled to 0 replicas.\n"
            ));
        }
        if let Some(left) = self.left.as_ref().filter(|left| !left.is_empty()) {
            text.push_str(&format!(
                "\nStill there, or written again by a running meshgate. Stop it, and run this once more.\n\n{}",
                table_of(left)
            ));
        }
        if !self.installed.objects.is_empty() {
            text.push_str(&format!(
                "\nWould stay, since another tool installed it:\n\n{}\nTo remove it afterwards:\n\n  {}\n",
                table(&self.installed.objects, &[]),
                self.installed.commands().join("\n  ")
            ));
        } else if !is_dry_run {
            text.push_str(
                "\nWhat helm or kubectl installed stays. `meshgate uninstall --dry-run` lists it, with the \
                 command that removes it.\n",
            );
        }
        for problem in self.unseen() {
            text.push_str(&format!("\nNot known: {problem}\n"));
        }
        text
    }
}

fn objects(found: &Found) -> Vec<ObjectRef> {
    let registered = found.objects.iter();
    let registered = registered.map(|id| ObjectRef::new(id.kind.as_str(), "", &id.name));
    registered.chain(found.own.iter().cloned()).collect()
}

fn namespaces(found: &Found) -> Vec<&str> {
    found.namespaces.keys().map(String::as_str).collect()
}

/// What was found, as a table.
pub(super) fn table_of(found: &Found) -> String {
    table(&objects(found), &namespaces(found))
}

fn table(objects: &[ObjectRef], labelled: &[&str]) -> String {
    let mut table = output::table(&["KIND", "NAME", "NAMESPACE"]);
    for object in objects {
        table.add_row([object.kind, object.name.as_str(), object.namespace.as_str()]);
    }
    for namespace in labelled {
        table.add_row(["Namespace (labels)", namespace, ""]);
    }
    output::indented(&table)
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
