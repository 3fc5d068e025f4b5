//! Every task has a name, is watched, and stops by the one [`Shutdown`].

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::Shutdown;

/// The program's long-running tasks.
///
/// Each is expected to run until the drain begins. One that ends or panics before that takes the
/// program down in order: it is better to be restarted than to run on without, say, the watch.
/// Clones are handles to the same set.
#[derive(Clone, Debug)]
pub struct Tasks {
    /// The shutdown that these tasks obey.
    pub(crate) shutdown: Shutdown,
    tracker: TaskTracker,
    failures: Arc<Mutex<Vec<TaskFailure>>>,
}

/// A task that ended when it should not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskFailure {
    /// It returned before the drain began.
    #[error("task {name} ended although the program was not asked to stop")]
    Ended { name: &'static str },
    /// It panicked, at whatever time.
    #[error("task {name} panicked: {message}")]
    Panicked { name: &'static str, message: String },
}

/// Many short tasks of one kind (connections, requests): they may end at any time, and a panic in
/// one is its own affair.
#[derive(Clone, Debug)]
pub struct Group {
    name: &'static str,
    tracker: TaskTracker,
}

impl Tasks {
    /// An empty set that stops by, and reports to, `shutdown`.
    pub fn new(shutdown: Shutdown) -> Self {
        Self {
            shutdown,
            tracker: TaskTracker::new(),
            failures: Arc::default(),
        }
    }

    /// Starts a task that lives as long as the program. It should end by itself once the shutdown
    /// drains; it is dropped when the shutdown aborts.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        let failures = Arc::clone(&self.failures);
        let watched = async move {
            // Not unwind-safe by type, but what the task held is dropped with it.
            let caught = AssertUnwindSafe(task).catch_unwind();
            let outcome = tokio::select! {
                outcome = caught => outcome,
                () = shutdown.aborted() => return,
            };
            let failure = match outcome {
                Ok(()) if shutdown.is_draining() => return,
                Ok(()) => TaskFailure::Ended { name },
                Err(panic) => {
                    let message = panic_text(&*panic).unwrap_or("no message").to_owned();
                    TaskFailure::Panicked { name, message }
                }
            };
            tracing::error!("{failure}; stopping the program");
            shutdown.drain(failure.to_string());
            failures.lock().push(failure);
        };
        let span = tracing::debug_span!("task", task = name);
        spawn_detached(self.tracker.track_future(watched.instrument(span)));
    }

    /// Waits until the shutdown has begun and every task has ended.
    ///
    /// # Errors
    ///
    /// The first task that ended or panicked when it should not have, if any did.
    pub async fn finished(&self) -> Result<(), TaskFailure> {
        self.shutdown.draining().await;
        self.tracker.close();
        self.tracker.wait().await;
        let first = self.failures.lock().first().cloned();
        first.map_or(Ok(()), Err)
    }
}

impl Group {
    /// An empty group; `name` is the name of the span around each of its tasks.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            tracker: TaskTracker::new(),
        }
    }

    /// Starts one short task.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let span = tracing::debug_span!("task", task = self.name);
        spawn_detached(self.tracker.track_future(task.instrument(span)));
    }

    /// How many are running.
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Whether none is running.
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Waits until none is running.
    pub async fn finished(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place from which tasks are started"
)]
pub(super) fn spawn_detached(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

/// What a panic says, if that is a text.
pub fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
