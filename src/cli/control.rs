//! `meshgate control`: the composition root of the leader-elected controllers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kube::Config;

use crate::controllers::args::{EnforcementArg, MirrorArg, WebhookUrl};
use crate::controllers::certificates::args::{CertificatesArgs, names};
use crate::controllers::{self, Context, Form, KEPT_BY_LEADER, Writer};
use crate::leader::{Elector, LeaseName};
use crate::lifecycle::wall_clock;
use crate::server::admin::Admin;
use crate::server::bind;
use meshgate_core::injector::Injectors;
use meshgate_core::names::CONTROL;
use meshgate_core::render::{self, Settings};

use super::install_namespace::InstallNamespace;
use super::output::{self, Done};
use super::runtime::{Runtime, block_on};
use super::sources;

const NO_CONFIG: &str = "expected --config FILE: the injectors are named explicitly, none is on by default; give the file that \
                         the serving replicas have";
const NO_POD: &str = "found no --kubeconfig, and this is no pod of a cluster: give --kubeconfig FILE to write \
                      into a cluster from outside";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Writes the registration by which the API server calls the replicas of \
`meshgate serve`, labels namespaces, and restores what other clients change. Of several processes the one that \
holds the Lease meshgate-control acts. When it stops, another takes over at once; when it \
dies, within 20 seconds. What was written stays when all of them stop: a stopped meshgate must not open the gate. \
`meshgate uninstall` removes it.

As a pod of the cluster, with its ServiceAccount:
  meshgate control --config /etc/meshgate/meshgate.yaml --configuration-hash 5d41402a

From outside the cluster; it writes there too if no other process leads:
  meshgate control --kubeconfig ~/.kube/config --config meshgate.yaml --admin-listen 127.0.0.1:0

Progress: http://ADDRESS/readyz?verbose. Required permissions: docs/reference.md."
)]
pub(super) struct ControlArgs {
    /// The Configuration that the serving replicas have: which injectors count
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Write into the cluster of this kubeconfig; required outside a pod
    /// [default: the ServiceAccount of the pod that meshgate runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    #[command(flatten)]
    install: InstallNamespace,

    /// The Service by which the API server calls the serving replicas
    #[arg(long, value_name = "NAME", default_value = "meshgate")]
    service: String,

    /// Port of that Service
    #[arg(long, value_name = "PORT", default_value_t = 443, value_parser = clap::value_parser!(u16).range(1..))]
    service_port: u16,

    /// Expected label meshgate.io/configuration on serving pods. meshgate puts another configuration in force
    /// only when all serving pods have it, and writes nothing before one of them is ready
    /// [default: meshgate does not look at serving pods]
    #[arg(long, value_name = "HASH")]
    configuration_hash: Option<String>,

    /// What refuses a pod without its sidecar: a webhook, or a policy in the API server itself
    #[arg(long, value_enum, value_name = "MECHANISM", default_value_t)]
    enforcement: EnforcementArg,

    /// What keeps the labels of namespaces that mirror their annotations
    #[arg(long, value_enum, value_name = "MECHANISM", default_value_t)]
    mirror: MirrorArg,

    #[command(flatten)]
    certificates: CertificatesArgs,

    /// Address of probes and metrics (plain HTTP)
    /// [default: all addresses, port 8080, in a pod; 127.0.0.1:8080 with --kubeconfig]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,

    /// For development and tests: the API server calls replicas by this address, whose host is a name,
    /// instead of the Service
    #[arg(long, value_name = "https://HOST:PORT", hide = true, conflicts_with_all = ["service", "service_port"])]
    webhook_url: Option<WebhookUrl>,
}

pub(super) fn run(args: &ControlArgs) -> Done {
    block_on(async {
        let config = args.config.as_deref().context(NO_CONFIG)?;
        let (name, injectors) = sources::configuration(config)?;
        let form = form(args)?;
        let api = sources::config_of_pod(args.kubeconfig.as_deref(), NO_POD).await?;
        let runtime = Runtime::new()?;
        let admin = probes(args, &runtime)?;
        say(&api, &name, &admin)?;
        start(&api, injectors, form, &runtime)?;
        runtime.finish(admin).await
    })
}

fn form(args: &ControlArgs) -> anyhow::Result<Form> {
    let client = match &args.webhook_url {
        Some(url) => render::Client::Url(url.to_string()),
        None => render::Client::Service {
            namespace: args.install.namespace.clone(),
            name: args.service.clone(),
            port: args.service_port,
        },
    };
    // The certificate needs the name by which the API server calls.
    let called = args.webhook_url.as_ref().map(WebhookUrl::host);
    let names = names(&args.install.namespace, called.unwrap_or(&args.service));
    let certificates = args.certificates.settings(names, Arc::new(wall_clock));
    let configuration = args.configuration_hash.clone();
    if configuration.as_deref() == Some("") {
        bail!(
            "expected --configuration-hash to be the label meshgate.io/configuration of the serving \
             pods, found nothing; without the flag meshgate does not look at serving pods"
        );
    }
    Ok(Form {
        settings: Settings {
            enforcement: args.enforcement.into(),
            ..Settings::new(client, &args.install.namespace)
        },
        mirror: args.mirror.form(),
        configuration,
        creates_namespace: false,
        certificates,
    })
}

fn probes(args: &ControlArgs, runtime: &Runtime) -> anyhow::Result<Admin> {
    let placement = sources::placement(args.kubeconfig.as_deref());
    let address = args.admin_listen;
    let address = address.unwrap_or_else(|| placement.admin_address());
    runtime.answer_probes(bind::bind(address, "--admin-listen")?, |_| {})
}

/// Contends for the Lease, and starts the controllers, which act while it is held.
fn start(api: &Config, injectors: Injectors, form: Form, runtime: &Runtime) -> anyhow::Result<()> {
    // Two clients: renewals of the Lease wait for no other request.
    let connect = || sources::client(api);
    let namespace = form.settings.namespace.clone();
    let injectors = Arc::new(injectors.excluding(&namespace));
    let lease = LeaseName {
        namespace,
        name: CONTROL.to_owned(),
    };
    // In a cluster, the name of the pod.
    let machine = rustix::system::uname();
    let host = machine.nodename().to_string_lossy();
    let elector = Elector::new(connect()?, lease, &host, runtime.reporting("lease"));
    let registration = runtime.reporting("registration");
    registration.check.pass_with(KEPT_BY_LEADER);
    let writer = Writer {
        client: connect()?,
        claim: elector.claim(),
    };
    let make = move |client| {
        let injectors = Arc::clone(&injectors);
        Context::new(client, injectors, form.clone(), registration.clone())
    };
    let ended = controllers::start(writer, make, &runtime.tasks, &runtime.stop);
    // The claim is renewed while a controller may need it, also during shutdown.
    runtime.tasks.spawn("lease", elector.run(ended));
    Ok(())
}

/// Prints what is known before the first answer of the API server.
fn say(api: &Config, configuration: &str, admin: &Admin) -> anyhow::Result<()> {
    let (version, server) = (env!("CARGO_PKG_VERSION"), &api.cluster_url);
    let probes = admin.address;
    output::print(&format!(
        "meshgate {version} keeps the registration in the cluster of {server}\n\n  \
         injectors {configuration}\n  \
         probes    http://{probes}/readyz?verbose\n\n\
         Contending for the Lease {CONTROL}; the process that holds it writes.\n\n",
    ))
}
