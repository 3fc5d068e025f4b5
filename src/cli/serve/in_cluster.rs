//! The view from an API server: `serve --kubeconfig FILE`, or as a pod of the cluster.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cli::output::{self, Done};
use crate::cli::runtime::{Runtime, block_on};
use crate::cli::sources;
use crate::cluster::Cluster;
use crate::cluster::object::Kind;
use crate::cluster::store::Store;
use crate::cluster::watch;
use crate::controllers::certificates::secret::SecretRef;
use crate::lifecycle::HealthCheck;

use super::banner::{self, Lines};
use super::listeners::{Listeners, Ready};
use super::{ServeArgs, registration};

/// How often meshgate works out anew what `/readyz` and the log say of the view.
const LOOK: Duration = Duration::from_millis(500);

const NO_POD: &str = "found neither --standalone nor --kubeconfig, and this is no pod of a cluster: give --standalone DIR to \
                      answer for a directory of manifests, or --kubeconfig FILE to answer for a cluster";

/// Serves what the cluster holds until a signal tells it to stop.
pub(super) fn run(args: &ServeArgs) -> Done {
    block_on(serve(args))
}

async fn serve(args: &ServeArgs) -> Done {
    let kubeconfig = args.kubeconfig.as_deref();
    let api = sources::config_of_pod(kubeconfig, NO_POD).await?;
    let path = args.config.as_deref().context(
        "expected --config FILE: for a cluster the injectors are named explicitly, no preset \
         is on by default; for a first one see examples/cluster/meshgate.yaml",
    )?;
    let (configuration, injectors) = sources::configuration(path)?;
    let client = sources::client(&api)?;
    let runtime = Runtime::new()?;
    let secret = args.tls_secret.as_deref();
    let secret = secret.map(|name| SecretRef::new(&client, &args.install.namespace, name));
    let listeners = Listeners::bind(args, sources::placement(kubeconfig), secret)?;
    let store = Store::of_whole(Arc::new(injectors.excluding(&args.install.namespace)));
    let cluster = Arc::new(Cluster::new(store));
    let checks = start_view(&runtime, &client, &cluster);
    let ready = listeners.wire(&runtime, &cluster, watch::fetch(client.clone()))?;
    let kubeconfig = match kubeconfig {
        Some(file) => format!("by {}", file.display()),
        None => "this pod's own".to_owned(),
    };
    output::print(&format!(
        "meshgate {} answers for the cluster of {} ({kubeconfig})\n\n{}\n\
         Listing the cluster; meshgate refuses pods until that is done.\n\n",
        env!("CARGO_PKG_VERSION"),
        api.cluster_url,
        before_lists(&configuration, &cluster.read(), &ready),
    ))?;
    if let Some(form) = registration::form(args, &ready.certificates) {
        let injectors = Arc::clone(cluster.read().injectors());
        registration::start(form, client, injectors, &runtime);
    }
    let (tasks, stop) = (&runtime.tasks, &runtime.stop);
    tasks.spawn("view", tell(checks, Arc::clone(&cluster), stop.clone()));
    ready.run(runtime, cluster).await
}

/// Starts the watches; each kind has a readiness condition of its own (case 60).
fn start_view(
    runtime: &Runtime,
    client: &Client,
    cluster: &Arc<Cluster>,
) -> Vec<(Kind, HealthCheck)> {
    let follow = watch::run(client.clone(), Arc::clone(cluster), runtime.stop.clone());
    runtime.tasks.spawn("watches", follow);
    let add = |kind: Kind| (kind, runtime.checks.add(kind.plural()));
    Kind::ALL.into_iter().map(add).collect()
}

/// Reports what is new in the view: in the readiness conditions, on standard output after the first
/// lists, and in the log when an injector's state changes.
async fn tell(checks: Vec<(Kind, HealthCheck)>, cluster: Arc<Cluster>, stop: CancellationToken) {
    let mut looks = tokio::time::interval(LOOK);
    let mut said = None;
    while stop.run_until_cancelled(looks.tick()).await.is_some() {
        let now = Instant::now().into_std();
        for (kind, check) in &checks {
            match cluster.freshness.state(*kind, now) {
                Ok(text) => check.pass_with(text),
                // A Service that an injector names only now: pods that require others are answered.
                Err(text) if cluster.is_synced() => check.pass_with(text),
                Err(text) => check.fail(text),
            }
        }
        if !cluster.is_synced() {
            continue;
        }
        let new = banner::state_lines(&cluster.read());
        let Some(before) = said.replace(new.clone()) else {
            let text = listed(&cluster.read());
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

/// The start-up lines before the API server has answered.
fn before_lists(configuration: &str, store: &Store, server: &Ready) -> String {
    let mut lines = Lines::default();
    let by = format!("by {configuration}");
    lines.push("injectors", &banner::injectors(store, &by));
    lines.push("excluded", &banner::excluded(store));
    lines.push_server(server);
    lines.0
}

/// The content of the cluster, after the first lists.
fn listed(store: &Store) -> String {
    let mut lines = Lines::default();
    lines.push("listed", &banner::counts(store));
    lines.push_notes(&banner::notes(store));
    format!("{}\n{}\n", lines.0, banner::states_table(store))
}
