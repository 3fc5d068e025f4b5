//! The view from a folder of manifests: `serve --standalone DIR`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::cli::output;
use crate::cli::{Done, configuration};
use crate::cluster::Cluster;
use crate::cluster::folder::{self, Folder, Look};
use crate::cluster::live::{Fetch, Live};
use crate::cluster::store::Store;
use crate::server::args::Placement;

use super::front::Front;
use super::{LOOKUP_DEADLINE, ServeArgs, greeting};
use crate::cli::parts::Parts;

/// Serves what the files in `path` describe until it is told to stop.
pub(super) fn run(args: &ServeArgs, path: &Path) -> Done {
    let given = args.config.as_deref().map(configuration).transpose()?;
    let mut folder = Folder::new(path, given, &args.install.namespace);
    let store = folder.open().map_err(|found| problems(&found))?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(serve(args, path, folder, store))
}

/// All that is wrong with a folder, a line each.
pub(in crate::cli) fn problems(problems: &[folder::Problem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    anyhow!("{}", lines.join("\n       "))
}

async fn serve(args: &ServeArgs, path: &Path, folder: Folder, store: Store) -> Done {
    let parts = Parts::new()?;
    let front = Front::bind(args, Placement::Standalone, None)?;
    let view = parts.latches.add("view");
    let cluster = Arc::new(Cluster::new(store));
    cluster.mark_synced();
    view.open();
    let live = Live::new(lookup(path), LOOKUP_DEADLINE);
    let (ready, addresses) = front.wire(&parts, &cluster, live)?;
    let started = greeting::Started {
        certificates: ready.certificates(),
        addresses,
    };
    let text = greeting::standalone::text(path, &folder, &cluster.read(), &started);
    output::print(&text)?;
    let follow = follow(folder, Arc::clone(&cluster), parts.stop.clone());
    parts.tasks.spawn("folder", follow);
    ready.run(parts, cluster).await
}

/// What a live look-up is without a cluster: the files, as they are now.
fn lookup(folder: &Path) -> Fetch {
    let folder = folder.to_owned();
    Arc::new(move |name| {
        let folder = folder.clone();
        let read = tokio::task::spawn_blocking(move || Folder::namespace(&folder, &name));
        let flat = |read: Result<Result<_, folder::Problem>, _>| match read {
            Ok(read) => read.map_err(|problem| problem.to_string()),
            Err(error) => Err(format!("the look-up ended early: {error}")),
        };
        read.map(flat).boxed()
    })
}

/// Follows the files.
async fn follow(mut folder: Folder, cluster: Arc<Cluster>, stop: CancellationToken) {
    let mut looks = tokio::time::interval(folder::INTERVAL);
    let mut last_problem = String::new();
    let mut facts = greeting::standalone::facts(&folder, &cluster.read());
    while stop.run_until_cancelled(looks.tick()).await.is_some() {
        let look = tokio::task::spawn_blocking(move || (folder.look(), folder)).await;
        let Ok((look, same)) = look else { return };
        folder = same;
        report(&look, &mut last_problem);
        if let Some(store) = look.store {
            let before =
                std::mem::replace(&mut facts, greeting::standalone::facts(&folder, &store));
            cluster.replace(store);
            for line in facts.difference(&before) {
                tracing::info!("{line}");
            }
        }
    }
}

fn report(look: &Look, last_problem: &mut String) {
    if !look.read.is_empty() {
        tracing::info!(files = greeting::some(&look.read), "read again");
    }
    if !look.gone.is_empty() {
        tracing::info!(files = greeting::some(&look.gone), "no longer there");
    }
    for kind in &look.ignored {
        tracing::info!(kind, "this kind is not looked at");
    }
    for problem in &look.problems {
        let problem = problem.to_string();
        // Told again to somebody who edits another file and waits for it to count.
        if *last_problem != problem || !look.read.is_empty() {
            tracing::warn!("{problem}; what was read before stays in force");
            *last_problem = problem;
        }
    }
    if look.store.is_some() {
        last_problem.clear();
    }
}
