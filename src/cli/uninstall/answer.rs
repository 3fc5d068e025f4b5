//! The answer of `uninstall`.

use serde::Serialize;

use crate::cli::output::{self, Done, Exit, OutputArgs};

use super::plan::{Installed, ObjectRef};
use super::removal::{CONTROL, Found};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    dry_run: bool,
    objects: Vec<ObjectRef>,
    namespaces: Vec<String>,
    left: Vec<ObjectRef>,
    left_namespaces: Vec<String>,
    /// What could not be read, and why.
    unseen: Vec<String>,
    /// With `--dry-run`: what another tool installed, and the commands that remove it.
    installed: Vec<ObjectRef>,
    commands: Vec<String>,
    /// The Deployment of `meshgate control` has to be scaled to zero first.
    control_runs: bool,
}

impl Answer {
    /// Of a dry run.
    pub(super) fn would(found: Found, installed: Installed) -> Self {
        Self {
            dry_run: true,
            objects: objects(&found),
            namespaces: found.namespaces,
            left: Vec::new(),
            left_namespaces: Vec::new(),
            unseen: found.unseen,
            commands: installed.commands(),
            installed: installed.objects,
            control_runs: found.control_runs,
        }
    }

    /// What was found, and what is left of it.
    pub(super) fn done(found: Found, left: Found) -> Self {
        Self {
            dry_run: false,
            left: objects(&left),
            left_namespaces: left.namespaces,
            unseen: left.unseen,
            ..Self::would(found, Installed::default())
        }
    }

    fn has_found(&self) -> bool {
        !self.objects.is_empty() || !self.namespaces.is_empty()
    }

    fn is_left(&self) -> bool {
        !self.left.is_empty() || !self.left_namespaces.is_empty()
    }

    fn exit(&self) -> Exit {
        let is_there = if self.dry_run {
            self.has_found()
        } else {
            self.is_left()
        };
        if is_there {
            Exit::Findings
        } else if self.unseen.is_empty() {
            Exit::Fine
        } else {
            Exit::CannotTell
        }
    }

    pub(super) fn print(&self, output: OutputArgs, server: &str) -> Done {
        output.print(self, || self.text(server))?;
        Ok(self.exit())
    }

    fn text(&self, server: &str) -> String {
        let found = table(&self.objects, &self.namespaces);
        let mut text = if !self.has_found() {
            format!("meshgate has written nothing into {server}.\n")
        } else if self.dry_run {
            format!("Would be removed from {server}:\n\n{found}")
        } else {
            format!("Removed from {server}:\n\n{found}")
        };
        if self.dry_run && self.control_runs {
            text.push_str(&format!(
                "\nFirst, Deployment {CONTROL} would be scaled to 0 replicas.\n"
            ));
        }
        if self.is_left() {
            text.push_str(&format!(
                "\nStill there, or written again by a running meshgate. Stop it, and run this once more.\n\n{}",
                table(&self.left, &self.left_namespaces)
            ));
        }
        if !self.installed.is_empty() {
            text.push_str(&format!(
                "\nWould stay, since another tool installed it:\n\n{}\nTo remove it afterwards:\n\n  {}\n",
                table(&self.installed, &[]),
                self.commands.join("\n  ")
            ));
        } else if !self.dry_run {
            text.push_str(
                "\nWhat helm or kubectl installed stays. `meshgate uninstall --dry-run` lists it, with the \
                 command that removes it.\n",
            );
        }
        for problem in &self.unseen {
            text.push_str(&format!("\nNot known: {problem}\n"));
        }
        text
    }
}

/// What was found, as a table.
pub(super) fn listed(found: &Found) -> String {
    table(&objects(found), &found.namespaces)
}

fn objects(found: &Found) -> Vec<ObjectRef> {
    let registered = found.objects.iter().map(|id| ObjectRef {
        kind: id.kind.as_str(),
        namespace: String::new(),
        name: id.name.clone(),
    });
    registered.chain(found.own.iter().cloned()).collect()
}

fn table(objects: &[ObjectRef], labelled: &[String]) -> String {
    let mut table = output::table(&["KIND", "NAME", "NAMESPACE"]);
    for object in objects {
        table.add_row([object.kind, object.name.as_str(), object.namespace.as_str()]);
    }
    for namespace in labelled {
        table.add_row(["Namespace (labels)", namespace, ""]);
    }
    output::indented(&table)
}
