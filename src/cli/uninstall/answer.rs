//! The answer of `uninstall`.

use meshgate_core::names::CONTROL;
use serde_json::{Value, json};

use crate::cli::output::{self, Done, Exit, OutputArgs};

use super::plan::{Installed, ObjectRef};
use super::removal::Found;

#[derive(Default)]
pub(super) struct Answer {
    pub(super) found: Found,
    pub(super) is_dry_run: bool,
    /// What is left of it; `None` where nothing was removed.
    pub(super) left: Option<Found>,
    /// With `--dry-run`: what another tool installed.
    pub(super) installed: Installed,
}

impl Answer {
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
            "dryRun": self.is_dry_run,
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

    /// What the administrator is asked before anything is removed.
    pub(super) fn question(&self, server: &str) -> String {
        if self.found.is_empty() {
            return format!("Scale Deployment {CONTROL} in {server} to 0 replicas?");
        }
        let table = table_of(&self.found);
        format!("{table}Remove all of it from {server}? Pods then start without their sidecars.")
    }

    fn text(&self, server: &str) -> String {
        let (scaled, removed) = if self.is_dry_run {
            ("would be", "Would be removed")
        } else {
            ("was", "Removed")
        };
        let mut text = if self.found.control_runs {
            format!("Deployment {CONTROL} in {server} {scaled} scaled to 0 replicas.\n\n")
        } else {
            String::new()
        };
        if !self.found.is_empty() {
            let table = table_of(&self.found);
            text.push_str(&format!("{removed} from {server}:\n\n{table}"));
        } else if self.found.control_runs {
            text.push_str("There is nothing else to remove.\n");
        } else {
            text.push_str(&format!("meshgate has written nothing into {server}.\n"));
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
        } else if !self.is_dry_run {
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
fn table_of(found: &Found) -> String {
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
