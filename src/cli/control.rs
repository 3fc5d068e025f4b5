//! `meshgate control`: the composition root of what writes into the cluster.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use kube::Config;

use crate::cluster::watch;
use crate::controllers::args::{EnforcementArg, MirrorArg, WebhookUrl};
use crate::controllers::certificates::Clock;
use crate::controllers::certificates::args::CertificatesArgs;
use crate::controllers::{self, Context, Form};
use crate::injector::Injectors;
use crate::kube_api;
use crate::leader::{Elector, Place};
use crate::metrics;
use crate::render::{self, Settings};
use crate::server::admin::{self, Admin, Exposition, Health};
use crate::server::args::Placement;
use crate::server::bind;

use super::output::{self, Exit};
use super::parts::Parts;
use super::{Done, configuration, serve};

/// The Lease by which one of several is chosen.
const LEASE: &str = "meshgate-control";

/// Arguments of `control`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Writes the registration by which the API server asks the replicas of \
`meshgate serve`, labels namespaces, and puts back what somebody changes. Of several processes one \
acts, which holds the Lease meshgate-control; when it stops, another takes over at once, and when it \
dies, within 20 seconds. What was written stays when all of them stop: a stopped meshgate must not open the gate. \
`meshgate uninstall` takes it away.

As a pod of the cluster, with its ServiceAccount:
  meshgate control --config /etc/meshgate/meshgate.yaml --configuration-hash 5d41402a

From outside of it, where it writes as well if nobody else leads:
  meshgate control --kubeconfig ~/.kube/config --config meshgate.yaml --admin-listen 127.0.0.1:0

How far it is: http://ADDRESS/readyz?verbose. What it needs to be allowed: docs/reference.md."
)]
pub(super) struct ControlArgs {
    /// The Configuration: which injectors count. The one that the serving replicas have
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Write into the cluster that this kubeconfig names; needed outside of a cluster
    /// [default: the ServiceAccount of the pod that meshgate runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// meshgate's own namespace: where its Service, its replicas and the Lease are
    #[arg(
        long,
        value_name = "NAME",
        env = "MESHGATE_NAMESPACE",
        default_value = "meshgate-system"
    )]
    namespace: String,

    /// The Service by which the API server calls the serving replicas
    #[arg(long, value_name = "NAME", default_value = "meshgate")]
    service: String,

    /// Its port
    #[arg(long, value_name = "PORT", default_value_t = 443, value_parser = clap::value_parser!(u16).range(1..))]
    service_port: u16,

    /// What the label meshgate.io/configuration of serving replicas says when they have this
    /// Configuration: another one is not put in force before all of them have it, and nothing is written
    /// before one of them is ready [default: replicas are not looked at]
    #[arg(long, value_name = "HASH")]
    configuration_hash: Option<String>,

    /// Who refuses a pod without its sidecar: a webhook, or a policy in the API server itself
    #[arg(long, value_name = "BY", default_value = "webhook")]
    enforcement: EnforcementArg,

    /// What keeps the labels of namespaces that mirror their annotations
    #[arg(long, value_name = "BY", default_value = "auto")]
    mirror: MirrorArg,

    #[command(flatten)]
    certificates: CertificatesArgs,

    /// Address of probes and metrics (plain HTTP)
    /// [default: all addresses, port 8080, in a cluster; 127.0.0.1:8080 with --kubeconfig]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,

    /// For development and tests: replicas are called by this address, whose host is a name, not by
    /// the Service
    #[arg(long, value_name = "https://HOST:PORT", hide = true, conflicts_with_all = ["service", "service_port"])]
    webhook_url: Option<WebhookUrl>,
}

pub(super) fn run(args: &ControlArgs) -> Done {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let (name, injectors) = named(args)?;
        let form = form(args)?;
        let api = api(args.kubeconfig.as_deref()).await?;
        let parts = Parts::new()?;
        let admin = probes(args, &parts)?;
        say(&api, &name, &admin)?;
        start(args, &api, (injectors, form), &parts)?;
        let finished = parts.tasks.finished().await;
        tracing::info!(cause = parts.shutdown.cause(), "stopped");
        // Last, so that probes are answered until the Lease is given back.
        drop(admin);
        finished?;
        Ok(Exit::Fine)
    })
}

