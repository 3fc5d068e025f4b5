//! What the parts of a long-running command share.

use std::net::TcpListener;
use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use crate::leader::Reporting;
use crate::lifecycle::{HealthChecks, Shutdown, Tasks};
use crate::metrics::{self, Metrics};
use crate::server::admin::{self, Admin, Exposition, Health};

use super::output::{Done, Exit};

/// Runs a command to its end.
pub(in crate::cli) fn block_on<T>(
    command: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(command)
}

/// The handles that each part gets.
pub(in crate::cli) struct Runtime {
    pub(in crate::cli) shutdown: Shutdown,
    pub(in crate::cli) checks: HealthChecks,
    pub(in crate::cli) tasks: Tasks,
    pub(in crate::cli) metrics: Arc<Metrics>,
    /// For loops that end as soon as the drain begins.
    pub(in crate::cli) stop: CancellationToken,
}

impl Runtime {
    /// Listens for signals from now on. Only inside [`block_on`].
    pub(in crate::cli) fn new() -> anyhow::Result<Self> {
        let shutdown = Shutdown::on_signals().context("cannot listen for signals")?;
        let tasks = Tasks::new(shutdown.clone());
        let stop = CancellationToken::new();
        let (draining, cancelled) = (shutdown.clone(), stop.clone());
        tasks.spawn("stop", async move {
            draining.draining().await;
            cancelled.cancel();
        });
        Ok(Self {
            checks: HealthChecks::default(),
            metrics: Arc::new(Metrics::default()),
            stop,
            shutdown,
            tasks,
        })
    }

    /// What a part reports with: the metrics, and a line of its own in `/readyz?verbose`.
    pub(in crate::cli) fn reporting(&self, name: &'static str) -> Reporting {
        Reporting {
            metrics: Arc::clone(&self.metrics),
            check: self.checks.add(name),
        }
    }

    /// Answers probes from now on. `set` sets what is only measured when the metrics are read.
    pub(in crate::cli) fn answer_probes(
        &self,
        listener: TcpListener,
        set: impl Fn(&Metrics) + Send + Sync + 'static,
    ) -> anyhow::Result<Admin> {
        let health = Health::new(self.checks.clone(), self.shutdown.clone());
        let metrics = Arc::clone(&self.metrics);
        let scrape = Arc::new(move || {
            set(&metrics);
            Exposition {
                content_type: metrics::CONTENT_TYPE,
                body: metrics.encode(),
            }
        });
        admin::start(listener, health, scrape).context("cannot serve probes")
    }

    /// Waits until all has ended. Probes are answered until then.
    pub(in crate::cli) async fn finish(self, probes: Admin) -> Done {
        let finished = self.tasks.finished().await;
        tracing::info!(cause = self.shutdown.cause(), "stopped");
        drop(probes);
        finished?;
        Ok(Exit::Fine)
    }
}
