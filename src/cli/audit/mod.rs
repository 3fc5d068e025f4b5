//! `meshgate audit`: which pods run without the sidecar that they require, and why.

mod answer;
mod api_server;
mod files;
mod known;
mod owners;
mod registration;
mod view;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::bail;
use meshgate_core::injector::Injectors;

use super::install_namespace::OwnNamespace;
use super::output::{self, Done, Exit, OutputArgs};
use super::runtime::block_on;
use super::sources;

use self::answer::Rows;
use self::known::Known;
use self::registration::Registration;

/// Arguments of `audit`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "meshgate need not be installed: this reads pods, namespaces, owners and webhook \
configurations with your own rights, and writes nothing. It judges each pod by the rules of the gate and the \
check. A right that is missing is reported, and the rest is judged without it.

Examples:
  meshgate audit -A
  meshgate audit -n orders -o json
  meshgate audit -A --summary --injector NAME
  kubectl get -A -o json --show-managed-fields \\
    pods,namespaces,replicasets,deployments,jobs,mutatingwebhookconfigurations | meshgate audit -f -

Exit codes: 0 every pod has its sidecars, 1 a pod is bare or stale. 2 means neither, but a pod is unknown \
or something could not be read."
)]
pub(super) struct AuditArgs {
    /// Only pods of this namespace [default: that of the kubeconfig's context; with -f, all]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Pods of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Only this injector (repeatable, comma-separated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    injector: Vec<String>,

    /// Read these dumps and no cluster: what kubectl get -o yaml or -o json writes; - reads standard
    /// input (repeatable)
    #[arg(
        short,
        long = "filename",
        value_name = "FILE",
        conflicts_with = "kubeconfig"
    )]
    filenames: Vec<PathBuf>,

    /// Only counts for each injector, no pods
    #[arg(long)]
    summary: bool,

    /// The Configuration, which names the injectors [default: the presets whose webhooks are there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The cluster's kubeconfig [default: as kubectl finds it, else the pod's own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    #[command(flatten)]
    own: OwnNamespace,

    /// Read the cluster for at most this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,

    #[command(flatten)]
    output: OutputArgs,
}

impl AuditArgs {
    /// The injectors that count, as far as the registration is known: those of `--config`, else the presets
    /// whose webhooks are there, else all presets.
    fn injectors(&self, registration: &Registration) -> anyhow::Result<Injectors> {
        let given = sources::configuration_if_given(self.config.as_deref())?;
        let found = match given {
            Some((_, injectors)) => Some(injectors),
            None => registration.presets()?,
        };
        let injectors = match found {
            Some(injectors) => injectors,
            None => {
                output::note(
                    "no webhook configuration of an injector was read: all presets count; --config FILE names \
                     your injectors",
                );
                Injectors::all_presets()?
            }
        };
        Ok(injectors.excluding(&self.own.own_namespace))
    }

    /// What is known before the first pod, and the rows that pods will fill.
    fn begin(&self, registration: Registration) -> anyhow::Result<(Known, Rows)> {
        let injectors = self.injectors(&registration)?;
        let names = injectors.iter().map(|one| one.profile.name.as_str());
        let names: Vec<&str> = names.collect();
        let is_known = |name: &&String| names.contains(&name.as_str());
        if let Some(unknown) = self.injector.iter().find(|name| !is_known(name)) {
            let known = names.join(", ");
            bail!(
                "found --injector {unknown}, expected one of {known}; --config FILE names others"
            );
        }
        let is_wanted = |name: &str| {
            self.injector.is_empty() || self.injector.iter().any(|wanted| wanted == name)
        };
        let rows = Rows::new(&injectors, is_wanted, self.output.is_table(), self.summary);
        Ok((Known::new(injectors, registration), rows))
    }
}

pub(super) fn run(args: &AuditArgs) -> Done {
    let mut unread = Vec::new();
    let rows = if args.filenames.is_empty() {
        let deadline = Instant::now() + Duration::from_secs(args.timeout);
        block_on(Box::pin(api_server::rows(args, deadline, &mut unread)))?
    } else {
        files::rows(args, &mut unread)?
    };
    unread.iter().for_each(|problem| output::note(problem));
    let answer = rows.answer();
    args.output.print(&answer, || view::text(&answer))?;
    let exit = answer.exit();
    Ok(if exit == Exit::Fine && !unread.is_empty() {
        Exit::CannotTell
    } else {
        exit
    })
}
