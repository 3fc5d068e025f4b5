//! The answer on each pod, as programs read it.

use meshgate_core::injector::rule::Outcome;
use serde::Serialize;

use crate::cli::output::Exit;

use super::subject::Subject;

/// The state or decision that nothing in the files determines.
pub(super) const UNKNOWN: &str = "unknown";

#[derive(Debug, Serialize)]
pub(super) struct Answer<'s> {
    pub(super) pods: Vec<Explained<'s>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Explained<'s> {
    #[serde(flatten)]
    pub(super) subject: &'s Subject,
    /// Each injector that a rule decided on.
    pub(super) injectors: Vec<Injector>,
    pub(super) gate: Gate,
    pub(super) warnings: Vec<String>,
}

/// The answer of the gate to a review of this pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gate {
    /// `admit`, `mark`, `warn`, `defer`, `deny`, `unreadable` or `unknown`.
    pub(super) decision: &'static str,
    pub(super) reason: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    /// The mark that the gate would set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mark: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Injector {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instance: Option<String>,
    pub(super) requirement: Outcome,
    /// Number of the rule in the profile.
    pub(super) rule: usize,
    /// The rule's terms with the values that were met.
    pub(super) because: String,
    /// Only for a required injector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) readiness: Option<State>,
    /// What the check will look for; only for a required injector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) check: Option<String>,
}

/// Whether the API server can call an injector.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State {
    /// `usable`, `notUsable`, `notInstalled` or `unknown`.
    pub(super) state: &'static str,
    pub(super) why: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) endpoints: Vec<Endpoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) slices: Vec<Slice>,
}

#[derive(Debug, Serialize)]
pub(super) struct Endpoint {
    pub(super) name: String,
    pub(super) usable: bool,
    pub(super) state: String,
}

/// One slice that endpoints came from (case 46).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Slice {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) managed_by: Option<String>,
    pub(super) endpoints: usize,
}

impl Explained<'_> {
    pub(super) fn exit(&self) -> Exit {
        let mut injectors = self.injectors.iter();
        match self.gate.decision {
            UNKNOWN => Exit::CannotTell,
            "defer" | "deny" | "unreadable" => Exit::Findings,
            _ if injectors.any(|injector| injector.requirement == Outcome::Invalid) => {
                Exit::Findings
            }
            _ => Exit::Fine,
        }
    }
}
