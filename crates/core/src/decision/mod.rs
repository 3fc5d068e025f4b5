//! What becomes of a pod: total functions over plain values.
//!
//! PURE: no async, no clock, no IO, no logging, and nothing of Kubernetes' client. The edges
//! fetch, this decides, the edges answer. Imports only `injector` and, for what is told, `message`.
//!
//! The order (design section 5): [`exemption`], then [`requirement`], then [`gate`] or [`check`].

pub mod check;
pub mod exemption;
mod findings;
pub mod gate;
pub mod installation;
pub mod mark;
pub mod meshed;
pub mod metadata;
pub mod namespace;
pub mod pod;
pub mod readiness;
pub mod reason;
pub mod requirement;
#[cfg(test)]
pub(crate) mod testing;

use std::borrow::Cow;

use self::installation::Client;
use self::mark::Edit;
use self::readiness::Tally;
use self::reason::Reason;
use crate::injector::profile::ServiceName;
use crate::message;

/// What the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Allowed; nothing is required, or it is there already (check).
    Admit,
    /// Allowed and marked.
    Mark,
    /// Allowed, although an injector in mode `warn` would have refused it.
    Warn,
    /// Temporary refusal, 503 `ServiceUnavailable`: waiting helps.
    Defer,
    /// Firm refusal, 403 `Forbidden`: waiting does not help.
    Deny,
    /// The object cannot be read as a pod: a refusal with code 400.
    Unreadable,
}

impl Verdict {
    /// As metrics, logs and audit annotations spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Mark => "mark",
            Self::Warn => "warn",
            Self::Defer => "defer",
            Self::Deny => "deny",
            Self::Unreadable => "unreadable",
        }
    }

    /// Whether the pod may be created.
    pub fn allows(self) -> bool {
        match self {
            Self::Admit | Self::Mark | Self::Warn => true,
            Self::Defer | Self::Deny | Self::Unreadable => false,
        }
    }
}

/// A verdict with all that is said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision<'a> {
    /// What the answer is.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// The first injector that blocks, else the first that is required.
    pub injector: Option<&'a str>,
    /// Names of all injectors that are required.
    pub required: Vec<&'a str>,
    /// One sentence for whoever is refused; empty if nobody is.
    pub message: String,
    /// Texts to give with the answer, one line each.
    pub warnings: Vec<String>,
    /// What becomes of the mark. [`Edit::Keep`] unless the gate admits.
    pub mark: Edit,
}

impl Decision<'_> {
    /// Allowed, with nothing to say.
    pub fn admit(reason: Reason) -> Self {
        Self {
            verdict: Verdict::Admit,
            reason,
            injector: None,
            required: Vec::new(),
            message: String::new(),
            warnings: Vec::new(),
            mark: Edit::Keep,
        }
    }

    /// Refused before any rule was asked.
    pub fn refuse(verdict: Verdict, reason: Reason, message: String) -> Self {
        Self {
            verdict,
            message,
            ..Self::admit(reason)
        }
    }

    /// The namespace could not be read: never "nothing is required" (case 21).
    pub fn namespace_unknown(namespace: &str, why: &str) -> Self {
        let message = message::namespace_unknown(namespace, why);
        Self::refuse(Verdict::Defer, Reason::NamespaceUnknown, message)
    }

    /// The server has not read the cluster yet (case 60).
    pub fn not_synced(namespace: &str) -> Self {
        Self::refuse(
            Verdict::Defer,
            Reason::NotSynced,
            message::not_synced(namespace),
        )
    }

    /// A look-up took too long for the caller's timeout (case 20).
    pub fn deadline_exceeded(namespace: &str) -> Self {
        let message = message::deadline_exceeded(namespace);
        Self::refuse(Verdict::Defer, Reason::DeadlineExceeded, message)
    }

    /// The object is not a pod (case 8).
    pub fn unreadable(why: &dyn std::fmt::Display) -> Self {
        let message = message::unreadable(why);
        Self::refuse(Verdict::Unreadable, Reason::UnreadableObject, message)
    }
}

/// Whether an injector can be tried now, and what was looked at. "Ready" is permission to try,
/// not a promise: the check decides (case 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness<'a> {
    /// Enough usable endpoints, a probe that got through, or assumed.
    Usable(Looked<'a>),
    /// It cannot be tried now.
    NotUsable(Looked<'a>),
    /// No webhook entry of it in the cluster.
    NotInstalled,
    /// No webhook configuration carries the instance.
    NoInstance,
}

/// What was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked<'a> {
    /// The endpoints of a Service.
    Endpoints {
        /// Which.
        service: Cow<'a, ServiceName>,
        /// What was counted; `None` if the Service has no slice at all.
        tally: Option<&'a Tally>,
        /// How a webhook entry calls it.
        client: Option<&'a Client>,
    },
    /// A connection to this `host:port`; the problem, if it failed or was not tried yet.
    Probe {
        /// Where to.
        target: &'a str,
        /// What went wrong.
        problem: Option<&'a str>,
    },
    /// Nothing: the profile says that it is ready.
    Assumed,
}
