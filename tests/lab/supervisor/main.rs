//! The lab: a real control plane on free ports of this machine, for tests and for people.
//!
//! `lab run` starts it, prints one line of JSON with addresses and files, and then obeys lines on
//! standard input (see [`orders`]), each answered by one line of JSON. The end of its input, SIGINT
//! or SIGTERM ends it. With `--network` it has a service network and Nodes on which programs run (see
//! [`network`]). `lab shell` starts it around a shell. However it ends, nothing stays: no
//! process and no folder (see [`remains`] for the case that it is killed).

#![expect(clippy::print_stderr, reason = "a program of its own")]

mod control_plane;
mod folder;
mod guests;
mod network;
mod orders;
mod remains;
mod shell;
mod stop;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use self::control_plane::ControlPlane;
use self::control_plane::components::{API_SERVER, SCHEDULER};
pub(crate) use self::folder::Folder;
use self::stop::{Event, Stop};

/// A real control plane on this machine, without containers.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start it and obey the lines on standard input until they end
    Run(Options),
    /// Start it with a shell (or a command) that can use it, and end with that
    Shell {
        #[command(flatten)]
        options: Options,
        /// Run this in the shell instead of reading from standard input
        #[arg(short)]
        command: Option<String>,
    },
    /// Wait for the end of standard input, then remove what a killed lab left (used by `run`)
    #[command(hide = true)]
    Watch { folder: PathBuf },
    /// Let those outside reach the API server (used with `--network`)
    #[command(hide = true)]
    Forward(network::forward::Outside),
}

/// What is started, and how.
#[derive(Clone, Debug, Args)]
struct Options {
    /// Only these components, as in `etcd,kube-apiserver`
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// One more flag for the API server, as in `--api-server-flag=--v=4`; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    api_server_flag: Vec<String>,
    /// An older API server with its scheduler, as in `1.30`; `make lab PROGRAMS=compat` builds them
    #[arg(long, env = "MESHGATE_LAB_KUBERNETES", value_name = "VERSION")]
    kubernetes: Option<String>,
    /// How many Nodes kwok plays [default: 2, or none with --network]
    #[arg(long)]
    nodes: Option<usize>,
    /// In network namespaces of its own: with a service network, and with Nodes on which programs run
    #[arg(long)]
    network: bool,
    /// How many Nodes there are on which programs run
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    real_nodes: u8,
    /// After so many seconds of silence a Node is lost [default: as in production]
    #[arg(long, value_name = "SECONDS")]
    node_grace: Option<u64>,
    #[command(flatten)]
    inside: network::Inside,
    /// Where `make lab` has put the programs
    #[arg(long, default_value_os_t = built())]
    lab: PathBuf,
}

impl Options {
    fn nodes(&self) -> usize {
        self.nodes.unwrap_or(if self.network { 0 } else { 2 })
    }

    /// Where a component's program is. The newest scheduler waits for APIs that older servers do not serve,
    /// and schedules nothing meanwhile; the newest of the other components do without.
    fn program(&self, component: &str) -> PathBuf {
        let bin = self.lab.join("bin");
        match &self.kubernetes {
            Some(version) if matches!(component, API_SERVER | SCHEDULER) => {
                bin.join(format!("{component}-{version}"))
            }
            _ => bin.join(component),
        }
    }
}

fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/lab")
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    if let Command::Run(options) | Command::Shell { options, .. } = &command
        && options.network
        && !options.inside.is_given()
        && let Err(error) = network::enter()
    {
        eprintln!("lab: {error:#}");
        return ExitCode::FAILURE;
    }
    let done = match command {
        Command::Run(options) => run(&options).map(|()| ExitCode::SUCCESS),
        Command::Shell { options, command } => shell::run(&options, command.as_deref()),
        Command::Forward(ends) => network::forward::outside(&ends).map(|()| ExitCode::SUCCESS),
        Command::Watch { folder } => remains::watch(&folder).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("lab: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(options: &Options) -> Result<()> {
    let stop = Stop::on_signals_and_end_of_input()?;
    let mut plane = ControlPlane::start(options, &stop)?;
    say(&plane.description());
    while let Event::Line(line) = stop.next() {
        say(&orders::obey(&mut plane, &line, &stop));
    }
    plane.stop()
}

/// One line of JSON. The program that started us may have gone: the end of input tells that.
fn say(answer: &serde_json::Value) {
    drop(writeln!(std::io::stdout(), "{answer}"));
}
