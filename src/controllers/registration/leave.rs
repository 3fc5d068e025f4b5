//! The last look: takes the registration away if meshgate's namespace is being deleted.

use std::sync::Arc;
use std::time::Duration;

use super::observed::InstallNamespace;
use super::{BUNDLE, Reconciler, calls};

/// How long it may take.
const LAST_LOOK: Duration = Duration::from_secs(3);

impl Reconciler {
    pub(super) async fn leave_in_time(&mut self) {
        if tokio::time::timeout(LAST_LOOK, self.leave()).await.is_err() {
            tracing::debug!(
                "stopped before it was known whether meshgate's namespace is being deleted"
            );
        }
    }

    /// When it is told to stop, what is written stays. But the deletion of meshgate's namespace stops this
    /// process as well, maybe before the watch reports it.
    async fn leave(&mut self) {
        let context = Arc::clone(&self.context);
        let namespace = &context.form.settings.namespace;
        let found = calls::install_namespace(&context.client, namespace).await;
        if !matches!(found, Ok((InstallNamespace::Terminating, _))) {
            return;
        }
        loop {
            match self.look(&mut None).await {
                Ok(None) => {}
                Ok(Some(_)) => return,
                // There is no later look: retry for as long as there is time.
                Err(_) => tokio::time::sleep(BUNDLE).await,
            }
        }
    }
}
