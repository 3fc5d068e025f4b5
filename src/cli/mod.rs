//! The commands: only this folder prints, and only this folder uses `anyhow`.
//!
//! `serve` and `control` are composition roots: build, wire, run, drain. Other folders decide.

mod audit;
mod break_glass;
mod change;
mod completions;
mod control;
mod explain;
mod install_namespace;
mod output;
mod render;
mod runtime;
mod serve;
mod sources;
mod states;
mod status;
mod uninstall;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::telemetry::TelemetryArgs;

use self::output::Done;

/// Keeps pods from starting without the sidecar they require.
///
/// The API server asks meshgate about new pods. meshgate refuses a pod that requires the sidecar of a
/// service mesh, of Vault, of a telemetry collector or of your own injector until that injector can
/// be called. It says why, marks each pod that it admits, and then checks that the sidecar is there.
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

Exit codes: 0 fine, 1 findings, 2 the command could not run or could not see everything.")]
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
    /// Show which pods run without the sidecar that they require, and why
    Audit(audit::AuditArgs),
    /// Show how the gate would answer for the pods in a file, and why
    Explain(explain::ExplainArgs),
    /// Print the webhooks and policies that register meshgate, without a cluster
    #[command(subcommand)]
    Render(render::Form),
    /// Show the state of an installation: registration, replicas, certificates, injectors, refusals
    Status(status::StatusArgs),
    /// Suspend enforcement for a time, with a record of who, why and until when
    BreakGlass(break_glass::BreakGlassArgs),
    /// Remove what meshgate has written into a cluster
    Uninstall(uninstall::UninstallArgs),
    /// Print a shell's completion script
    Completions(completions::CompletionsArgs),
}

/// Parses the arguments and runs the command.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    output::exit_code(match crate::telemetry::init(&cli.telemetry) {
        // Kept until the command ends: dropping it writes the last lines of the log.
        Ok(_log) => cli.command.run(),
        Err(error) => Err(error.into()),
    })
}

impl Command {
    fn run(self) -> Done {
        match self {
            Self::Serve(args) => serve::run(&args),
            Self::Control(args) => control::run(&args),
            Self::Audit(args) => audit::run(&args),
            Self::Explain(args) => explain::run(&args),
            Self::Render(form) => render::run(&form),
            Self::Status(args) => status::run(&args),
            Self::BreakGlass(args) => break_glass::run(&args),
            Self::Uninstall(args) => uninstall::run(&args),
            Self::Completions(args) => completions::run(&args, Cli::command()),
        }
    }
}
