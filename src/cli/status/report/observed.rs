//! What was seen of an installation.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// What could be seen, or why it could not.
pub(in crate::cli::status) type Known<T> = Result<T, String>;

/// All of it, at one time.
#[derive(Debug)]
pub(in crate::cli::status) struct Observed {
    pub(in crate::cli::status) now: Timestamp,
    /// The objects of the registration.
    pub(in crate::cli::status) registration: Known<Vec<Value>>,
    /// What can be switched off, as far as it may be read, where the registration could not be listed:
    /// those who may break the glass may see it, and no more.
    pub(in crate::cli::status) breakable: Vec<Value>,
    pub(in crate::cli::status) pods: Known<Vec<Pod>>,
    /// How many pods of each component there are to be, as far as that may be read.
    pub(in crate::cli::status) wanted: BTreeMap<String, usize>,
    pub(in crate::cli::status) leader: Known<Option<Leader>>,
    /// Subject and end of each certificate that replicas serve with.
    pub(in crate::cli::status) serving: Known<Vec<(String, Timestamp)>>,
    /// The same of the CAs by which the API server verifies them.
    pub(in crate::cli::status) trusted: Known<Vec<(String, Timestamp)>>,
    pub(in crate::cli::status) injectors: Known<Vec<Injector>>,
    /// Pods that were refused within the last minutes.
    pub(in crate::cli::status) refusals: Known<Vec<Refusal>>,
    /// What meshgate itself said last of the registration.
    pub(in crate::cli::status) said: Option<Said>,
}

/// A pod of ours.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli::status) struct Pod {
    pub(in crate::cli::status) name: String,
    /// `serve` or `control`.
    pub(in crate::cli::status) component: String,
    pub(in crate::cli::status) ready: bool,
    pub(in crate::cli::status) ending: bool,
    pub(in crate::cli::status) node: String,
    /// Hash of its configuration.
    pub(in crate::cli::status) configuration: String,
    /// Its image.
    pub(in crate::cli::status) image: String,
}

/// Who writes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli::status) struct Leader {
    pub(in crate::cli::status) holder: String,
    pub(in crate::cli::status) renewed: Option<Timestamp>,
    /// For how long a claim holds, in seconds.
    pub(in crate::cli::status) holds: i64,
}

/// An injector, or one instance of it.
#[derive(Debug, Clone, Serialize)]
pub(in crate::cli::status) struct Injector {
    pub(in crate::cli::status) name: String,
    /// In a word.
    pub(in crate::cli::status) state: &'static str,
    /// Why.
    pub(in crate::cli::status) why: String,
}

/// Pods that were refused to one owner.
#[derive(Debug, Clone, Serialize)]
pub(in crate::cli::status) struct Refusal {
    /// `Kind namespace/name`.
    pub(in crate::cli::status) owner: String,
    pub(in crate::cli::status) count: i32,
    pub(in crate::cli::status) last: Timestamp,
    pub(in crate::cli::status) message: String,
}

/// What meshgate said, and when.
#[derive(Debug, Clone, Serialize)]
pub(in crate::cli::status) struct Said {
    pub(in crate::cli::status) at: Timestamp,
    pub(in crate::cli::status) text: String,
    /// Whether it said that something is wrong.
    #[serde(skip)]
    pub(in crate::cli::status) is_wrong: bool,
}
