//! Whether an injector can be tried now: where it is, and which of its endpoints are usable
//! (design section 6).
//!
//! "Ready" is permission to try, not a promise: an injector whose endpoints are ready may refuse
//! every call. The check on the final pod decides (case 2).

pub mod endpoints;
pub mod installation;

use std::borrow::Cow;

use crate::injector::profile::ServiceName;

use self::endpoints::Tally;
use self::installation::Client;

/// Whether an injector can be tried now, with what meshgate looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness<'a> {
    /// Enough usable endpoints, a probe that got through, or assumed.
    Usable(Looked<'a>),
    /// It cannot be tried now. Waiting helps.
    NotUsable(Looked<'a>),
    /// No webhook entry of it in the cluster.
    NotInstalled,
    /// No webhook configuration carries the instance (case 31).
    NoInstance,
}

/// What meshgate looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked<'a> {
    /// The endpoints of a Service.
    Endpoints {
        /// Whose slices were counted.
        service: Cow<'a, ServiceName>,
        /// What was counted; `None` if the Service has no slice at all.
        tally: Option<&'a Tally>,
        /// How a webhook entry calls it; `None` where no webhook configuration is known.
        client: Option<&'a Client>,
    },
    /// Nothing yet: a Service that was named a moment ago, whose endpoints this replica has still to read.
    Unread {
        /// Whose slices will be counted.
        service: Cow<'a, ServiceName>,
    },
    /// A connection.
    Probe {
        /// `host:port`.
        target: &'a str,
        /// Why it failed, or that it was not tried yet; `None` if it got through.
        problem: Option<&'a str>,
    },
    /// Nothing: the profile says that it is ready.
    Assumed,
}
