//! Whether a folder of certificates can change at all: files that Kubernetes mounts with `subPath`
//! stay as they were when the pod started, for ever (case 51).

use std::path::{Path, PathBuf};

/// The first of `files` that is mounted by itself, or lies in a folder that is a `subPath` of a
/// volume, according to `mountinfo` (see proc(5)). Paths must be free of links and dots.
#[must_use]
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
    files
        .iter()
        .map(PathBuf::as_path)
        .find(|file| is_frozen(file))
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
mod tests {
    use super::*;

    const POD: &str = "\
611 500 0:90 / / rw,relatime - overlay overlay rw
620 611 0:88 / /certs/whole ro,relatime - tmpfs tmpfs rw
621 611 0:89 /..2026_03_01_12_00_00.123/tls.crt /certs/file/tls.crt ro,relatime - tmpfs tmpfs rw
622 611 8:1 /var/lib/kubelet/pods/1/volume-subpaths/tls/serve/0 /certs/with\\040blank ro - ext4 /dev/sda1 rw
623 611 0:87 /..2026_03_01_12_00_00.123/inner /certs/folder ro,relatime - tmpfs tmpfs rw";

    #[test]
    fn only_what_is_mounted_by_sub_path_is_frozen() {
        for (folder, expected) in [
            ("/certs/whole", None),
            ("/elsewhere", None),
            ("/certs/file", Some("/certs/file/tls.crt")),
            ("/certs/folder", Some("/certs/folder/tls.key")),
            ("/certs/with blank", Some("/certs/with blank/tls.key")),
        ] {
            let files = ["tls.key", "tls.crt"].map(|name| Path::new(folder).join(name));
            assert_eq!(frozen(POD, &files), expected.map(Path::new), "{folder}");
        }
    }

    #[test]
    fn this_machine_can_be_asked() {
        let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let file = std::env::temp_dir().join("tls.crt");
        assert_eq!(frozen(&mountinfo, &[file]), None);
    }
}
