//! The rows of an audit, as programs read them.

use serde::{Serialize, Serializer};

use meshgate_core::audit::Finding;
use meshgate_core::audit::cause::{Cause, State};
use meshgate_core::injector::Injectors;

use crate::cli::output::Exit;

/// Where objects are that name no namespace, as `kubectl apply` would have it.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

/// An object that owns pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub(super) struct Owner {
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
}

impl Owner {
    pub(super) fn new(kind: &str, name: &str) -> Self {
        Self {
            kind: kind.into(),
            name: name.into(),
        }
    }
}

/// A pod and one injector.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) owner: Option<Owner>,
    pub(super) injector: Box<str>,
    #[serde(serialize_with = "state")]
    pub(super) state: State,
    #[serde(rename = "reason", serialize_with = "cause")]
    pub(super) cause: Cause,
    pub(super) message: Box<str>,
}

fn state<S: Serializer>(state: &State, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(state.as_str())
}

fn cause<S: Serializer>(cause: &Cause, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(cause.as_str())
}

/// How many pods of each state an injector has.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) injector: String,
    pub(super) injected: usize,
    pub(super) stale: usize,
    pub(super) bare: usize,
    pub(super) opted_out: usize,
    pub(super) exempt: usize,
    pub(super) unknown: usize,
    /// False for an injector that was not asked for.
    #[serde(skip)]
    is_wanted: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pods: Option<Vec<Row>>,
    pub(super) summary: Vec<Summary>,
}

impl Answer {
    pub(super) fn exit(&self) -> Exit {
        let any = |count: fn(&Summary) -> usize| self.summary.iter().any(|one| count(one) > 0);
        if any(|one| one.bare + one.stale) {
            Exit::Findings
        } else if any(|one| one.unknown) {
            Exit::CannotTell
        } else {
            Exit::Fine
        }
    }
}

/// Whose pod a finding is about.
pub(super) struct Subject<'s> {
    pub(super) namespace: &'s str,
    pub(super) name: &'s str,
}

/// The findings as they come. Only the rows that are shown are kept.
#[derive(Debug)]
pub(super) struct Rows {
    /// By number of the injector.
    counts: Vec<Summary>,
    pods: Vec<Row>,
    is_table: bool,
    is_summary: bool,
}

impl Rows {
    pub(super) fn new(
        injectors: &Injectors,
        is_wanted: impl Fn(&str) -> bool,
        is_table: bool,
        is_summary: bool,
    ) -> Self {
        let counts = injectors.iter().map(|one| Summary {
            injector: one.profile.name.clone(),
            is_wanted: one.is_looked_at() && is_wanted(&one.profile.name),
            ..Summary::default()
        });
        Self {
            counts: counts.collect(),
            pods: Vec::new(),
            is_table,
            is_summary,
        }
    }

    /// Takes a finding. `owner` is asked for only if the row is shown.
    pub(super) fn add(
        &mut self,
        subject: &Subject<'_>,
        finding: Finding,
        owner: impl FnOnce() -> Option<Owner>,
    ) {
        let counts = self.counts.get_mut(finding.injector);
        let Some(counts) = counts.filter(|one| one.is_wanted) else {
            return;
        };
        let (count, is_finding) = match finding.state {
            State::Injected => (&mut counts.injected, false),
            State::Stale => (&mut counts.stale, true),
            State::Bare => (&mut counts.bare, true),
            State::OptedOut => (&mut counts.opted_out, false),
            State::Exempt => (&mut counts.exempt, false),
            State::Unknown => (&mut counts.unknown, true),
        };
        *count += 1;
        if self.is_summary || (self.is_table && !is_finding) {
            return;
        }
        self.pods.push(Row {
            namespace: subject.namespace.into(),
            name: subject.name.into(),
            owner: owner(),
            injector: counts.injector.as_str().into(),
            state: finding.state,
            cause: finding.cause,
            message: finding.message.into(),
        });
    }

    pub(super) fn answer(self) -> Answer {
        let counts = self.counts.into_iter();
        Answer {
            pods: (!self.is_summary).then_some(self.pods),
            summary: counts.filter(|one| one.is_wanted).collect(),
        }
    }
}
