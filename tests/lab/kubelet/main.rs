//! A stand-in for the kubelet of one Node of a lab with a network (see `tests/lab/supervisor/network`).
//!
//! It runs in the network namespace of its Node. For each container whose image it knows it starts the
//! real program, in a network namespace with the pod's own address and on a root of its own, with the
//! arguments, environment, volumes, token and probes of the pod's spec; all other containers are only
//! said to run. Everything else (what is scheduled, what counts as an endpoint, what is replaced) is
//! left to the real components. A test that kills its process group has killed the Node.

#![expect(
    clippy::print_stderr,
    reason = "a program of its own, whose log is its standard error"
)]

mod container;
mod environment;
mod network;
mod node;
mod pods;
mod probes;
mod sandbox;
mod status;
mod unverified;
mod volumes;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use meshgate::kube_api::client;

/// A stand-in for the kubelet of one Node.
#[derive(Clone, Debug, Parser)]
struct Cli {
    /// The Node's name: `nodeN`, whose pods have addresses of 10.244.N.0/24, or any other, on which
    /// nothing really runs
    #[arg(long)]
    node: String,
    /// The lab's
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The API server, instead of the kubeconfig's
    #[arg(long)]
    server: String,
    /// Seconds between two signs of life
    #[arg(long, default_value_t = 10)]
    interval: u64,
    /// What is started for an image whose last part has that name, as in `meshgate=target/debug/meshgate`
    #[arg(long = "program", value_name = "NAME=PATH")]
    programs: Vec<Program>,
}

/// An image and what is started for it.
#[derive(Clone, Debug)]
struct Program {
    name: String,
    path: PathBuf,
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = text.split_once('=').ok_or("expected NAME=PATH")?;
        Ok(Self {
            name: name.to_owned(),
            path: path.into(),
        })
    }
}

impl Cli {
    /// The N of `nodeN`.
    fn number(&self) -> Option<u8> {
        self.node.strip_prefix("node")?.parse().ok()
    }

    /// The Node's own address.
    fn address(&self) -> String {
        match self.number() {
            Some(number) => format!("10.0.0.1{number}"),
            None => "10.0.0.1".to_owned(),
        }
    }

    /// What is started for an image, if it is one of those that really run, here.
    fn program_of(&self, image: &str) -> Option<&Program> {
        self.number()?;
        let last = image.rsplit('/').next()?;
        let name = last.split([':', '@']).next()?;
        self.programs.iter().find(|program| program.name == name)
    }

    async fn connect(&self) -> Result<Client> {
        let file = Kubeconfig::read_from(&self.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(file, &options).await?;
        config.cluster_url = self.server.parse().context("--server")?;
        Ok(client::connect(&config)?)
    }
}

/// How long one call of the API may take.
const CALL: Duration = Duration::from_secs(5);

#[expect(
    clippy::disallowed_methods,
    reason = "a program of its own, with the one clock"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        network::clean(&cli).await?;
        let client = cli.connect().await?;
        node::register(&cli, &client).await;
        tokio::select! {
            never = node::lives(&cli) => never,
            never = pods::run(&cli, &client) => never,
        }
    })
}
