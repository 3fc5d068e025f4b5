//! The view from an API server: `serve --kubeconfig FILE`, or as a pod of the cluster.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cli::{Done, configuration, output};
use crate::cluster::Cluster;
use crate::cluster::live::Live;
use crate::cluster::object::Kind;
use crate::cluster::store::Store;
use crate::cluster::watch::{self, Feed};
use crate::controllers::certificates::secret::SecretRef;
use crate::injector::Injectors;
use crate::lifecycle::Latch;
use crate::server::args::Placement;

use super::front::Front;
use super::greeting::{self, in_cluster::Whereabouts};
use super::{LOOKUP_DEADLINE, ServeArgs, registration};
use crate::cli::parts::Parts;

/// How often what `/readyz` and the log say of the view is worked out anew.
const LOOK: Duration = Duration::from_millis(500);

/// Serves what the cluster holds until it is told to stop.
pub(super) fn run(args: &ServeArgs) -> Done {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let api = api(args.kubeconfig.as_deref()).await?;
        let (name, injectors) = named(args.config.as_deref())?;
        let by = match &args.kubeconfig {
            Some(file) => format!("by {}", file.display()),
            None => "this pod's own".to_owned(),
        };
        let whereabouts = Whereabouts {
            server: api.cluster_url.to_string(),
            by,
            configuration: name,
        };
        serve(args, &api, injectors, &whereabouts).await
    })
}

/// How to reach the API server.
pub(in crate::cli) async fn api(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    let Some(path) = kubeconfig else {
        return Config::incluster().map_err(|error| {
            anyhow!(error).context(
                "found neither --standalone nor --kubeconfig, and this is no pod of a cluster: \
                 give --standalone DIR to answer for a folder of manifests, or --kubeconfig FILE \
                 to answer for a cluster",
            )
        });
    };
    let cannot = || format!("cannot use --kubeconfig {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(cannot)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.with_context(cannot)
}

/// The configuration, which a cluster cannot do without.
fn named(path: Option<&Path>) -> anyhow::Result<(String, Injectors)> {
    let path = path.context(
        "expected --config FILE: for a cluster the injectors are named explicitly, none is on by \
         itself; for a first one see examples/cluster/meshgate.yaml",
    )?;
    configuration(path)
}

async fn serve(
    args: &ServeArgs,
    api: &Config,
    injectors: Injectors,
    whereabouts: &Whereabouts,
) -> Done {
    let client = watch::connect(api).context("cannot set up a client for the API server")?;
    let parts = Parts::new()?;
    // With a kubeconfig it is on somebody's machine, as it is standalone.
    let placement = match args.kubeconfig {
        Some(_) => Placement::Standalone,
        None => Placement::Cluster,
    };
    let secret = args.tls_secret.as_deref();
    let secret = secret.map(|name| SecretRef::new(&client, &args.install.namespace, name));
    let front = Front::bind(args, placement, secret)?;
    let store = Store::of_whole(Arc::new(injectors.excluding(&args.install.namespace)));
    let cluster = Arc::new(Cluster::new(store));
    let latches = start_view(&parts, &client, &cluster);
    let live = Live::new(watch::fetch(client.clone()), LOOKUP_DEADLINE);
    let (ready, addresses) = front.wire(&parts, &cluster, live)?;
    let started = greeting::Started {
        certificates: ready.certificates(),
        addresses,
    };
    output::print(&greeting::in_cluster::text(
        whereabouts,
        &cluster.read(),
        &started,
    ))?;
    registration::start(args, client, &parts, (&cluster, ready.certificates()));
    let tell = tell(latches, Arc::clone(&cluster), parts.stop.clone());
    parts.tasks.spawn("view", tell);
    ready.run(parts, cluster).await
}

/// Starts a watch of every kind; each has a condition of readiness of its own (case 60).
fn start_view(parts: &Parts, client: &Client, cluster: &Arc<Cluster>) -> Vec<(Kind, Latch)> {
    let start = |kind: Kind| {
        let feed = Feed::new(client.clone(), Arc::clone(cluster), kind);
        (feed, kind, parts.latches.add(kind.plural()))
    };
    // All are known before the first one runs: the view is complete when all of them are listed.
    let feeds = Kind::ALL.map(start);
    let latch = |(feed, kind, latch): (Feed, Kind, Latch)| {
        parts
            .tasks
            .spawn(kind.plural(), feed.run(parts.stop.clone()));
        (kind, latch)
    };
    feeds.into_iter().map(latch).collect()
}

/// Says what is new of the view: in the conditions of readiness, on standard output when all was
/// listed, and in the log when an injector's state changes.
async fn tell(latches: Vec<(Kind, Latch)>, cluster: Arc<Cluster>, stop: CancellationToken) {
    let mut looks = tokio::time::interval(LOOK);
    let mut said = None;
    while stop.run_until_cancelled(looks.tick()).await.is_some() {
        cluster.update(|store| store.tick(super::now()));
        let now = Instant::now().into_std();
        for (kind, latch) in &latches {
            match cluster.freshness().state(*kind, now) {
                Ok(text) => latch.open_with(text),
                Err(text) => latch.close(text),
            }
        }
        if !cluster.is_synced() {
            continue;
        }
        let new = greeting::state_lines(&cluster.read());
        let before = said.replace(new.clone());
        let Some(before) = before else {
            let text = greeting::in_cluster::listed(&cluster.read());
            if let Err(error) = output::print(&text) {
                tracing::debug!(%error, "standard output is closed");
            }
            continue;
        };
        for line in new.difference(&before) {
            tracing::info!("{line}");
        }
    }
}
