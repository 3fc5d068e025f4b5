//! The answer as people read it: owners with bare pods, worst first, then a line for each injector.

use std::collections::HashMap;

use meshgate_core::audit::cause::{Cause, State};
use meshgate_core::message::finding::advice;

use crate::cli::output;

use super::answer::{Answer, Owner, Row};

/// Rows that are one to a reader.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Group<'r> {
    state: State,
    namespace: &'r str,
    owner: Option<&'r Owner>,
    /// Of a pod without an owner.
    name: Option<&'r str>,
    injector: &'r str,
    cause: Cause,
}

impl<'r> Group<'r> {
    fn of(row: &'r Row) -> Self {
        let is_unknown = row.state == State::Unknown;
        let owner = row.owner.as_ref().filter(|_| !is_unknown);
        Self {
            state: row.state,
            namespace: &row.namespace,
            owner,
            name: (owner.is_none() && !is_unknown).then_some(&*row.name),
            injector: &row.injector,
            cause: row.cause,
        }
    }

    /// All of the same owner, whatever the cause.
    fn of_owner(self) -> Self {
        Self {
            injector: "",
            cause: Cause::Unexplained,
            ..self
        }
    }

    /// Where bare pods are, first; then stale and unknown ones.
    fn rank(&self) -> u8 {
        match self.state {
            State::Bare => 0,
            State::Stale => 1,
            State::Unknown | State::Injected | State::OptedOut | State::Exempt => 2,
        }
    }

    fn subject(&self) -> String {
        match (self.owner, self.name) {
            (Some(Owner { kind, name }), _) => format!("{kind} {name}"),
            (None, Some(name)) => format!("Pod {name}"),
            (None, None) => String::new(),
        }
    }

    fn to_do(self) -> String {
        let namespace = self.namespace;
        let again = match self.owner {
            None => "create the pod again".to_owned(),
            Some(Owner { kind, name }) => match &**kind {
                "Deployment" | "StatefulSet" | "DaemonSet" => {
                    let kind = kind.to_lowercase();
                    format!("kubectl -n {namespace} rollout restart {kind} {name}")
                }
                "ReplicaSet" | "ReplicationController" | "Job" | "CronJob" => {
                    "delete its pods".to_owned()
                }
                _ => "restart it".to_owned(),
            },
        };
        // In the last column, where colours move no other.
        let advice = advice(self.cause, &again);
        if self.state == State::Bare {
            output::bad(&advice)
        } else {
            output::unclear(&advice)
        }
    }
}

pub(super) fn text(answer: &Answer) -> String {
    let mut text = String::new();
    let rows = answer.pods.as_deref().unwrap_or_default();
    let (mut counts, mut totals) = (HashMap::new(), HashMap::new());
    for group in rows.iter().map(Group::of) {
        *counts.entry(group).or_insert(0_usize) += 1;
        *totals.entry(group.of_owner()).or_insert(0_usize) += 1;
    }
    let mut groups: Vec<(Group<'_>, usize)> = counts.into_iter().collect();
    groups.sort_by_key(|(group, _)| {
        let total = totals.get(&group.of_owner()).copied().unwrap_or_default();
        (group.rank(), usize::MAX - total, *group)
    });
    if !groups.is_empty() {
        let header = [
            "STATE",
            "PODS",
            "NAMESPACE",
            "OWNER",
            "INJECTOR",
            "REASON",
            "WHAT TO DO",
        ];
        let mut table = output::table(&header);
        for (group, count) in groups {
            table.add_row([
                group.state.as_str().to_owned(),
                count.to_string(),
                group.namespace.to_owned(),
                group.subject(),
                group.injector.to_owned(),
                group.cause.as_str().to_owned(),
                group.to_do(),
            ]);
        }
        text = output::indented(&table) + "\n";
    }
    let header = [
        "INJECTOR",
        "INJECTED",
        "STALE",
        "BARE",
        "OPTED OUT",
        "EXEMPT",
        "UNKNOWN",
    ];
    let mut table = output::table(&header);
    for one in &answer.summary {
        let counts = [
            one.injected,
            one.stale,
            one.bare,
            one.opted_out,
            one.exempt,
            one.unknown,
        ];
        let counts = counts.map(|count| count.to_string());
        table.add_row([vec![one.injector.clone()], counts.to_vec()].concat());
    }
    text + &output::indented(&table)
}
