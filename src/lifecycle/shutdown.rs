//! Stopping in two stages: drain first, abort if asked again.

use std::io;
use std::sync::{Arc, OnceLock};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The one signal by which everything in the program is stopped.
///
/// Clones are handles to the same signal. It goes through two stages, never back: *draining*
/// (finish what has begun, take nothing new once the caller's delay is over) and *aborted* (drop
/// everything now). Aborting implies draining. The default one has not begun, and listens to no
/// signals.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    draining: CancellationToken,
    aborted: CancellationToken,
    cause: Arc<OnceLock<String>>,
}

impl Shutdown {
    /// A shutdown driven by SIGTERM and SIGINT: the first of either starts the drain, the second
    /// aborts at once.
    ///
    /// The handlers are in place when this returns, so that a signal during the start is not lost.
    ///
    /// # Errors
    ///
    /// When the operating system refuses to install a signal handler.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::default();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let told = shutdown.clone();
        super::task::spawn_detached(async move {
            let mut next = async || {
                tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                }
            };
            let first = next().await;
            tracing::info!(
                signal = first,
                "stopping; a second signal ends the program at once"
            );
            told.drain(first);
            let second = next().await;
            tracing::warn!(signal = second, "asked again: ending without finishing");
            told.abort(second);
        });
        Ok(shutdown)
    }

    /// Starts the drain. `cause` is kept for the report at the end if it is the first.
    pub fn drain(&self, cause: impl Into<String>) {
        self.cause.get_or_init(|| cause.into());
        self.draining.cancel();
    }

    /// Stops everything now; starts the drain too if it has not begun.
    pub fn abort(&self, cause: impl Into<String>) {
        self.drain(cause);
        self.aborted.cancel();
    }

    /// Completes as soon as the drain has been asked for.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Completes as soon as an abort has been asked for.
    pub async fn aborted(&self) {
        self.aborted.cancelled().await;
    }

    /// Whether the drain has begun.
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Why the program is stopping: the first cause given; `None` while it is not.
    pub fn cause(&self) -> Option<&str> {
        self.cause.get().map(String::as_str)
    }
}

#[cfg(test)]
#[path = "shutdown_tests.rs"]
mod tests;
