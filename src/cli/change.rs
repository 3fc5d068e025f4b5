//! What the commands share that an administrator changes a cluster with.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use kube::Client;

use crate::cluster::watch;

use super::cluster_config;
use super::output::{self, Format};

#[derive(Debug, clap::Args)]
pub(super) struct ChangeArgs {
    /// Whose cluster [default: as kubectl finds it, else the pod's own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Do not ask
    #[arg(long, short)]
    pub(super) yes: bool,

    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,

    /// Form of the answer
    #[arg(long, short, value_enum, default_value = "table")]
    pub(super) output: Format,
}

impl ChangeArgs {
    /// A client for the cluster, and the cluster's address.
    pub(super) async fn connect(&self) -> anyhow::Result<(Client, String)> {
        let config = self
            .in_time(cluster_config(self.kubeconfig.as_deref()))
            .await?;
        let client =
            watch::connect(&config).context("cannot set up a client for the API server")?;
        Ok((client, config.cluster_url.to_string()))
    }

    pub(super) fn limit(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// Limits the time that the API server may take; an administrator who is asked may take longer.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        match tokio::time::timeout(self.limit(), work).await {
            Ok(done) => done,
            Err(_) => bail!("not done within {} s; run it again to go on", self.timeout),
        }
    }

    /// Asks the administrator, unless `--yes` is given.
    pub(super) fn is_agreed(&self, question: &str) -> anyhow::Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if !io::stdin().is_terminal() {
            bail!("standard input is no terminal, so meshgate cannot ask: give --yes to do it");
        }
        output::print(&format!("{question} [y/N] "))?;
        io::stdout().flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}
