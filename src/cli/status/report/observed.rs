//! What `status` has seen of an installation.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::cli::states::InjectorState;

/// What was seen, or why it could not be seen.
pub(in crate::cli::status) type Known<T> = Result<T, String>;

/// Subject and end of each certificate of a chain or bundle.
pub(in crate::cli::status) type Ends = Vec<(String, Timestamp)>;

#[derive(Debug)]
pub(in crate::cli::status) struct Observed {
    pub(in crate::cli::status) now: Timestamp,
    /// The objects of the registration.
    pub(in crate::cli::status) registration: Known<Vec<Value>>,
    /// Those that `break-glass` changes, where the user may not list the registration: the rights of
    /// `break-glass` suffice to see whether enforcement is suspended.
    pub(in crate::cli::status) breakable: Vec<Value>,
    pub(in crate::cli::status) pods: Known<Vec<Pod>>,
    /// How many pods the Deployment of each component wants, where the user may read that.
    pub(in crate::cli::status) wanted: BTreeMap<String, usize>,
    pub(in crate::cli::status) leader: Known<Option<Leader>>,
    /// The chain that replicas serve with.
    pub(in crate::cli::status) serving: Known<Ends>,
    /// The CAs by which the API server verifies it.
    pub(in crate::cli::status) trusted: Known<Ends>,
    pub(in crate::cli::status) injectors: Known<Vec<InjectorState>>,
    /// Pods that meshgate has refused within the last minutes.
    pub(in crate::cli::status) refusals: Known<Vec<Refusal>>,
    /// meshgate's own latest Event about the registration.
    pub(in crate::cli::status) said: Option<Said>,
}

/// A pod of meshgate.
#[derive(Debug, Clone, Serialize)]
pub(in crate::cli::status) struct Pod {
    pub(in crate::cli::status) name: String,
    /// `serve` or `control`.
    pub(in crate::cli::status) component: String,
    pub(in crate::cli::status) ready: bool,
    pub(in crate::cli::status) ending: bool,
    pub(in crate::cli::status) node: String,
    /// Hash of its configuration.
    pub(in crate::cli::status) configuration: String,
    pub(in crate::cli::status) image: String,
}

#[derive(Debug, Clone, Serialize)]
pub(in crate::cli::status) struct Leader {
    pub(in crate::cli::status) holder: String,
    pub(in crate::cli::status) renewed: Option<Timestamp>,
    /// How long the Lease is valid after a renewal, in seconds.
    pub(in crate::cli::status) holds: i64,
}

/// The refused pods of one owner.
#[derive(Debug, Clone, Serialize)]
pub(in crate::cli::status) struct Refusal {
    /// `Kind namespace/name`.
    pub(in crate::cli::status) owner: String,
    pub(in crate::cli::status) count: i32,
    pub(in crate::cli::status) last: Timestamp,
    pub(in crate::cli::status) message: String,
}

#[derive(Debug, Clone)]
pub(in crate::cli::status) struct Said {
    pub(in crate::cli::status) at: Timestamp,
    pub(in crate::cli::status) text: String,
    pub(in crate::cli::status) is_wrong: bool,
}
