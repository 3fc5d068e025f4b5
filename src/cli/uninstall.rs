//! `meshgate uninstall`: takes away all that meshgate has written into a cluster.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kube::Client;
use serde::Serialize;

use crate::cluster::watch;
use crate::controllers::api::own_name;
use crate::controllers::kind::{Id, Kind};
use crate::controllers::removal::{self, Found};

use super::output::{self, Exit, Format};
use super::{Done, cluster_config};

/// How long it is watched whether somebody puts things back.
const WATCHED: Duration = Duration::from_secs(2);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Arguments of `uninstall`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Removes, in this order: webhook configurations (pods are no longer held up from then on), \
policies and their bindings, the labels meshgate.io/requires.… of namespaces, the ClusterRole that \
owns the rest. Nothing of meshgate needs to run. Stop what runs first: a running meshgate puts back \
what it writes. Its Deployment, its RBAC and its namespace are whoever's who installed them.

Exit codes: 0 nothing of it is left (or, with --dry-run, nothing is there), 1 something is left, \
is put back, or is there (--dry-run), 2 could not tell or was not allowed to."
)]
pub(super) struct UninstallArgs {
    /// Whose cluster [default: as kubectl finds it, else the pod's own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

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

/// The answer for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    dry_run: bool,
    objects: Vec<Object>,
    namespaces: Vec<String>,
    left: Vec<Object>,
    left_namespaces: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Object {
    kind: &'static str,
    name: String,
}

fn objects(found: &Found) -> Vec<Object> {
    let object = |id: &Id| Object {
        kind: id.kind.names().kind,
        name: id.name.clone(),
    };
    found.objects.iter().map(object).collect()
}

pub(super) fn run(args: &UninstallArgs) -> Done {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let limit = Duration::from_secs(args.timeout);
        match tokio::time::timeout(limit, uninstall(args, Instant::now() + limit)).await {
            Ok(done) => done,
            Err(_) => bail!("not done within {} s; run it again to go on", args.timeout),
        }
    })
}

async fn uninstall(args: &UninstallArgs, deadline: Instant) -> Done {
    let config = cluster_config(args.kubeconfig.as_deref()).await?;
    let server = config.cluster_url.to_string();
    let client = watch::connect(&config).context("cannot set up a client for the API server")?;
    let found = removal::find(&client).await?;
    if args.dry_run || found.is_empty() {
        say(args, &found, &Found::default(), &server)?;
        return Ok(if found.is_empty() {
            Exit::Fine
        } else {
            Exit::Findings
        });
    }
    if !args.yes && !is_agreed(&found, &server)? {
        bail!("nothing was removed");
    }
    let left = remove(&client, &found, deadline).await?;
    say(args, &found, &left, &server)?;
    Ok(if left.is_empty() {
        Exit::Fine
    } else {
        Exit::Findings
    })
}

/// Removes all of it; what is left or comes back is the answer.
async fn remove(client: &Client, found: &Found, deadline: Instant) -> anyhow::Result<Found> {
    let who = own_name(client).await?;
    let note = format!("{who}: meshgate uninstall");
    let is_owner = |id: &&Id| id.kind == Kind::ClusterRole;
    for id in found.objects.iter().filter(|id| !is_owner(id)) {
        tracing::info!(object = %id, "removing");
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
        tracing::info!(object = %id, "removing");
        removal::remove(client, id, &note).await?;
    }
    let watched = Instant::now() + WATCHED;
    loop {
        let left = removal::find(client).await?;
        if !left.is_empty() || Instant::now() >= watched {
            return Ok(left);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_agreed(found: &Found, server: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("nobody is there to ask: give --yes to remove it, or --dry-run to see what there is");
    }
    output::print(&format!(
        "{}Remove all of it from {server}? Pods then start without their sidecars. [y/N] ",
        listed(found)
    ))?;
    io::stdout().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn listed(found: &Found) -> String {
    let mut table = output::table(&["KIND", "NAME"]);
    for object in objects(found) {
        table.add_row([object.kind, object.name.as_str()]);
    }
    for namespace in &found.namespaces {
        table.add_row(["Namespace (labels)", namespace]);
    }
    output::indented(&table)
}

fn say(args: &UninstallArgs, found: &Found, left: &Found, server: &str) -> anyhow::Result<()> {
    if args.output != Format::Table {
        let answer = Answer {
            dry_run: args.dry_run,
            objects: objects(found),
            namespaces: found.namespaces.clone(),
            left: objects(left),
            left_namespaces: left.namespaces.clone(),
        };
        return output::print_value(args.output, &answer);
    }
    let text = match (found.is_empty(), args.dry_run, left.is_empty()) {
        (true, ..) => format!("Nothing of meshgate is in {server}.\n"),
        (_, true, _) => format!("Would be removed from {server}:\n\n{}", listed(found)),
        (_, _, true) => format!("Removed from {server}:\n\n{}", listed(found)),
        (_, _, false) => format!(
            "Removed from {server}:\n\n{}\nStill there, or there again: is a meshgate running? Stop \
             it, and run this once more.\n\n{}",
            listed(found),
            listed(left)
        ),
    };
    output::print(&text)
}
