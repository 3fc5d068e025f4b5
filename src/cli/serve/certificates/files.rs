//! Following certificate files while serving.

use std::fs;
use std::path::PathBuf;

use crate::certs::mount;
use crate::certs::reload::Follower;
use crate::certs::throwaway::Prepared;

use super::super::now;
use crate::controllers::certificates::follower::{Following, INTERVAL};

/// Follows the files until it is dropped.
pub(super) async fn follow(files: Prepared, following: &Following) {
    warn_if_frozen(&files);
    let follower = Follower::new(files.cert_path, files.key_path);
    let mut looks = tokio::time::interval(INTERVAL);
    let expiry = async {
        loop {
            looks.tick().await;
            following.tell_end("");
        }
    };
    let swap = |new| following.pair.swap(new);
    let follow = follower.run(now, swap, |_| following.metrics.certificate_refused());
    tokio::join!(expiry, follow);
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
