//! Where the certificate that is served with comes from, and following it while serving.

mod files;
mod secret;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::certs::throwaway::Prepared;
use crate::controllers::certificates::secret::Place;
use crate::lifecycle::Latch;
use crate::metrics::Metrics;
use crate::server::tls::LivePair;

use crate::kube_api::wall_clock as now;

/// How often the end of the certificate that is served is looked at.
const INTERVAL: Duration = Duration::from_secs(2);

/// Where the certificate comes from.
pub(super) enum Certificates {
    /// Files, that were there or have been made.
    Files(Prepared),
    /// A Secret, through the API.
    Secret(Place),
}

impl Certificates {
    /// The file of the CA, if there is one.
    pub(super) fn ca_path(&self) -> Option<&Path> {
        match self {
            Self::Files(files) => files.ca_path.as_deref(),
            Self::Secret(_) => None,
        }
    }
}

/// What is served with, and where to say so.
pub(super) struct Following {
    pub(super) pair: LivePair,
    pub(super) metrics: Arc<Metrics>,
    pub(super) latch: Latch,
}

impl Following {
    /// Says in the readiness until when what is served is valid: nobody could call after that.
    fn tell_end(&self, remark: &str) {
        let Some(pair) = self.pair.current() else {
            return self.latch.close(remark);
        };
        let end = pair.not_after();
        if end > now() {
            self.latch.open_with(format!("valid until {end}{remark}"));
        } else {
            self.latch.close(format!("expired at {end}{remark}"));
        }
    }
}

/// Follows it until told to stop.
pub(super) async fn follow(
    certificates: Certificates,
    following: Following,
    stop: CancellationToken,
) {
    let follow = async {
        match certificates {
            Certificates::Files(files) => files::follow(files, &following).await,
            Certificates::Secret(place) => secret::follow(place, &following).await,
        }
    };
    stop.run_until_cancelled(follow).await;
}
