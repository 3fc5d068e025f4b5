//! What is said of a folder of manifests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::cluster::manifest::dir::ManifestDir;
use crate::cluster::store::Store;

use super::{Lines, Started, counts, excluded, plural, quoted, state_lines, states_table, url};

/// All of it.
pub(in crate::cli::serve) fn text(
    path: &Path,
    folder: &ManifestDir,
    store: &Store,
    started: &Started<'_>,
) -> String {
    let mut lines = Lines::default();
    lines.push("read", &read(folder, store));
    lines.push("injectors", &injectors(folder, store));
    lines.push("excluded", &excluded(store));
    for note in notes(store) {
        lines.push("note", &note);
    }
    lines.push_started(started);
    let ca = started.certificates.ca_path();
    let (verb, review) = match review(path) {
        Some(review) => ("Try", review),
        None => ("Send an AdmissionReview", PathBuf::from("REVIEW.json")),
    };
    format!(
        "meshgate {} answers for the cluster in {}\n\n{}\n{}\n\
         {verb}, in another terminal:\n\n  curl --cacert {} -H 'Content-Type: application/json' \\\n    \
         --data @{} https://{}/mutate/pods\n\n",
        env!("CARGO_PKG_VERSION"),
        path.display(),
        lines.0,
        states_table(store),
        quoted(ca.unwrap_or_else(|| Path::new("CA.crt"))),
        quoted(&review),
        url(started.addresses.admission),
    )
}

/// Lines that tell, by what is new in them, what a change has changed.
pub(in crate::cli::serve) fn facts(folder: &ManifestDir, store: &Store) -> BTreeSet<String> {
    let mut facts = state_lines(store);
    facts.insert(format!("injectors: {}", injectors(folder, store)));
    facts.insert(format!("excluded namespaces: {}", excluded(store)));
    facts.extend(notes(store));
    facts
}

fn notes(store: &Store) -> Vec<String> {
    if store.counts().iter().all(|(_, count)| *count == 0) {
        let note = "no object was found: expected *.yaml, *.yml or *.json files directly in the \
                    folder";
        return vec![note.to_owned()];
    }
    super::notes(store)
}

fn read(folder: &ManifestDir, store: &Store) -> String {
    let mut text = plural(folder.files().count(), "file");
    text.push_str(": ");
    text.push_str(&counts(store));
    let ignored = folder.ignored();
    if !ignored.is_empty() {
        let kinds: Vec<String> = ignored
            .iter()
            .map(|(kind, count)| plural(*count, kind))
            .collect();
        text.push_str(&format!("; not looked at: {}", kinds.join(", ")));
    }
    text
}

fn injectors(folder: &ManifestDir, store: &Store) -> String {
    match folder.configuration_origin() {
        Some(origin) => super::injectors(store, &format!("by {origin}")),
        None => super::injectors(store, "no Configuration was found: all presets"),
    }
}

/// A review to try: one of those beside the folder.
fn review(folder: &Path) -> Option<PathBuf> {
    let beside = match folder.parent() {
        Some(parent) if folder.file_name().is_some() => parent.join("reviews"),
        Some(_) | None => folder.join("../reviews"),
    };
    let entries = std::fs::read_dir(beside).ok()?.flatten();
    let files = entries.map(|entry| entry.path());
    files
        .filter(|file| file.extension().is_some_and(|end| end == "json"))
        .min()
}
