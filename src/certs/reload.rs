//! Following the files of a serving pair, so that a renewed one is served without a restart.
//!
//! Looks at the content every few seconds. That needs no notice from the file system and so works
//! for everything that renews certificates: tools that write in place, that rename, and the way
//! Kubernetes swaps a mounted Secret, a link to a folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::sleep;

use super::files::{self, FilesError};
use super::pair::{PairError, ServingPair};
use crate::telemetry::with_causes;

/// How often the files are looked at.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// The two files of a pair, and what was in them when they were last looked at.
#[derive(Debug)]
pub struct Follower {
    cert_path: PathBuf,
    key_path: PathBuf,
    seen: Seen,
    /// The pair that was seen last is whole but not valid yet.
    too_early: bool,
}

/// The last generation of the files, so that each is used, or refused, once.
#[derive(Debug, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Nothing,
    Unreadable(String),
    Content(Content),
}

#[derive(PartialEq, Eq)]
struct Content {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}

impl Follower {
    /// Follows these two files; the first look counts their present content as new.
    #[must_use]
    pub fn new(cert_path: PathBuf, key_path: PathBuf) -> Self {
        Self {
            cert_path,
            key_path,
            seen: Seen::Nothing,
            too_early: false,
        }
    }

    /// The pair in the files, if their content has changed since the last look; `None` if not.
    ///
    /// # Errors
    ///
    /// Why a new content cannot be served with, once for each. A pair that was read in the middle
    /// of an update is one of these, and the rest of the update is the next new content. A pair
    /// that is not valid yet is given later, once it is.
    pub fn look(&mut self, now: Timestamp) -> Result<Option<ServingPair>, FilesError> {
        let content = match read_both(&self.cert_path, &self.key_path) {
            Ok(content) => content,
            Err(error) => {
                self.too_early = false;
                let news = self.remember(Seen::Unreadable(error.to_string()));
                return if news { Err(error) } else { Ok(None) };
            }
        };
        let pair = files::parse(
            (&self.cert_path, &content.cert),
            (&self.key_path, &content.key),
            now,
        );
        let was_too_early = std::mem::replace(&mut self.too_early, is_too_early(&pair));
        if self.remember(Seen::Content(content)) || was_too_early && !self.too_early {
            pair.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Gives every new pair to `on_pair`, and every refusal to the log and to `on_refused`, until
    /// it is dropped. What was served before stays in use after a refusal.
    pub async fn run(
        mut self,
        clock: impl Fn() -> Timestamp,
        on_pair: impl Fn(ServingPair),
        on_refused: impl Fn(&FilesError),
    ) {
        loop {
            match self.look(clock()) {
                Ok(None) => {}
                Ok(Some(pair)) => {
                    let (subject, until) = (pair.subject(), pair.not_after());
                    tracing::info!(subject, %until, "serving with the certificate in the files");
                    on_pair(pair);
                }
                Err(error) => {
                    tracing::error!(
                        error = with_causes(&error),
                        "the certificate files are refused, the last good pair stays in use"
                    );
                    on_refused(&error);
                }
            }
            sleep(INTERVAL).await;
        }
    }

    /// Whether this differs from what was seen last.
    fn remember(&mut self, now: Seen) -> bool {
        let news = self.seen != now;
        self.seen = now;
        news
    }
}

fn is_too_early(pair: &Result<ServingPair, FilesError>) -> bool {
    let Err(FilesError::Pair { source, .. }) = pair else {
        return false;
    };
    matches!(**source, PairError::NotYetValid { .. })
}

fn read_both(cert: &Path, key: &Path) -> Result<Content, FilesError> {
    Ok(Content {
        cert: files::read(cert)?,
        key: files::read(key)?,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;
    use crate::certs::issue::{Authority, Issued, Request};

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn issued() -> Issued {
        let day = Duration::from_secs(86_400);
        let authority = Authority::new("test CA", day, now()).unwrap();
        let request = Request {
            name: "leaf",
            dns_names: &[],
            addresses: &[],
            lifetime: day,
        };
        authority.issue(&request, now()).unwrap()
    }

    fn put(dir: &Path, issued: &Issued) {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("tls.crt"), &issued.cert_pem).unwrap();
        fs::write(dir.join("tls.key"), &issued.key_pem).unwrap();
    }

    fn follow(dir: &Path) -> Follower {
        Follower::new(dir.join("tls.crt"), dir.join("tls.key"))
    }

    #[test]
    fn a_half_written_pair_is_refused_once_and_the_whole_one_taken() {
        let dir = TempDir::new().unwrap();
        put(dir.path(), &issued());
        let mut follower = follow(dir.path());
        assert!(follower.look(now()).unwrap().is_some());
        assert!(follower.look(now()).unwrap().is_none());

        let renewed = issued();
        fs::write(dir.path().join("tls.crt"), &renewed.cert_pem).unwrap();
        assert!(follower.look(now()).is_err());
        assert!(follower.look(now()).unwrap().is_none());
        fs::write(dir.path().join("tls.key"), &renewed.key_pem).unwrap();
        assert!(follower.look(now()).unwrap().is_some());
    }

    /// As when our clock is a few seconds behind that of whoever signs.
    #[test]
    fn a_pair_that_is_not_valid_yet_is_taken_once_it_is() {
        let dir = TempDir::new().unwrap();
        put(dir.path(), &issued());
        let mut follower = follow(dir.path());
        let hours = |count: i64| now() + jiff::SignedDuration::from_hours(count);
        let error = follower.look(hours(-2)).unwrap_err();
        assert!(matches!(error, FilesError::Pair { .. }), "{error}");
        assert!(follower.look(hours(-2)).unwrap().is_none());
        assert!(follower.look(hours(0)).unwrap().is_some());
        assert!(follower.look(hours(0)).unwrap().is_none());
    }

    #[test]
    fn files_that_vanish_are_reported_once_and_may_come_back() {
        let dir = TempDir::new().unwrap();
        let issued = issued();
        put(dir.path(), &issued);
        let mut follower = follow(dir.path());
        assert!(follower.look(now()).unwrap().is_some());
        fs::remove_file(dir.path().join("tls.key")).unwrap();
        let error = follower.look(now()).unwrap_err();
        assert!(error.to_string().starts_with("cannot read"), "{error}");
        assert!(follower.look(now()).unwrap().is_none());
        put(dir.path(), &issued);
        assert!(follower.look(now()).unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_mounted_secret_that_is_swapped_is_followed() {
        let dir = TempDir::new().unwrap();
        let (first, second) = (issued(), issued());
        put(&dir.path().join("..one"), &first);
        put(&dir.path().join("..two"), &second);
        let data = dir.path().join("..data");
        symlink("..one", &data).unwrap();
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), dir.path().join(name)).unwrap();
        }
        let served = RefCell::new(Vec::new());
        let run = follow(dir.path()).run(
            now,
            |pair| served.borrow_mut().push(pair.chain()[0].to_vec()),
            |error| panic!("{error}"),
        );
        let swap = async {
            sleep(INTERVAL * 2).await;
            // As the kubelet does it: a new link, renamed over the old one.
            let new = dir.path().join("..data_tmp");
            symlink("..two", &new).unwrap();
            fs::rename(&new, &data).unwrap();
            sleep(INTERVAL * 2).await;
        };
        tokio::select! {
            () = run => {}
            () = swap => {}
        }
        assert_eq!(served.borrow().len(), 2);
    }
}
