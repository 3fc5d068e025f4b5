//! What the commands share that an administrator changes a cluster with.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use kube::Client;

use super::output::{self, OutputArgs};
use super::sources;

#[derive(Debug, clap::Args)]
pub(super) struct ChangeArgs {
    /// The cluster's kubeconfig [default: as kubectl finds it, else the pod's own]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(super) yes: bool,

    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

impl ChangeArgs {
    /// A client for the cluster, and the cluster's address.
    pub(super) async fn connect(&self) -> anyhow::Result<(Client, String)> {
        self.in_time(sources::connect(self.kubeconfig.as_deref()))
            .await
    }

    pub(super) fn limit(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// Limits the time that the API server may take; an administrator who is asked may take longer.
    pub(super) async fn in_time<T, E: Into<anyhow::Error>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> anyhow::Result<T> {
        match tokio::time::timeout(self.limit(), work).await {
            Ok(done) => done.map_err(Into::into),
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
