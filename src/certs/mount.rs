//! Whether a folder of certificates can change at all: files that Kubernetes mounts with `subPath`
//! stay as they were when the pod started, for ever (case 51).

use std::path::{Path, PathBuf};

/// The first of `files` that is mounted by itself, or lies in a folder that is a `subPath` of a
/// volume, according to `mountinfo` (see proc(5)). Paths must be free of links and dots.
pub fn frozen<'f>(mountinfo: &str, files: &'f [PathBuf]) -> Option<&'f Path> {
    let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::read).collect();
    let is_frozen = |file: &Path| {
        let same = mounts.iter().any(|mount| file == Path::new(&mount.point));
        let below = mounts
            .iter()
            .filter(|mount| file.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.len());
        same || below.is_some_and(Mount::is_sub_path)
    };
    let mut files = files.iter().map(PathBuf::as_path);
    files.find(|file| is_frozen(file))
}

/// What is read in a line: `ID PARENT DEVICE ROOT POINT …`.
struct Mount<'m> {
    /// Which folder or file of the volume is seen at the mount point.
    root: &'m str,
    point: String,
}

impl<'m> Mount<'m> {
    fn read(line: &'m str) -> Option<Self> {
        let mut fields = line.split(' ').skip(3);
        Some(Self {
            root: fields.next()?,
            // The kernel writes blanks in octal.
            point: fields.next()?.replace("\\040", " "),
        })
    }

    /// The kubelet keeps each generation of a Secret in a folder like `..2026_03_01_12_00_00.1`.
    fn is_sub_path(&self) -> bool {
        self.root.contains("/..") || self.root.contains("/volume-subpaths/")
    }
}

#[cfg(test)]
#[path = "mount_tests.rs"]
mod tests;
