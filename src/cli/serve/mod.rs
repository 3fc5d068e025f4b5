//! `meshgate serve`: the composition root of the admission server.
//!
//! `standalone` and `in_cluster` differ in where the view comes from; `front` is what both serve
//! it with, `parts` what every part of the program is handed.

mod certificates;
mod front;
mod greeting;
mod in_cluster;
mod registration;
mod standalone;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::controllers::args::RegistrationArgs;
use crate::server::args::ServerArgs;

use super::Done;
use super::install_namespace::InstallNamespace;

pub(super) use self::greeting::state_and_reason;
pub(super) use self::in_cluster::api;
pub(super) use self::standalone::problems;

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, in a clone of the project:
  meshgate serve --standalone examples/cluster

Then send a review, as the API server does:
  curl --cacert certs/ca.crt -H 'Content-Type: application/json' \\
    --data @examples/reviews/orders-pod.json https://127.0.0.1:8443/mutate/pods

For a cluster, from outside of it:
  meshgate serve --kubeconfig ~/.kube/config --config meshgate.yaml

And asked by its API server, which has to reach this machine by that address:
  meshgate serve --kubeconfig ~/.kube/config --config meshgate.yaml \\
    --webhook-url https://192.0.2.7:8443 --listen 192.0.2.7:8443")]
pub(super) struct ServeArgs {
    /// Answer for the cluster that the *.yaml, *.yml and *.json files in this folder describe, and
    /// follow their changes: no cluster is needed
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    standalone: Option<PathBuf>,

    /// Answer for the cluster that this kubeconfig names, and follow its changes; needed outside of
    /// a cluster [default: the ServiceAccount of the pod that meshgate runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The Configuration: which injectors count; needed for a cluster
    /// [default with --standalone: the one in DIR, else all presets]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Folder of ca.crt, tls.crt and tls.key; throw-away ones are made there if there are none
    #[arg(long, value_name = "DIR", default_value = "certs")]
    certs_dir: PathBuf,

    /// Serve with the certificate in this Secret of --namespace, and follow its changes: as a replica in
    /// a cluster does
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

/// How long a live look-up of a namespace may take.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(1);

pub(super) fn run(args: &ServeArgs) -> Done {
    match &args.standalone {
        Some(folder) => standalone::run(args, folder),
        None => in_cluster::run(args),
    }
}

/// The only clock that the server has.
#[expect(
    clippy::disallowed_methods,
    reason = "the composition root is where the clock comes from"
)]
fn now() -> Timestamp {
    Timestamp::now()
}
