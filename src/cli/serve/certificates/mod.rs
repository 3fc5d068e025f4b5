//! Where the certificate that is served with comes from, and following it while serving.

mod files;

use std::path::Path;

use tokio_util::sync::CancellationToken;

use crate::certs::throwaway::Prepared;
use crate::controllers::certificates::follower::{self, Following};
use crate::controllers::certificates::secret::SecretRef;

/// Where the certificate comes from.
pub(super) enum Certificates {
    /// Files, that were there or have been made.
    Files(Prepared),
    /// A Secret, through the API.
    Secret(SecretRef),
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

/// Follows it until told to stop.
pub(super) async fn follow(
    certificates: Certificates,
    following: Following,
    stop: CancellationToken,
) {
    let follow = async {
        match certificates {
            Certificates::Files(files) => files::follow(files, &following).await,
            Certificates::Secret(place) => follower::follow(place, &following).await,
        }
    };
    stop.run_until_cancelled(follow).await;
}
