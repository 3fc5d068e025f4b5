//! `meshgate uninstall`: takes away an installation with all that it has written into a cluster.

mod answer;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kube::Client;

use crate::controllers::removal::installation::{self, Extent, Installation};
use crate::controllers::removal::{self, Found};
use crate::kube_api::client;
use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::own_name;

use self::answer::Answer;
use super::output::{self, Format};
use super::{Done, cluster_config};

/// How long it is watched whether somebody puts things back.
const WATCHED: Duration = Duration::from_secs(2);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Arguments of `uninstall`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Removes, in this order: the Deployments (what writes the registration must not write it again), webhook \
configurations (pods are no longer held up from then on), policies and their bindings, the labels \
meshgate.io/requires.… of namespaces, the ClusterRole that owns the rest; then everything with the label \
app.kubernetes.io/part-of=meshgate in meshgate's namespace, its roles and bindings anywhere, what Helm \
keeps of its release, and the namespace, if it has that label too. Nothing of meshgate needs to run.

With --registration-only, as the chart's hook before a deletion does it: stops what writes the registration, and \
removes that with the labels, Secrets and Lease that meshgate has made; whatever came with the chart \
is left to it.

Exit codes: 0 nothing of it is left (or, with --dry-run, nothing is there), 1 something is left, \
is put back, or is there (--dry-run), 2 could not tell or was not allowed to."
)]
pub(super) struct UninstallArgs {
    /// Whose cluster [default: as kubectl finds it, else the pod's own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// meshgate's own namespace
    #[arg(
        long,
        value_name = "NAME",
        env = "MESHGATE_NAMESPACE",
        default_value = "meshgate-system"
    )]
    namespace: String,

    /// Leave what a chart or a manifest has brought, but for the Deployment that writes the registration
    #[arg(long)]
    registration_only: bool,

    /// Only say what there is
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,

    /// Form of the answer
    #[arg(long, short, value_enum, default_value = "table")]
    output: Format,
}

/// What there is.
#[derive(Debug, Default)]
struct Whole {
    registration: Found,
    installation: Installation,
}

impl Whole {
    fn is_empty(&self) -> bool {
        self.registration.is_empty() && self.installation.pieces.is_empty()
    }
}

pub(super) fn run(args: &UninstallArgs) -> Done {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(uninstall(args))
}

/// Sets a limit to what the API server takes; whoever is asked something may think about it.
async fn in_time<T>(
    args: &UninstallArgs,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    match tokio::time::timeout(Duration::from_secs(args.timeout), work).await {
        Ok(done) => done,
        Err(_) => bail!("not done within {} s; run it again to go on", args.timeout),
    }
}

async fn uninstall(args: &UninstallArgs) -> Done {
    let config = in_time(args, cluster_config(args.kubeconfig.as_deref())).await?;
    let server = config.cluster_url.to_string();
    let client = client::connect(&config).context("cannot set up a client for the API server")?;
    let found = in_time(args, find(args, &client)).await?;
    if args.dry_run || found.is_empty() {
        return Answer::of(&found, None).print(args, &server);
    }
    let asked = !args.yes;
    if asked && !is_agreed(&found, &server)? {
        bail!("nothing was removed");
    }
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    let left = in_time(args, remove(args, &client, &found, deadline)).await?;
    let mut answer = Answer::of(&found, Some(&left));
    answer.is_listed = asked;
    answer.print(args, &server)
}

async fn find(args: &UninstallArgs, client: &Client) -> anyhow::Result<Whole> {
    let extent = match args.registration_only {
        true => Extent::Registration,
        false => Extent::All,
    };
    Ok(Whole {
        registration: removal::find(client).await?,
        installation: installation::find(client, &args.namespace, extent).await?,
    })
}

/// Removes all of it; what is left or comes back is the answer.
async fn remove(
    args: &UninstallArgs,
    client: &Client,
    found: &Whole,
    deadline: Instant,
) -> anyhow::Result<Whole> {
    let is_first = |piece: &&installation::Piece| piece.sort.kind == "Deployment";
    let pieces = &found.installation.pieces;
    for piece in pieces.iter().filter(is_first) {
        tracing::debug!(kind = piece.sort.kind, name = piece.name, "removing");
        installation::remove(client, piece).await?;
    }
    if pieces.iter().any(|piece| is_first(&piece))
        && !installation::stopped(client, &args.namespace, deadline).await?
    {
        output::note("a pod of meshgate-control does not end: it may write the registration again");
    }
    remove_registration(client, &found.registration, deadline).await?;
    for piece in pieces.iter().filter(|piece| !is_first(piece)) {
        tracing::debug!(kind = piece.sort.kind, name = piece.name, "removing");
        // One that may not be removed holds up no other: what is left is the answer.
        if let Err(error) = installation::remove(client, piece).await {
            output::note(&error.to_string());
        }
    }
    let watched = Instant::now() + WATCHED;
    loop {
        let left = find(args, client).await?;
        if !left.is_empty() || Instant::now() >= watched {
            return Ok(left);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn remove_registration(
    client: &Client,
    found: &Found,
    deadline: Instant,
) -> anyhow::Result<()> {
    let who = own_name(client).await?;
    let note = format!("{who}: meshgate uninstall");
    let is_owner = |id: &&Id| id.kind == Kind::ClusterRole;
    for id in found.objects.iter().filter(|id| !is_owner(id)) {
        tracing::debug!(object = %id, "removing");
        removal::remove(client, id, &note).await?;
    }
    let mut left = removal::find(client).await?;
    while !left.has_more_than_owner() && !left.namespaces.is_empty() {
        let problem = removal::unlabel(client, &left.namespaces).await?;
        if let Some(problem) = problem.filter(|_| Instant::now() + PAUSE >= deadline) {
            return Err(problem.into());
        }
        tokio::time::sleep(PAUSE).await;
        left = removal::find(client).await?;
    }
    for id in found.objects.iter().filter(is_owner) {
        tracing::debug!(object = %id, "removing");
        removal::remove(client, id, &note).await?;
    }
    Ok(())
}

fn is_agreed(found: &Whole, server: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("nobody is there to ask: give --yes to remove it, or --dry-run to see what there is");
    }
    output::print(&format!(
        "{}Remove all of it from {server}? Pods then start without their sidecars. [y/N] ",
        answer::listed(found)
    ))?;
    io::stdout().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
