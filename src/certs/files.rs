//! A serving pair in two files, read as one.

use std::path::{Path, PathBuf};
use std::{fs, io};

use jiff::Timestamp;

use super::pair::{PairError, ServingPair};

/// Why the files cannot be served with.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file that cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Files that can be read, with a content that cannot be served.
    #[error("cannot serve with {} and {}", cert.display(), key.display())]
    Pair {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why not.
        source: Box<PairError>,
    },
}

/// Reads a pair from a certificate file and a key file.
///
/// # Errors
///
/// When a file cannot be read, or for any [`PairError`] at `now`; both name the files.
pub fn load(cert_path: &Path, key_path: &Path, now: Timestamp) -> Result<ServingPair, FilesError> {
    let cert = read(cert_path)?;
    let key = read(key_path)?;
    parse((cert_path, &cert), (key_path, &key), now)
}

/// The pair in two contents, of which the files are told in an error.
pub(super) fn parse(
    (cert_path, cert): (&Path, &[u8]),
    (key_path, key): (&Path, &[u8]),
    now: Timestamp,
) -> Result<ServingPair, FilesError> {
    ServingPair::from_pem(cert, key, now).map_err(|source| FilesError::Pair {
        cert: cert_path.to_owned(),
        key: key_path.to_owned(),
        source: Box::new(source),
    })
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, FilesError> {
    fs::read(path).map_err(|source| FilesError::Read {
        path: path.to_owned(),
        source,
    })
}
