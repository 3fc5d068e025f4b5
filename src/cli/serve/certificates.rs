//! Where the serving certificate comes from, and how a replica follows it.

use std::fs;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use crate::certs::mount;
use crate::certs::reload::Follower;
use crate::certs::throwaway::Prepared;
use crate::controllers::certificates::follower::{self, Following, INTERVAL};
use crate::controllers::certificates::secret::SecretRef;
use crate::lifecycle::wall_clock;

pub(super) enum Certificates {
    /// In `--certs-dir`.
    Files(Prepared),
    /// Read through the API.
    Secret(SecretRef),
}

impl Certificates {
    /// Serves with each new certificate, until told to stop.
    pub(super) async fn follow(self, following: Following, stop: CancellationToken) {
        let follow = async {
            match self {
                Self::Files(files) => follow_files(files, &following).await,
                Self::Secret(secret) => follower::follow(secret, &following).await,
            }
        };
        stop.run_until_cancelled(follow).await;
    }
}

async fn follow_files(files: Prepared, following: &Following) {
    warn_if_frozen(&files);
    let follower = Follower::new(files.pair_files);
    let mut looks = tokio::time::interval(INTERVAL);
    let expiry = async {
        loop {
            looks.tick().await;
            following.tell_end("");
        }
    };
    let swap = |new| following.pair.swap(new);
    let follow = follower.run(wall_clock, swap, |_| {
        following.metrics.certificate_refusals.inc();
    });
    tokio::join!(expiry, follow);
}

fn warn_if_frozen(files: &Prepared) {
    // Only Linux has this file, and only there does Kubernetes mount Secrets.
    let Ok(mountinfo) = fs::read_to_string("/proc/self/mountinfo") else {
        return;
    };
    let canonical = |path: &PathBuf| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    let paths = [&files.pair_files.cert, &files.pair_files.key];
    let paths: Vec<PathBuf> = paths.into_iter().filter_map(canonical).collect();
    if let Some(path) = mount::frozen(&mountinfo, &paths) {
        tracing::warn!(
            path = %path.display(),
            "mounted with subPath: Kubernetes never updates such a file, so meshgate will not see a \
             renewed certificate; mount the whole Secret as a directory"
        );
    }
}
