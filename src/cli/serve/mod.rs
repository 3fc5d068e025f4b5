//! `meshgate serve`: the composition root of the admission server.

mod certificates;
mod greeting;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures::FutureExt;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::admission::{self, Admission};
use crate::certs::throwaway;
use crate::cluster::folder::{self, Folder, Look};
use crate::cluster::live::{Fetch, Live};
use crate::cluster::store::Store;
use crate::cluster::{Cluster, probe};
use crate::decision::Readiness;
use crate::lifecycle::{Latches, Shutdown, Tasks};
use crate::metrics::{self, Metrics};
use crate::server::admin::{self, Exposition, Health, Scrape};
use crate::server::args::{Limits, Placement, ServerArgs};
use crate::server::tls::LivePair;
use crate::server::{Server, bind, descriptors};

use super::output::{self, Exit};
use super::{Done, configuration};

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, in a clone of the project:
  meshgate serve --standalone examples/cluster

Then send a review, as the API server does:
  curl --cacert certs/ca.crt -H 'Content-Type: application/json' \\
    --data @examples/reviews/orders-pod.json https://127.0.0.1:8443/mutate/pods")]
pub(super) struct ServeArgs {
    /// Answer for the cluster that the *.yaml, *.yml and *.json files in this folder describe, and
    /// follow their changes: no cluster is needed
    #[arg(long, value_name = "DIR")]
    standalone: PathBuf,

    /// The Configuration: which injectors count [default: the one in DIR, else all presets]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Folder of ca.crt, tls.crt and tls.key; throw-away ones are made there if there are none
    #[arg(long, value_name = "DIR", default_value = "certs")]
    certs_dir: PathBuf,

    /// meshgate's own namespace, whose pods are never looked at
    #[arg(
        long,
        value_name = "NAME",
        env = "MESHGATE_NAMESPACE",
        default_value = "meshgate-system"
    )]
    namespace: String,

    #[command(flatten)]
    server: ServerArgs,
}

/// How long a live look-up of a namespace may take.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(1);

pub(super) fn run(args: &ServeArgs) -> Done {
    let given = args.config.as_deref().map(configuration).transpose()?;
    let mut folder = Folder::new(&args.standalone, given, &args.namespace);
    let store = folder.open().map_err(|found| problems(&found))?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(serve(args, folder, store))
}

/// All that is wrong with a folder, a line each.
pub(super) fn problems(problems: &[folder::Problem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    anyhow!("{}", lines.join("\n       "))
}

async fn serve(args: &ServeArgs, folder: Folder, store: Store) -> Done {
    let shutdown = Shutdown::on_signals().context("cannot listen for signals")?;
    let latches = Latches::new();
    let tasks = Tasks::new(shutdown.clone());
    let listen = args.server.listen(Placement::Standalone);
    let listener = bind::bind(listen, "--listen")?;
    let admin_listener = bind::bind(
        args.server.admin_listen(Placement::Standalone),
        "--admin-listen",
    )?;
    let certificates = throwaway::prepare(&args.certs_dir, listen.ip(), now())?;

    let view = latches.add("view");
    let cluster = Arc::new(Cluster::new(store));
    cluster.mark_synced();
    view.open();
    let metrics = Arc::new(Metrics::new());
    let live = Live::new(lookup(&args.standalone), LOOKUP_DEADLINE);
    let admission = Admission::new(Arc::clone(&cluster), live, Arc::clone(&metrics));

    let pair = LivePair::new(certificates.pair.clone());
    let scrape = scrape(Arc::clone(&cluster), Arc::clone(&metrics), pair.clone());
    let health = Health::new(latches.clone(), shutdown.clone());
    let admin = admin::start(admin_listener, health, scrape).context("cannot serve probes")?;
    let router = admission::router(Arc::new(admission));
    let limits = within_descriptors(args.server.limits(Placement::Standalone));
    let server = Server::new(
        listener,
        router,
        pair.clone(),
        limits,
        latches.add("listener"),
    )?;
    let addresses = Addresses {
        admission: server.address(),
        admin: admin.address(),
    };
    output::print(&greeting::text(
        args,
        &folder,
        &cluster.read(),
        &certificates,
        addresses,
    ))?;
    let stop = stop(&tasks, &shutdown);
    let certificate = latches.add("certificate");
    let follow_certificates =
        certificates::follow(certificates, pair, metrics, certificate, stop.clone());
    tasks.spawn("certificates", follow_certificates);
    tasks.spawn("probes", probe::run(Arc::clone(&cluster), stop.clone()));
    tasks.spawn("folder", follow(folder, cluster, stop));
    tasks.spawn("https", server.run(shutdown.clone()));
    let finished = tasks.finished().await;
    tracing::info!(cause = shutdown.cause(), "stopped");
    // Last, so that probes are answered while the rest drains.
    drop(admin);
    finished?;
    Ok(Exit::Fine)
}

/// The limits, with no more connections than there can be descriptors.
fn within_descriptors(mut limits: Limits) -> Limits {
    let room = descriptors::make_room(limits.max_connections);
    if room < limits.max_connections {
        let wanted = limits.max_connections;
        tracing::warn!(
            wanted,
            room,
            "fewer connections than --max-connections: raise the limit of open files (ulimit -n)"
        );
        limits.max_connections = room;
    }
    limits
}

/// Where the server can be reached.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    admission: SocketAddr,
    admin: SocketAddr,
}

/// The only clock that the server has.
#[expect(
    clippy::disallowed_methods,
    reason = "the composition root is where the clock comes from"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

/// A token for loops that end as soon as the drain begins.
fn stop(tasks: &Tasks, shutdown: &Shutdown) -> CancellationToken {
    let stop = CancellationToken::new();
    let (shutdown, cancelled) = (shutdown.clone(), stop.clone());
    tasks.spawn("stop", async move {
        shutdown.draining().await;
        cancelled.cancel();
    });
    stop
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

fn scrape(cluster: Arc<Cluster>, metrics: Arc<Metrics>, pair: LivePair) -> Scrape {
    Arc::new(move || {
        metrics.serving_cert_not_after(pair.current().not_after().as_second());
        let store = cluster.read();
        let states = store.states();
        let ready = |readiness: &Readiness<'_>| matches!(readiness, Readiness::Usable(_));
        metrics.injectors(
            states
                .iter()
                .map(|s| (s.injector.profile.name.as_str(), ready(&s.readiness))),
        );
        Exposition {
            content_type: metrics::CONTENT_TYPE,
            body: metrics.encode(),
        }
    })
}

/// Follows the files.
async fn follow(mut folder: Folder, cluster: Arc<Cluster>, stop: CancellationToken) {
    let mut looks = tokio::time::interval(folder::INTERVAL);
    let mut last_problem = String::new();
    let mut facts = greeting::facts(&folder, &cluster.read());
    while stop.run_until_cancelled(looks.tick()).await.is_some() {
        let look = tokio::task::spawn_blocking(move || (folder.look(), folder)).await;
        let Ok((look, same)) = look else { return };
        folder = same;
        report(&look, &mut last_problem);
        if let Some(store) = look.store {
            let before = std::mem::replace(&mut facts, greeting::facts(&folder, &store));
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
