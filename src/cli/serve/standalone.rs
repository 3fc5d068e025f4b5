//! The view from a directory of manifests: `serve --standalone DIR`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt;
use meshgate_core::list::listed;
use tokio_util::sync::CancellationToken;

use crate::cli::output::{self, Done, plural};
use crate::cli::runtime::{Runtime, block_on};
use crate::cli::sources;
use crate::cluster::Cluster;
use crate::cluster::manifest::dir::{INTERVAL, Look, ManifestDir, Problem};
use crate::cluster::namespace_lookup::Fetch;
use crate::cluster::store::Store;
use crate::server::args::Placement;
use crate::server::probe::reachable;

use super::ServeArgs;
use super::banner::{self, Lines};
use super::certificates::Certificates;
use super::listeners::{Listeners, Ready};

/// Serves what the files in `path` describe until a signal tells it to stop.
pub(super) fn run(args: &ServeArgs, path: &Path) -> Done {
    let given = sources::configuration_if_given(args.config.as_deref())?;
    let mut directory = ManifestDir::new(path, given, &args.install.namespace);
    let store = sources::open(&mut directory)?;
    block_on(serve(args, path, directory, store))
}

async fn serve(args: &ServeArgs, path: &Path, directory: ManifestDir, store: Store) -> Done {
    let runtime = Runtime::new()?;
    let listeners = Listeners::bind(args, Placement::Standalone, None)?;
    let view = runtime.checks.add("view");
    let cluster = Arc::new(Cluster::new(store));
    cluster.mark_synced();
    view.pass();
    let ready = listeners.wire(&runtime, &cluster, lookup(path))?;
    let text = text(path, &directory, &cluster.read(), &ready);
    output::print(&text)?;
    let follow = follow(directory, Arc::clone(&cluster), runtime.stop.clone());
    runtime.tasks.spawn("folder", follow);
    ready.run(runtime, cluster).await
}

/// Without a cluster, a live look-up reads the files as they are now.
fn lookup(directory: &Path) -> Fetch {
    let directory = directory.to_owned();
    Arc::new(move |name| {
        let directory = directory.clone();
        let read = tokio::task::spawn_blocking(move || ManifestDir::namespace(&directory, &name));
        let flat = |read: Result<Result<_, Problem>, _>| match read {
            Ok(read) => read.map_err(|problem| problem.to_string()),
            Err(error) => Err(format!("the look-up ended early: {error}")),
        };
        read.map(flat).boxed()
    })
}

/// Follows the files, and logs what their changes change.
async fn follow(mut directory: ManifestDir, cluster: Arc<Cluster>, stop: CancellationToken) {
    let mut looks = tokio::time::interval(INTERVAL);
    let mut last_problem = String::new();
    let mut before = facts(&directory, &cluster.read());
    while stop.run_until_cancelled(looks.tick()).await.is_some() {
        let look = tokio::task::spawn_blocking(move || (directory.look(), directory)).await;
        let Ok((look, same)) = look else { return };
        directory = same;
        report(&look, &mut last_problem);
        if let Some(store) = look.store {
            let now = facts(&directory, &store);
            cluster.replace(store);
            for line in now.difference(&before) {
                tracing::info!("{line}");
            }
            before = now;
        }
    }
}

fn report(look: &Look, last_problem: &mut String) {
    if !look.read.is_empty() {
        tracing::info!(files = some(&look.read), "read again");
    }
    if !look.gone.is_empty() {
        tracing::info!(files = some(&look.gone), "no longer there");
    }
    for kind in &look.ignored {
        tracing::info!(kind, "meshgate does not look at this kind");
    }
    for problem in &look.problems {
        let problem = problem.to_string();
        // Repeated when another file changes: its author waits for the change to count.
        if *last_problem != problem || !look.read.is_empty() {
            tracing::warn!("{problem}; what was read before stays in force");
            *last_problem = problem;
        }
    }
    if look.store.is_some() {
        last_problem.clear();
    }
}

/// The first names of a list, and how many more there are.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let (shown, more) = names.split_at(names.len().min(SHOWN));
    let shown = shown.join(", ");
    match more.len() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The start-up lines.
fn text(path: &Path, directory: &ManifestDir, store: &Store, server: &Ready) -> String {
    let mut lines = Lines::default();
    lines.push("read", &read(directory, store));
    lines.push("injectors", &injectors(directory, store));
    lines.push("excluded", &banner::excluded(store));
    lines.push_notes(&notes(store));
    lines.push_server(server);
    let ca = match &server.certificates {
        Certificates::Files(files) => files.ca_path.as_deref(),
        Certificates::Secret(_) => None,
    };
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
        banner::states_table(store),
        quoted(ca.unwrap_or_else(|| Path::new("CA.crt"))),
        quoted(&review),
        reachable(server.server.address),
    )
}

/// Lines about the view. After a change, the lines that are new tell what has changed.
fn facts(directory: &ManifestDir, store: &Store) -> BTreeSet<String> {
    let mut facts = banner::state_lines(store);
    facts.insert(format!("injectors: {}", injectors(directory, store)));
    facts.insert(format!("excluded namespaces: {}", banner::excluded(store)));
    facts.extend(notes(store));
    facts
}

fn notes(store: &Store) -> Vec<String> {
    if store.counts().iter().all(|(_, count)| *count == 0) {
        let note = "no object was found: expected *.yaml, *.yml or *.json files directly in the \
                    directory";
        return vec![note.to_owned()];
    }
    banner::notes(store)
}

fn read(directory: &ManifestDir, store: &Store) -> String {
    let files = plural(directory.files().count(), "file");
    let counts = banner::counts(store);
    let ignored = directory.ignored();
    if ignored.is_empty() {
        return format!("{files}: {counts}");
    }
    let kinds = ignored.iter().map(|(kind, count)| plural(*count, kind));
    format!("{files}: {counts}; not looked at: {}", listed(kinds))
}

fn injectors(directory: &ManifestDir, store: &Store) -> String {
    match directory.configuration_origin() {
        Some(origin) => banner::injectors(store, &format!("by {origin}")),
        None => banner::injectors(store, "no Configuration was found: all presets"),
    }
}

/// A review to try: one of those beside the directory.
fn review(directory: &Path) -> Option<PathBuf> {
    let beside = match directory.parent() {
        Some(parent) if directory.file_name().is_some() => parent.join("reviews"),
        Some(_) | None => directory.join("../reviews"),
    };
    let entries = std::fs::read_dir(beside).ok()?.flatten();
    let files = entries.map(|entry| entry.path());
    files
        .filter(|file| file.extension().is_some_and(|end| end == "json"))
        .min()
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    if text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
