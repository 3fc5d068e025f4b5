//! Following the files of a serving pair, so that a renewed one is served without a restart.
//!
//! Looks at the content every few seconds. That needs no notice from the file system and so works
//! for everything that renews certificates: tools that write in place, that rename, and the way
//! Kubernetes swaps a mounted Secret, a link to a folder.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::sleep;

use super::files::{Content, FilesError, PairFiles};
use super::pair::{PairError, ServingPair};
use crate::telemetry::with_causes;

/// How often the files are looked at.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// The two files of a pair, and what was in them when they were last looked at.
pub struct Follower {
    files: PairFiles,
    /// The last generation of the files, or why they cannot be read: each is used, or refused, once.
    seen: Option<Result<Content, String>>,
    /// The pair that was seen last is whole but not valid yet.
    too_early: bool,
}

impl Follower {
    /// Follows these files; the first look counts their present content as new.
    pub fn new(files: PairFiles) -> Self {
        Self {
            files,
            seen: None,
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
        let content = match self.files.read() {
            Ok(content) => content,
            Err(error) => {
                self.too_early = false;
                let news = self.remember(Err(error.to_string()));
                return if news { Err(error) } else { Ok(None) };
            }
        };
        let pair = self.files.parse(&content, now);
        let was_too_early = std::mem::replace(&mut self.too_early, is_too_early(&pair));
        if self.remember(Ok(content)) || was_too_early && !self.too_early {
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
                    let (subject, until) = (&pair.leaf().subject, pair.leaf().not_after);
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
    fn remember(&mut self, now: Result<Content, String>) -> bool {
        let is_news = self.seen.as_ref() != Some(&now);
        self.seen = Some(now);
        is_news
    }
}

fn is_too_early(pair: &Result<ServingPair, FilesError>) -> bool {
    let Err(FilesError::Pair { source, .. }) = pair else {
        return false;
    };
    matches!(**source, PairError::NotYetValid { .. })
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