/// The configuration, which cannot be done without: its name, and what it says.
fn named(args: &ControlArgs) -> anyhow::Result<(String, Injectors)> {
    let path = args.config.as_deref().context(
        "expected --config FILE: the injectors are named explicitly, none is on by itself; give the \
         file that the serving replicas have",
    )?;
    configuration(path)
}

/// How to reach the API server.
async fn api(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    match kubeconfig {
        Some(path) => serve::api(Some(path)).await,
        None => Config::incluster().map_err(|error| {
            anyhow!(error).context(
                "found no --kubeconfig, and this is no pod of a cluster: give --kubeconfig FILE to \
                 write into a cluster from outside of it",
            )
        }),
    }
}

/// How replicas are called, and what is known of them.
fn form(args: &ControlArgs) -> anyhow::Result<Form> {
    let client = match &args.webhook_url {
        Some(url) => render::Client::Url(url.to_string()),
        None => render::Client::Service {
            namespace: args.namespace.clone(),
            name: args.service.clone(),
            port: args.service_port,
        },
    };
    let clock: Clock = Arc::new(kube_api::wall_clock);
    // By which name it is called, its certificate must have.
    let called = args.webhook_url.as_ref().map(WebhookUrl::host);
    let service = (args.namespace.as_str(), called.unwrap_or(&args.service));
    let certificates = args.certificates.settings(service, clock);
    let configuration = args.configuration_hash.clone();
    if configuration.as_deref() == Some("") {
        bail!(
            "expected --configuration-hash to be what the label meshgate.io/configuration of the \
             serving replicas says, found nothing; leave the flag away to have replicas not looked at"
        );
    }
    Ok(Form {
        settings: Settings {
            enforcement: args.enforcement.into(),
            ..Settings::new(client, &args.namespace)
        },
        mirror: args.mirror.form(),
        configuration,
        creates_home: false,
        certificates,
    })
}

/// Begins to answer probes.
fn probes(args: &ControlArgs, parts: &Parts) -> anyhow::Result<Admin> {
    // With a kubeconfig it is on somebody's machine, as it is standalone.
    let placement = match args.kubeconfig {
        Some(_) => Placement::Standalone,
        None => Placement::Cluster,
    };
    let address = args
        .admin_listen
        .unwrap_or_else(|| placement.admin_address());
    let listener = bind::bind(address, "--admin-listen")?;
    let health = Health::new(parts.latches.clone(), parts.shutdown.clone());
    let metrics = Arc::clone(&parts.metrics);
    let scrape = Arc::new(move || Exposition {
        content_type: metrics::CONTENT_TYPE,
        body: metrics.encode(),
    });
    admin::start(listener, health, scrape).context("cannot serve probes")
}

/// Starts to contend for the Lease, and what runs while it is held.
fn start(
    args: &ControlArgs,
    api: &Config,
    (injectors, form): (Injectors, Form),
    parts: &Parts,
) -> anyhow::Result<()> {
    // Two clients: renewals of the Lease share a connection with nobody.
    let connect = || watch::connect(api).context("cannot set up a client for the API server");
    let place = Place {
        namespace: args.namespace.clone(),
        name: LEASE.to_owned(),
    };
    let noted = (Arc::clone(&parts.metrics), parts.latches.add("lease"));
    let elector = Elector::new(connect()?, place, &host(), noted);
    let latch = parts.latches.add("registration");
    latch.open_with("kept by whoever leads");
    let noted = (Arc::clone(&parts.metrics), latch);
    let injectors = Arc::new(injectors.excluding(&args.namespace));
    let make =
        move |client| Context::new(client, Arc::clone(&injectors), form.clone(), noted.clone());
    let acting = (connect()?, elector.claim());
    let ended = controllers::start(acting, make, &parts.tasks, &parts.stop);
    // As long as something runs that needs the claim it is renewed, also while we are stopping.
    parts.tasks.spawn("lease", elector.run(ended));
    Ok(())
}

/// What is known before the API server has said anything.
fn say(api: &Config, configuration: &str, admin: &Admin) -> anyhow::Result<()> {
    let (version, server) = (env!("CARGO_PKG_VERSION"), &api.cluster_url);
    let probes = admin.address();
    output::print(&format!(
        "meshgate {version} keeps the registration in the cluster of {server}\n\n  \
         injectors {configuration}\n  \
         probes    http://{probes}/readyz?verbose\n\n\
         Contending for the Lease {LEASE}; whoever holds it writes.\n\n",
    ))
}

/// The name of this machine: of the pod, in a cluster.
fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
