//! The registration, and whether somebody has switched it off.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::break_glass::{self, Note};
use crate::kube_api::kind::{Id, Kind};
use crate::render::{ASKED_FOR, CONFIGURATION, GUARD, MIRROR, OWNER, POLICIES, REACH_ENTRY};

use super::{Grade, Observed, Row, row, span, time, unknown};

const PART: &str = "registration";

/// Glass that somebody broke, loudly.
pub(super) fn glass(seen: &Observed) -> Vec<Row> {
    let objects = seen.registration.as_ref().unwrap_or(&seen.breakable);
    let mut notes: Vec<(Note, Vec<String>)> = Vec::new();
    for object in objects {
        let (Some(note), Some(id)) = (break_glass::of(object), Id::of(object)) else {
            continue;
        };
        match notes.iter_mut().find(|(own, _)| *own == note) {
            Some((_, ids)) => ids.push(id.to_string()),
            None => notes.push((note, vec![id.to_string()])),
        }
    }
    let tell = |(note, ids): (Note, Vec<String>)| {
        let until = match note.until {
            None => "until somebody takes the annotation off".to_owned(),
            Some(until) if note.is_over(seen.now) => format!(
                "OVERDUE since {}: nobody has closed it; meshgate break-glass --close",
                time(until)
            ),
            Some(until) => format!("until {}, for {} more", time(until), span(seen.now, until)),
        };
        let whose = match note.injectors.is_empty() {
            true => "everything".to_owned(),
            false => note.injectors.join(", "),
        };
        let text = format!(
            "GLASS IS BROKEN for {whose} {until}: {} ({})",
            note.text,
            ids.join(", ")
        );
        row("break-glass", Grade::Finding, text)
    };
    notes.into_iter().map(tell).collect()
}

/// What is there, and what it does.
pub(super) fn registration(seen: &Observed) -> Vec<Row> {
    let objects = match &seen.registration {
        Ok(objects) => objects,
        Err(why) => return vec![unknown(PART, why)],
    };
    let find = |kind, name: &str| {
        let mut found = objects.iter();
        found.find(|one| Id::of(one).is_some_and(|id| id.kind == kind && id.name == name))
    };
    let gate = find(Kind::MutatingWebhooks, CONFIGURATION);
    let check = find(Kind::ValidatingWebhooks, CONFIGURATION);
    let bindings = bindings(objects);
    if gate.is_none() && check.is_none() && bindings.is_empty() {
        let text = "there is none: nobody asks meshgate about any pod";
        return vec![row(PART, Grade::Finding, text), said(seen)]
            .into_iter()
            .filter(|row| !row.text.is_empty())
            .collect();
    }
    let mirror = if find(Kind::MutatingPolicy, MIRROR).is_some() {
        "a policy"
    } else if find(Kind::MutatingWebhooks, MIRROR).is_some() {
        "a webhook"
    } else {
        "nobody"
    };
    let form = match (check.is_some(), bindings.is_empty()) {
        (true, true) => "webhooks",
        (false, false) => "policies; the gate never blocks",
        (true, false) => "webhooks and policies (who enforces is being changed)",
        (false, true) => "nobody: there is a gate alone",
    };
    let mut rows = vec![row(
        PART,
        Grade::Fact,
        format!("enforced by {form}; labels of namespaces kept by {mirror}"),
    )];
    rows.push(armed((gate, check), &bindings));
    rows.extend(unasked(seen, gate));
    if find(Kind::ValidatingPolicy, GUARD).is_none()
        || find(Kind::ValidatingPolicyBinding, GUARD).is_none()
    {
        rows.push(row(
            PART,
            Grade::Finding,
            "nothing guards it: the policy guard.meshgate.io is not there",
        ));
    }
    if find(Kind::ClusterRole, OWNER).is_none() {
        rows.push(row(
            PART,
            Grade::Finding,
            "its owner, the ClusterRole meshgate, is not there",
        ));
    }
    rows.push(said(seen));
    rows.retain(|row| !row.text.is_empty());
    rows
}

/// Injectors of the configuration that no entry asks for: what is in force is another one.
fn unasked(seen: &Observed, gate: Option<&Value>) -> Option<Row> {
    let asked_for = gate?["metadata"]["annotations"][ASKED_FOR].as_str()?;
    let asked_for: BTreeMap<String, Vec<String>> = serde_json::from_str(asked_for).ok()?;
    let asked_for: BTreeSet<&str> = asked_for.values().flatten().map(String::as_str).collect();
    let configured = seen.injectors.as_ref().ok()?.iter();
    // An instance is named behind its injector.
    let configured = configured.filter_map(|one| one.name.split(' ').next());
    let missing: BTreeSet<&str> = configured.filter(|one| !asked_for.contains(one)).collect();
    let names: Vec<&str> = missing.into_iter().collect();
    let text = || {
        format!(
            "registered for another configuration: nothing asks for {} yet",
            names.join(", ")
        )
    };
    (!names.is_empty()).then(|| row(PART, Grade::Finding, text()))
}

/// Bindings of the policies that are checks.
fn bindings(objects: &[Value]) -> Vec<&Value> {
    let is_check = |object: &&Value| {
        Id::of(object).is_some_and(|id| {
            id.kind == Kind::ValidatingPolicyBinding && id.name.ends_with(POLICIES)
        })
    };
    objects.iter().filter(is_check).collect()
}

/// Whether what is to refuse pods does.
fn armed((gate, check): (Option<&Value>, Option<&Value>), bindings: &[&Value]) -> Row {
    let configurations = [gate, check].into_iter().flatten();
    let entries = configurations.flat_map(|one| one["webhooks"].as_array().into_iter().flatten());
    let entries: Vec<&Value> = entries.filter(|one| is_to_enforce(one)).collect();
    let fail = |one: &&&Value| one["failurePolicy"] == "Fail" && !break_glass::is_off(one);
    let armed = entries.iter().filter(fail).count();
    let denies = |one: &&&Value| {
        one["spec"]["validationActions"]
            .to_string()
            .contains("Deny")
    };
    let denying = bindings.iter().filter(denies).count();
    let policies = format!("{denying} of {} policies refuse", bindings.len());
    let webhooks = format!("{armed} of {} entries armed", entries.len());
    let (grade, text) = match (check.is_some(), bindings.is_empty()) {
        (_, false) if denying == bindings.len() => (Grade::Good, policies),
        (false, false) => (Grade::Finding, format!("{policies}; the others warn")),
        (_, true) if entries.is_empty() => (
            Grade::Finding,
            "no entry is to refuse anything: all injectors are in mode warn".to_owned(),
        ),
        (_, _) if armed == entries.len() => (Grade::Good, webhooks),
        (_, _) => (
            Grade::Finding,
            format!("NOT ARMED: {webhooks}; pods that require an injector may start without it"),
        ),
    };
    row("armed", grade, text)
}

/// Whether an entry refuses pods, once armed.
fn is_to_enforce(entry: &Value) -> bool {
    let name = entry["name"].as_str().unwrap_or_default();
    name.ends_with(".meshgate.io") && name != REACH_ENTRY && !name.contains(".warn.")
}

/// What meshgate says of it, if that is that something is wrong.
fn said(seen: &Observed) -> Row {
    let text = match seen.said.as_ref().filter(|said| said.is_wrong) {
        Some(said) => format!(
            "meshgate said {} ago: {}",
            span(said.at, seen.now),
            said.text
        ),
        None => String::new(),
    };
    row("said", Grade::Finding, text)
}
