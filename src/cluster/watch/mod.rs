//! The view fed by an API server: one [`Feed`] per kind, events in, [`super::store::Store`] out.
//!
//! Why not `kube::runtime::watcher`: it hides bookmarks, and they are the only sign of life of a
//! quiet watch (case 62); it opens an ended watch again without a pause; and one object that
//! does not decode fails the whole list (case 41). What is used of kube is its client.

mod client;
mod feed;
mod fetch;
mod pace;
mod snapshot;
mod source;
#[cfg(test)]
mod tests;
mod wire;

pub use self::client::connect;
pub use self::feed::Feed;
pub use self::fetch::fetch;
pub use self::snapshot::snapshot;

use kube::error::Status;

use super::freshness::{Scope, Trouble};

/// What went wrong with a request, and what to do about it.
#[derive(Debug)]
struct Failure {
    trouble: Trouble,
    /// What the server asked us to wait.
    wait: Option<std::time::Duration>,
    /// The version that was asked for is of no use: list again.
    is_expired: bool,
    /// The server does not know what it was asked for.
    is_unknown: bool,
}

impl Failure {
    /// It is the server's fault, or that of the way to it.
    fn server(text: impl Into<String>) -> Self {
        Self {
            trouble: Trouble {
                scope: Scope::Server,
                text: text.into(),
            },
            wait: None,
            is_expired: false,
            is_unknown: false,
        }
    }

    /// A watch said that it failed, with a status.
    fn event(json: &str) -> Self {
        match serde_json::from_str::<Status>(json) {
            Ok(status) => Self::status(&status),
            Err(_) => Self::server("the watch failed without saying why"),
        }
    }

    /// The server answered with a status.
    fn status(status: &Status) -> Self {
        let details = status.details.as_ref();
        let wait = details.map_or(0, |details| details.retry_after_seconds);
        let too_large = details.is_some_and(|details| {
            let mut causes = details.causes.iter();
            causes.any(|cause| cause.reason == "ResourceVersionTooLarge")
        });
        let text = match status.message.is_empty() {
            true => format!("the API server answered {}", status.code),
            false => format!(
                "the API server answered {}: {}",
                status.code, status.message
            ),
        };
        let is_everybodys = status.code == 429 || status.code >= 500;
        Self {
            trouble: Trouble {
                scope: if is_everybodys {
                    Scope::Server
                } else {
                    Scope::Kind
                },
                text,
            },
            wait: (wait > 0).then(|| std::time::Duration::from_secs(u64::from(wait))),
            is_expired: status.code == 410 || too_large,
            is_unknown: status.code == 400 || status.code == 422,
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = &error {
            return Self::status(status);
        }
        // The last cause is what somebody can act on; what is before it repeats it.
        let mut cause: &dyn std::error::Error = &error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        Self::server(cause.to_string())
    }
}
