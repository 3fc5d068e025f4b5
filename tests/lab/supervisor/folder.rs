//! The folder of one run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// A folder that is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new folder, among the files that git ignores.
    pub(crate) fn new() -> Result<Self> {
        let made = tempfile::Builder::new().prefix("meshgate-lab-").tempdir()?;
        Ok(Self(made.keep()))
    }

    /// One that was made before, by [`Folder::keep`] in another process.
    pub(crate) fn given(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Leaves it to another process.
    pub(crate) fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.0.as_os_str().is_empty() {
            return;
        }
        // The caller who wanted it gone looks whether it is.
        fs::remove_dir_all(&self.0).ok();
    }
}
