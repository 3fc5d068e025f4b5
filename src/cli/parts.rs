//! What every part of the program is handed.

use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::{Latches, Shutdown, Tasks};
use crate::metrics::Metrics;

/// The handles that parts are started with.
pub(in crate::cli) struct Parts {
    pub(in crate::cli) shutdown: Shutdown,
    pub(in crate::cli) latches: Latches,
    pub(in crate::cli) tasks: Tasks,
    pub(in crate::cli) metrics: Arc<Metrics>,
    /// For loops that end as soon as the drain begins.
    pub(in crate::cli) stop: CancellationToken,
}

impl Parts {
    /// New ones, that signals stop. Inside a runtime only.
    pub(in crate::cli) fn new() -> anyhow::Result<Self> {
        let shutdown = Shutdown::on_signals().context("cannot listen for signals")?;
        let tasks = Tasks::new(shutdown.clone());
        Ok(Self {
            latches: Latches::new(),
            metrics: Arc::new(Metrics::new()),
            stop: stop(&tasks, &shutdown),
            shutdown,
            tasks,
        })
    }
}

/// A token for loops that end as soon as the drain begins.
fn stop(tasks: &Tasks, shutdown: &Shutdown) -> CancellationToken {
    let stop = CancellationToken::new();
    let (shutdown, cancelled) = (shutdown.clone(), stop.clone());
    tasks.spawn("stop", async move {
        shutdown.draining().await;
        cancelled.cancel();
    });
    stop
}
