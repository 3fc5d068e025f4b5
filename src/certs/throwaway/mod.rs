//! The certificate files of a standalone server: made if there are none, else loaded.
//!
//! Owns the folder of `--certs-dir`. A throw-away CA's key exists only while its one certificate
//! is signed and is never written anywhere.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::chain;
use super::files::{self, FilesError, PairFiles};
use super::issue::{Authority, IssueError};
use super::pair::{PairError, ServingPair};

/// By this subject a CA is known to be one that meshgate made and may replace.
const CA_NAME: &str = "meshgate throw-away CA";
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const CA_FILE: &str = "ca.crt";
const CERT_FILE: &str = "tls.crt";
const KEY_FILE: &str = "tls.key";

/// The certificate folder as it is after [`prepare`].
#[derive(Debug)]
pub struct Prepared {
    pub pair: ServingPair,
    /// The file of the CA that callers have to trust; `None` when only a pair was given.
    pub ca_path: Option<PathBuf>,
    /// Whether the files were there or have just been made.
    pub origin: Origin,
    pub pair_files: PairFiles,
}

/// Where the files came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// They were there.
    Found,
    /// There were none, so they have been made.
    Made,
    /// Throw-away ones were there but of no more use (expired, or for another address).
    MadeAnew,
}

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ThrowawayError {
    #[error(
        "{} has {present} but not {missing}; add what is missing, or remove the rest to have throw-away certificates made", dir.display()
    )]
    Incomplete {
        dir: PathBuf,
        present: String,
        missing: String,
    },
    /// The files that were given cannot be served with.
    #[error("the certificates given in {} cannot be used; replace them, or remove all three files to have throw-away ones made", dir.display())]
    Given { dir: PathBuf, source: FilesError },
    #[error("cannot make throw-away certificates")]
    Issue(#[from] IssueError),
    /// What was just made does not load; a bug of ours.
    #[error("the throw-away certificates just made cannot be used")]
    Made(#[source] Box<PairError>),
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// By which names and addresses callers come, besides localhost and the loopback addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl From<IpAddr> for Names {
    /// The address that is listened on.
    fn from(listen: IpAddr) -> Self {
        let names = Self(["localhost", "127.0.0.1", "::1"].map(str::to_owned).into());
        // "All addresses" is not an address that can be called.
        if listen.is_unspecified() {
            names
        } else {
            names.and_host(&listen.to_string())
        }
    }
}

impl Names {
    /// Adds the host of a URL by which we are called: an address or a name.
    #[must_use]
    pub fn and_host(mut self, host: &str) -> Self {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = match bare.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => host.to_ascii_lowercase(),
        };
        if !self.0.contains(&name) {
            self.0.push(name);
        }
        self
    }
}

/// Makes sure that `dir` holds a serving pair, and loads it.
///
/// Nothing there: a CA and a certificate for localhost, the loopback addresses and `names` are
/// made, valid 30 days. Throw-away ones that have expired or do not name `names` are made anew.
/// Given ones are loaded as they are.
///
/// # Errors
///
/// Files that are incomplete, given ones that are refused, and a folder that cannot be written.
pub fn prepare(
    dir: &Path,
    names: impl Into<Names>,
    now: Timestamp,
) -> Result<Prepared, ThrowawayError> {
    let names = &names.into();
    let folder = Folder::at(dir);
    match (folder.pair.cert.exists(), folder.pair.key.exists()) {
        (true, true) => folder.load(names, now),
        (false, false) if !folder.ca.exists() => folder.make(names, now, Origin::Made),
        _ => Err(folder.incomplete()),
    }
}

struct Folder {
    dir: PathBuf,
    ca: PathBuf,
    pair: PairFiles,
}

impl Folder {
    fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            ca: dir.join(CA_FILE),
            pair: PairFiles {
                cert: dir.join(CERT_FILE),
                key: dir.join(KEY_FILE),
            },
        }
    }

    fn load(&self, names: &Names, now: Timestamp) -> Result<Prepared, ThrowawayError> {
        let ours = is_throwaway(&self.ca);
        match self.pair.load(now) {
            Ok(pair) if ours && !names.0.iter().all(|name| pair.is_for(name)) => {
                self.make(names, now, Origin::MadeAnew)
            }
            Ok(pair) => Ok(self.prepared(pair, Origin::Found)),
            Err(FilesError::Pair { source, .. })
                if ours && matches!(*source, PairError::Expired { .. }) =>
            {
                self.make(names, now, Origin::MadeAnew)
            }
            Err(source) => Err(ThrowawayError::Given {
                dir: self.dir.clone(),
                source,
            }),
        }
    }

    fn make(
        &self,
        names: &Names,
        now: Timestamp,
        origin: Origin,
    ) -> Result<Prepared, ThrowawayError> {
        let authority = Authority::new(CA_NAME, LIFETIME, now)?;
        let issued = authority.issue(&names.0, LIFETIME, now)?;
        let (cert, key) = (issued.cert_pem.as_bytes(), issued.key_pem.as_bytes());
        let pair = ServingPair::from_pem(cert, key, now)
            .map_err(|error| ThrowawayError::Made(Box::new(error)))?;

        fs::create_dir_all(&self.dir).map_err(|source| ThrowawayError::Write {
            path: self.dir.clone(),
            source,
        })?;
        write(&self.pair.key, key, 0o600)?;
        write(&self.pair.cert, cert, 0o644)?;
        write(&self.ca, authority.cert_pem().as_bytes(), 0o644)?;
        Ok(self.prepared(pair, origin))
    }

    fn prepared(&self, pair: ServingPair, origin: Origin) -> Prepared {
        Prepared {
            pair,
            ca_path: self.ca.exists().then(|| self.ca.clone()),
            origin,
            pair_files: self.pair.clone(),
        }
    }

    fn incomplete(&self) -> ThrowawayError {
        let named = |names: &[&str], are_there: bool| {
            let mut names = names.to_vec();
            names.retain(|name| self.dir.join(name).exists() == are_there);
            names.join(" and ")
        };
        ThrowawayError::Incomplete {
            dir: self.dir.clone(),
            present: named(&[CA_FILE, CERT_FILE, KEY_FILE], true),
            // A pair without its CA is complete.
            missing: named(&[CERT_FILE, KEY_FILE], false),
        }
    }
}

fn is_throwaway(ca: &Path) -> bool {
    let text = files::read(ca).unwrap_or_default();
    let chain = chain::read(&text).unwrap_or_default();
    let subject = chain.first().map(|ca| ca.subject.as_str());
    subject.and_then(|subject| subject.strip_prefix("CN=")) == Some(CA_NAME)
}

/// Writes a file so that readers see the old content or the new, never a part, and only the owner
/// can ever read a key.
fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), ThrowawayError> {
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    let written = write_new(&temporary, content, mode).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| {
        // What is left of a failed attempt is only in the way; the first error is the one to tell.
        drop(fs::remove_file(&temporary));
        ThrowawayError::Write {
            path: path.to_owned(),
            source,
        }
    })
}

fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
