//! A serving pair in two files, read as one.

use std::path::{Path, PathBuf};
use std::{fs, io};

use jiff::Timestamp;

use super::pair::{PairError, ServingPair};

/// The two files of a pair.
#[derive(Clone, Debug)]
pub struct PairFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// What the files held at one moment. Cannot be printed: it has the key.
#[derive(PartialEq, Eq)]
pub(super) struct Content {
    cert: Vec<u8>,
    key: Vec<u8>,
}

/// Why the files cannot be served with.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// They can be read, and their content cannot be served.
    #[error("cannot serve with {} and {}", files.cert.display(), files.key.display())]
    Pair {
        files: PairFiles,
        source: Box<PairError>,
    },
}

impl PairFiles {
    /// # Errors
    ///
    /// When a file cannot be read, or for any [`PairError`] at `now`; both name the files.
    pub fn load(&self, now: Timestamp) -> Result<ServingPair, FilesError> {
        self.parse(&self.read()?, now)
    }

    pub(super) fn read(&self) -> Result<Content, FilesError> {
        Ok(Content {
            cert: read(&self.cert)?,
            key: read(&self.key)?,
        })
    }

    pub(super) fn parse(
        &self,
        Content { cert, key }: &Content,
        now: Timestamp,
    ) -> Result<ServingPair, FilesError> {
        ServingPair::from_pem(cert, key, now).map_err(|source| FilesError::Pair {
            files: self.clone(),
            source: Box::new(source),
        })
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, FilesError> {
    fs::read(path).map_err(|source| FilesError::Read {
        path: path.to_owned(),
        source,
    })
}
