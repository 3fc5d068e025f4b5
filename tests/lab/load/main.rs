//! Creates pods without a pause, and counts what became of them.
//!
//! For people, in a shell of the lab: `load NAMESPACE` until Ctrl-C or for `--seconds 60`, with a line
//! for each second in which something failed. For tests, with `--obey`: `phase NAME` on standard input
//! begins to count anew, `count` and the end of input are answered by one line of JSON.
//!
//! Creates are begun at a steady rate, in bursts, whatever became of those before. Nearly all are dry runs; one in
//! ten is stored, for no scheduler, and deleted. A create is *refused* when a webhook or a policy looked at the pod
//! and said no, *failed* when the API server could not ask whom it had to, *unanswered* when the API
//! server itself did not answer. *Bare* is one that came without the container that it requires.

#![expect(
    clippy::print_stdout,
    reason = "a program of its own, for people and for tests"
)]

mod counts;
mod create;

use std::io::BufRead as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use meshgate::kube_api::client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::counts::Counts;

/// Creates pods at a steady rate, and counts those that fail.
#[derive(Clone, Debug, Parser)]
struct Cli {
    /// Where
    namespace: String,
    /// Who, and which cluster
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// Creates in a second
    #[arg(long, default_value_t = 20)]
    rate: u32,
    /// How many of them at once: controllers create in bursts, and only then does the API server have
    /// connections to all replicas of a webhook
    #[arg(long, default_value_t = 10)]
    burst: u32,
    /// For how long [default: until it is interrupted]
    #[arg(long)]
    seconds: Option<u64>,
    /// The container without which a pod is bare; empty if none is required
    #[arg(long, default_value = "linkerd-proxy")]
    requires: String,
    /// Obey standard input, for tests
    #[arg(long)]
    obey: bool,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(&cli))
}

enum Order {
    Phase(String),
    Count,
    End,
}

async fn run(cli: &Cli) -> Result<()> {
    let file = Kubeconfig::read_from(&cli.kubeconfig).context("--kubeconfig")?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let client = client::connect(&config)?;
    let counts = Arc::new(Counts::new(!cli.obey));
    let (send, mut orders) = mpsc::unbounded_channel();
    if cli.obey {
        std::thread::spawn(move || read(&send));
    } else {
        on_end(cli, send);
    }
    let mut creates = JoinSet::new();
    let mut ticks = interval(Duration::from_secs(1) * cli.burst / cli.rate.max(1));
    // A machine that was busy for a moment does not get a burst.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(Order::Phase(name)) => counts.begin(&name),
                Some(Order::Count) => println!("{}", counts.json()),
                Some(Order::End) | None => break,
            },
            Some(_) = creates.join_next() => {}
            _ = ticks.tick() => for _ in 0..cli.burst {
                let create = create::Create::new(&client, cli, counts.next());
                let counts = Arc::clone(&counts);
                creates.spawn(async move { create.runs(&counts).await });
            }
        }
    }
    while creates.join_next().await.is_some() {}
    if cli.obey {
        println!("{}", counts.json());
    } else {
        println!("{}", counts.sentence());
    }
    Ok(())
}

/// For people: until the time is over, or Ctrl-C.
fn on_end(cli: &Cli, send: mpsc::UnboundedSender<Order>) {
    let end = cli
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        if let Ok(runtime) = runtime {
            runtime.block_on(async {
                let time = async {
                    match end {
                        Some(end) => tokio::time::sleep_until(end).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = time => {}
                    _ = tokio::signal::ctrl_c() => {}
                }
            });
        }
        drop(send.send(Order::End));
    });
}

fn read(send: &mpsc::UnboundedSender<Order>) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let order = match line.split_once(' ') {
            Some(("phase", name)) => Order::Phase(name.to_owned()),
            _ => Order::Count,
        };
        drop(send.send(order));
    }
    drop(send.send(Order::End));
}
