//! What `uninstall` says that it did, or would do.

use serde::Serialize;

use crate::cli::Done;
use crate::cli::output::{self, Exit, Format};
use crate::controllers::removal::Found;
use crate::controllers::removal::installation::{Installation, Piece};
use crate::kube_api::kind::Id;

use super::{UninstallArgs, Whole};

/// The answer for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    dry_run: bool,
    objects: Vec<Object>,
    namespaces: Vec<String>,
    left: Vec<Object>,
    left_namespaces: Vec<String>,
    /// What could not be looked for, and why.
    unseen: Vec<String>,
    /// Our namespace, where it is not ours to remove.
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign_namespace: Option<String>,
    /// It was listed already, to ask.
    #[serde(skip)]
    pub(super) is_listed: bool,
}

#[derive(Debug, Serialize)]
struct Object {
    kind: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
}

impl Answer {
    /// What was found, and what is left of it; without the latter nothing was removed.
    pub(super) fn of(found: &Whole, left: Option<&Whole>) -> Self {
        let nothing = Whole::default();
        let rest = left.unwrap_or(&nothing);
        let seen = left.unwrap_or(found);
        Self {
            dry_run: left.is_none(),
            objects: objects(&found.registration, &found.installation),
            namespaces: found.registration.namespaces.clone(),
            left: objects(&rest.registration, &rest.installation),
            left_namespaces: rest.registration.namespaces.clone(),
            unseen: seen.installation.unseen.clone(),
            foreign_namespace: found.installation.foreign_home.clone(),
            is_listed: false,
        }
    }

    fn has_found(&self) -> bool {
        !self.objects.is_empty() || !self.namespaces.is_empty()
    }

    fn is_left(&self) -> bool {
        !self.left.is_empty() || !self.left_namespaces.is_empty()
    }

    fn exit(&self) -> Exit {
        let is_there = match self.dry_run {
            true => self.has_found(),
            false => self.is_left(),
        };
        match (is_there, self.unseen.is_empty()) {
            (true, _) => Exit::Findings,
            (false, false) => Exit::CannotTell,
            (false, true) => Exit::Fine,
        }
    }

    pub(super) fn print(&self, args: &UninstallArgs, server: &str) -> Done {
        match args.output {
            Format::Table => output::print(&self.text(server))?,
            Format::Json | Format::Yaml => output::print_value(args.output, self)?,
        }
        Ok(self.exit())
    }

    fn text(&self, server: &str) -> String {
        let found = table(&self.objects, &self.namespaces);
        let mut text = match (self.has_found(), self.dry_run, self.is_listed) {
            (false, ..) => format!("Nothing of meshgate is in {server}.\n"),
            (_, true, _) => format!("Would be removed from {server}:\n\n{found}"),
            (_, false, true) => "Removed.\n".to_owned(),
            (_, false, false) => format!("Removed from {server}:\n\n{found}"),
        };
        if self.is_left() {
            text.push_str(&format!(
                "\nStill there, or there again: is a meshgate running? Stop it, and run this once more.\n\n{}",
                table(&self.left, &self.left_namespaces)
            ));
        }
        if let Some(namespace) = self.foreign_namespace.as_ref().filter(|_| self.has_found()) {
            text.push_str(&format!(
                "\nNamespace {namespace} stays: it has no label app.kubernetes.io/part-of=meshgate.\n"
            ));
        }
        let home = self.objects.iter().find(|one| one.kind == "Namespace");
        if let Some(home) = home.filter(|_| !self.dry_run && !self.is_left()) {
            let name = &home.name;
            text.push_str(&format!(
                "\nNamespace {name} is on its way; nothing can be installed in it before it is gone: kubectl \
                 wait --for=delete namespace/{name}\n"
            ));
        }
        for problem in &self.unseen {
            text.push_str(&format!("\nNot looked for: {problem}\n"));
        }
        text
    }
}

/// What there is, as a table.
pub(super) fn listed(found: &Whole) -> String {
    let objects = objects(&found.registration, &found.installation);
    table(&objects, &found.registration.namespaces)
}

fn objects(registration: &Found, installation: &Installation) -> Vec<Object> {
    let of_registration = registration.objects.iter().map(|id: &Id| Object {
        kind: id.kind.names().kind,
        namespace: String::new(),
        name: id.name.clone(),
    });
    let of_installation = installation.pieces.iter().map(|piece: &Piece| Object {
        kind: piece.sort.kind,
        namespace: piece.namespace.clone(),
        name: piece.name.clone(),
    });
    of_registration.chain(of_installation).collect()
}

fn table(objects: &[Object], labelled: &[String]) -> String {
    let mut table = output::table(&["KIND", "NAME", "NAMESPACE"]);
    for object in objects {
        table.add_row([object.kind, object.name.as_str(), object.namespace.as_str()]);
    }
    for namespace in labelled {
        table.add_row(["Namespace (labels)", namespace, ""]);
    }
    output::indented(&table)
}
