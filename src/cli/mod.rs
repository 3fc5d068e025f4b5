//! The commands: the only place that prints, and the only one with `anyhow`.
//!
//! Composition roots live here (`serve`, `control`): build, wire, run, drain. What a command decides is
//! decided elsewhere.

mod break_glass;
mod change;
mod completions;
mod control;
mod explain;
mod install_namespace;
mod output;
mod parts;
mod render;
mod serve;
mod status;
mod uninstall;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::injector::Injectors;
use crate::telemetry::TelemetryArgs;

use self::output::Exit;

/// Keeps pods from starting without the sidecar they require.
///
/// meshgate is asked by the API server about new pods. It refuses one that requires the sidecar of
/// a service mesh, of Vault, of a telemetry collector or of an injector of your own until that
/// injector can be called, says why, marks what it admits, and checks that the sidecar is really
/// there.
#[derive(Debug, Parser)]
#[command(
    name = "meshgate",
    bin_name = "meshgate",
    version,
    max_term_width = 100
)]
#[command(after_help = "Try it without a cluster, in a clone of the project:
  meshgate serve --standalone examples/cluster
  meshgate explain -f examples/pods/deployment-linkerd.yaml --state examples/cluster

Exit codes: 0 fine, 1 findings, 2 could not tell or could not run.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    telemetry: TelemetryArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer admission reviews over HTTPS
    Serve(serve::ServeArgs),
    /// Run the leader-elected controllers
    Control(control::ControlArgs),
    /// Say what would become of the pods in a file, and why
    Explain(explain::ExplainArgs),
    /// Print what registers meshgate with a cluster, from a configuration alone
    #[command(subcommand)]
    Render(render::Form),
    /// Say how an installation is: registration, replicas, certificates, injectors, refusals
    Status(status::StatusArgs),
    /// Suspend enforcement for a time, with a record of who, why and until when
    BreakGlass(break_glass::BreakGlassArgs),
    /// Remove what meshgate has written into a cluster
    Uninstall(uninstall::UninstallArgs),
    /// Print completions for a shell
    Completions(completions::CompletionsArgs),
}

/// Parses the arguments and runs the command.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    // Kept to the end: what was logged last is written when it goes.
    let log = crate::telemetry::init(&cli.telemetry).map_err(anyhow::Error::from);
    let done = match (&log, cli.command) {
        (Err(_), _) => Ok(Exit::CannotTell),
        (Ok(_), Command::Serve(args)) => serve::run(&args),
        (Ok(_), Command::Control(args)) => control::run(&args),
        (Ok(_), Command::Explain(args)) => explain::run(&args),
        (Ok(_), Command::Render(form)) => render::run(&form),
        (Ok(_), Command::Status(args)) => status::run(&args),
        (Ok(_), Command::BreakGlass(args)) => break_glass::run(&args),
        (Ok(_), Command::Uninstall(args)) => uninstall::run(&args),
        (Ok(_), Command::Completions(args)) => completions::run(&args),
    };
    output::exit_code(log.and(done))
}

type Done = anyhow::Result<Exit>;

/// How to reach the API server for a tool: by `--kubeconfig`, else as `kubectl` does.
async fn cluster_config(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Config> {
    match kubeconfig {
        Some(path) => serve::api(Some(path)).await,
        None => kube::Config::infer().await.context(
            "found no cluster: neither --kubeconfig, nor what kubectl would use, nor a pod's own",
        ),
    }
}

/// Reads `--config`: its name for messages, and what it says.
fn configuration(path: &Path) -> anyhow::Result<(String, Injectors)> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read --config {name}"))?;
    let injectors = Injectors::from_yaml(&name, &bytes)?;
    Ok((name, injectors))
}
