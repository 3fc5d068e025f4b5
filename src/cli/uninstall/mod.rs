//! `meshgate uninstall`: removes what meshgate has written into a cluster at run time.

mod answer;
mod plan;
mod removal;

use std::time::{Duration, Instant};

use anyhow::bail;
use kube::Client;

use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::own_name;
use crate::lifecycle::wall_clock;
use meshgate_core::break_glass::Note;
use meshgate_core::names::CONTROL;

use self::answer::Answer;
use self::removal::{Found, PAUSE};
use super::change::ChangeArgs;
use super::install_namespace::InstallNamespace;
use super::output::{self, Done};
use super::runtime::block_on;

/// The command watches for so long whether a running meshgate writes something again.
const WATCHED: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "First scales the Deployment meshgate-control to 0 replicas and waits for its pods to end: it would write the \
registration again. Then removes, in this order: webhook configurations (pods are no longer held up from then on), policies and \
their bindings, the labels meshgate.io/requires.… of namespaces, meshgate's own Secrets and its Lease, and the ClusterRole that \
owns the rest. Nothing of meshgate needs to run.

Deployments, Services and roles stay: the tool that installed them removes them. --dry-run lists them, with the \
command for it. `helm uninstall` runs this command first, by itself.

Exit codes: 0 nothing is left (--dry-run: nothing is there), 1 something is left, is \
written again, or is there (--dry-run; a running meshgate-control counts), 2 unknown or not allowed."
)]
pub(super) struct UninstallArgs {
    #[command(flatten)]
    install: InstallNamespace,

    /// Only list what would be removed, and what would stay
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) fn run(args: &UninstallArgs) -> Done {
    block_on(uninstall(args))
}

async fn uninstall(args: &UninstallArgs) -> Done {
    let change = &args.change;
    let (client, server) = change.connect().await?;
    let namespace = args.install.namespace.as_str();
    let find = removal::find(&client, namespace);
    let mut answer = Answer {
        found: change.in_time(find).await?,
        is_dry_run: args.dry_run,
        ..Answer::default()
    };
    if args.dry_run {
        let installed = removal::installed(&client, &mut answer.found.unseen);
        answer.installed = change.in_time(installed).await?;
    } else if answer.found.is_any() {
        if !change.is_agreed(&answer.question(&server))? {
            bail!("nothing was removed");
        }
        let deadline = Instant::now() + change.limit();
        let removed = remove(&client, namespace, &mut answer.found, deadline);
        answer.left = Some(change.in_time(removed).await?);
    }
    answer.print(change.output, &server)
}

/// Removes all of it; `found` is then what there was to remove. Returns what is left or comes back.
async fn remove(
    client: &Client,
    namespace: &str,
    found: &mut Found,
    deadline: Instant,
) -> anyhow::Result<Found> {
    if found.control_runs {
        removal::scale_down_control(client, namespace).await?;
        output::note(&format!(
            "scaled Deployment {namespace}/{CONTROL} to 0 replicas"
        ));
    }
    // Also where its scale is zero already: pods of an earlier try may still be ending.
    if let Some(why) = removal::control_may_write(client, namespace, deadline).await? {
        output::note(&format!(
            "{why}; {CONTROL} may write the registration again"
        ));
    }
    // The leader may have written more since the question was asked.
    *found = Found {
        control_runs: found.control_runs,
        ..removal::find(client, namespace).await?
    };
    let left = deadline.saturating_duration_since(Instant::now());
    let (who, until) = (own_name(client).await?, wall_clock().checked_add(left)?);
    let note = Note::new(&who, "meshgate uninstall", until, Vec::new()).to_string();
    let is_owner = |id: &&Id| id.kind == Kind::ClusterRole;
    for id in found.objects.iter().filter(|id| !is_owner(id)) {
        tracing::debug!(object = %id, "removing");
        removal::remove(client, id, &note).await?;
    }
    let mut left = removal::find(client, namespace).await?;
    while left.objects.iter().all(|id| is_owner(&id)) && !left.namespaces.is_empty() {
        let problem = removal::unlabel(client, &left.namespaces).await?;
        if let Some(problem) = problem.filter(|_| Instant::now() + PAUSE >= deadline) {
            return Err(problem.into());
        }
        tokio::time::sleep(PAUSE).await;
        left = removal::find(client, namespace).await?;
    }
    for own in &found.own {
        // The ClusterRole goes all the same: what stays is listed at the end.
        if let Err(problem) = removal::remove_own(client, own).await {
            output::note(&problem.to_string());
        }
    }
    for id in found.objects.iter().filter(is_owner) {
        removal::remove(client, id, &note).await?;
    }
    let watched = Instant::now() + WATCHED;
    loop {
        let left = removal::find(client, namespace).await?;
        if !left.is_empty() || Instant::now() >= watched {
            return Ok(left);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
