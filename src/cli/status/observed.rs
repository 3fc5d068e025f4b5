//! What `status` has seen of an installation.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::cli::states::InjectorState;
use crate::controllers::registration::observed::Object;
use crate::kube_api::kind::Id;

/// What was seen, or why it could not be seen.
pub(super) type Known<T> = anyhow::Result<T>;

/// Subject and end of each certificate of a chain or bundle.
pub(super) type Ends = Vec<(String, Timestamp)>;

#[derive(Debug)]
pub(super) struct Observed {
    pub(super) now: Timestamp,
    pub(super) registration: Known<Registration>,
    /// Those that `break-glass` changes, where the user may not list the registration: the rights of
    /// `break-glass` suffice to see whether enforcement is suspended.
    pub(super) breakable: Registration,
    pub(super) pods: Known<Vec<Pod>>,
    /// How many pods the Deployment of each component wants, where the user may read that.
    pub(super) wanted: BTreeMap<String, usize>,
    pub(super) leader: Known<Option<Leader>>,
    /// The chain that replicas serve with.
    pub(super) serving: Known<Ends>,
    /// The CAs by which the API server verifies it.
    pub(super) trusted: Known<Ends>,
    pub(super) injectors: Known<Vec<InjectorState>>,
    /// Pods that meshgate has refused within the last minutes.
    pub(super) refusals: Known<Vec<Refusal>>,
    /// Owners that lack pods because these are refused, and those that meshgate made try again.
    pub(super) owners: Known<Owners>,
    /// meshgate's own latest Event about the registration.
    pub(super) said: Option<Said>,
}

/// The objects by which the API server knows of meshgate.
pub(super) type Registration = BTreeMap<Id, Object>;

/// A pod of meshgate.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Pod {
    pub(super) name: String,
    /// `serve` or `control`.
    pub(super) component: String,
    pub(super) ready: bool,
    pub(super) ending: bool,
    pub(super) node: String,
    /// Hash of its configuration.
    pub(super) configuration: String,
    pub(super) image: String,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Leader {
    pub(super) holder: String,
    pub(super) renewed: Option<Timestamp>,
    /// How long the Lease is valid after a renewal, in seconds.
    pub(super) holds: i64,
}

/// The refused pods of one owner.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Refusal {
    /// `Kind namespace/name`.
    pub(super) owner: String,
    pub(super) count: i32,
    pub(super) last: Timestamp,
    pub(super) message: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Owners {
    pub(super) blocked: Vec<Stuck>,
    /// When meshgate last woke each owner that it has woken within the last hour.
    pub(super) woken: Vec<Timestamp>,
}

/// An owner that lacks pods.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Stuck {
    /// `Kind namespace/name`.
    pub(super) owner: String,
    pub(super) injector: String,
    pub(super) since: Timestamp,
    /// What its controller says.
    pub(super) why: String,
}

#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) at: Timestamp,
    pub(super) text: String,
    pub(super) is_wrong: bool,
}
