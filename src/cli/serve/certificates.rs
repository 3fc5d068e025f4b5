//! Following the certificate files while serving.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::certs::mount;
use crate::certs::reload::Follower;
use crate::certs::throwaway::Prepared;
use crate::lifecycle::Latch;
use crate::metrics::Metrics;
use crate::server::tls::LivePair;

use super::now;

/// How often the end of the certificate that is served is looked at.
const INTERVAL: Duration = Duration::from_secs(2);

/// Follows the files, and says in the readiness until when what is served is valid: nobody could
/// call after that.
pub(super) async fn follow(
    files: Prepared,
    pair: LivePair,
    metrics: Arc<Metrics>,
    latch: Latch,
    stop: CancellationToken,
) {
    warn_if_frozen(&files);
    let follower = Follower::new(files.cert_path, files.key_path);
    let mut looks = tokio::time::interval(INTERVAL);
    let expiry = async {
        loop {
            looks.tick().await;
            let end = pair.current().not_after();
            if end > now() {
                latch.open_with(format!("valid until {end}"));
            } else {
                latch.close(format!("expired at {end}"));
            }
        }
    };
    let follow = follower.run(now, |new| pair.swap(new), |_| metrics.certificate_refused());
    stop.run_until_cancelled(async { tokio::join!(expiry, follow) })
        .await;
}

fn warn_if_frozen(files: &Prepared) {
    // Only Linux has this file, and only there do Secrets get mounted.
    let Ok(mountinfo) = fs::read_to_string("/proc/self/mountinfo") else {
        return;
    };
    let canonical = |path: &PathBuf| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    let paths = [&files.cert_path, &files.key_path];
    let paths: Vec<PathBuf> = paths.into_iter().filter_map(canonical).collect();
    if let Some(path) = mount::frozen(&mountinfo, &paths) {
        tracing::warn!(
            path = %path.display(),
            "mounted with subPath: Kubernetes never updates such a file, so a renewed certificate \
             will not be seen; mount the whole Secret as a folder"
        );
    }
}
