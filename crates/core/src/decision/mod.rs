//! What becomes of a pod: total functions over plain values.
//!
//! The edges fetch, this decides, the edges answer. Gate, check, auditor and tools ask the same
//! functions, so that no two of them can differ.
//!
//! The order (design section 5): [`exemption`], then [`requirement`], then [`gate`] or [`check`].

pub mod check;
pub mod exemption;
mod findings;
pub mod gate;
pub mod injected;
pub mod mark;
pub mod reason;
pub mod replaced;
pub mod requirement;
#[cfg(test)]
pub(crate) mod tests;
pub mod verdict;

use crate::message;

use self::mark::Edit;
use self::reason::Reason;
use self::verdict::Verdict;

/// A verdict with all that is said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision<'a> {
    /// What the answer is.
    pub verdict: Verdict,
    /// The one word for it.
    pub reason: Reason,
    /// The first injector that blocks, else the first that is required. A metric has this one alone, so
    /// that its series stay few (case 71).
    pub injector: Option<&'a str>,
    /// Names of all injectors that are required.
    pub required: Vec<&'a str>,
    /// One sentence for the owner of a refused pod; empty if the pod is not refused.
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
