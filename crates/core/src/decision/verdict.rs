//! `Verdict`: what the answer to a review is.

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
