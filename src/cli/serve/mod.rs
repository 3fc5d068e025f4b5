//! `meshgate serve`: the composition root of the admission server.
//!
//! `standalone` and `in_cluster` differ in where the view comes from; `listeners` is what both serve
//! it with.

mod banner;
mod certificates;
mod in_cluster;
mod listeners;
mod registration;
mod standalone;

use std::path::PathBuf;

use crate::controllers::args::RegistrationArgs;
use crate::server::args::ServerArgs;

use super::install_namespace::InstallNamespace;
use super::output::Done;

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, in a clone of the project:
  meshgate serve --standalone examples/cluster

Then send a review, as the API server does:
  curl --cacert certs/ca.crt -H 'Content-Type: application/json' \\
    --data @examples/reviews/orders-pod.json https://127.0.0.1:8443/mutate/pods

For a cluster, from outside the cluster:
  meshgate serve --kubeconfig ~/.kube/config --config meshgate.yaml

The same, called by the API server, which must reach this machine at that address:
  meshgate serve --kubeconfig ~/.kube/config --config meshgate.yaml \\
    --webhook-url https://192.0.2.7:8443 --listen 192.0.2.7:8443")]
pub(super) struct ServeArgs {
    /// Answer for the cluster that the *.yaml, *.yml and *.json files in this directory describe, and
    /// follow their changes. Needs no cluster
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    standalone: Option<PathBuf>,

    /// Answer for the cluster of this kubeconfig, and follow its changes; required outside a pod
    /// [default: the ServiceAccount of meshgate's pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The Configuration, which names the injectors; required for a cluster
    /// [default with --standalone: the one in DIR, else all presets]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Directory of ca.crt, tls.crt and tls.key; if it has none of them, meshgate makes throw-away
    /// ones there
    #[arg(long, value_name = "DIR", default_value = "certs")]
    certs_dir: PathBuf,

    /// Serve with the certificate in this Secret of --namespace, and follow its changes, as a replica
    /// in a pod does
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["certs_dir", "standalone", "webhook_url"]
    )]
    tls_secret: Option<String>,

    #[command(flatten)]
    install: InstallNamespace,

    #[command(flatten)]
    registration: RegistrationArgs,

    #[command(flatten)]
    server: ServerArgs,
}

pub(super) fn run(args: &ServeArgs) -> Done {
    match &args.standalone {
        Some(folder) => standalone::run(args, folder),
        None => in_cluster::run(args),
    }
}
