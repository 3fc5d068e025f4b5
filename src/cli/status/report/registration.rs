//! The registration, and whether an administrator has suspended enforcement.

use std::collections::{BTreeMap, BTreeSet};

use meshgate_core::break_glass::Note;
use meshgate_core::list::listed;
use meshgate_core::names::{ASKED_FOR, CONFIGURATION, GUARD, MIRROR, OWNER, POLICIES};
use meshgate_core::render::webhooks::enforces;

use crate::controllers::registration::foreign;
use crate::controllers::registration::observed::{Entry, Object};
use crate::kube_api::kind::{Id, Kind};

use super::super::observed::{Observed, Registration};
use super::{Grade, Row, row, span, time};

const PART: &str = "registration";

/// A row for each note by which an administrator has suspended enforcement.
pub(super) fn suspensions(seen: &Observed) -> Vec<Row> {
    let objects = seen.registration.as_ref().unwrap_or(&seen.breakable);
    let mut notes: Vec<(Note, Vec<String>)> = Vec::new();
    for (id, object) in objects {
        let Some(note) = object.note.clone() else {
            continue;
        };
        match notes.iter_mut().find(|(own, _)| *own == note) {
            Some((_, ids)) => ids.push(id.to_string()),
            None => notes.push((note, vec![id.to_string()])),
        }
    }
    let tell = |(note, ids): (Note, Vec<String>)| {
        let until = match note.until {
            None => "without an end, so that replicas enforce; run meshgate break-glass --close"
                .to_owned(),
            Some(until) if note.is_over(seen.now) => format!(
                "OVERDUE since {}: no leader has ended it; run meshgate break-glass --close",
                time(until)
            ),
            Some(until) if !note.is_open(seen.now) => format!(
                "until {}, more than 24 hours ahead, so that replicas enforce; run meshgate break-glass --close",
                time(until)
            ),
            Some(until) => format!("until {}, for {} more", time(until), span(seen.now, until)),
        };
        let scope = match note.injectors.as_slice() {
            [] => "everything".to_owned(),
            injectors => injectors.join(", "),
        };
        let text = format!(
            "ENFORCEMENT IS SUSPENDED for {scope} {until}: {} ({})",
            note.text,
            ids.join(", ")
        );
        row("break-glass", Grade::Finding, text)
    };
    notes.into_iter().map(tell).collect()
}

/// What is registered, and whether it refuses pods.
pub(super) fn registration(objects: &Registration, seen: &Observed) -> Vec<Row> {
    let finding = |text: &str| row(PART, Grade::Finding, text);
    let has = |kind, name| objects.contains_key(&Id::new(kind, name));
    let enforcers = Enforcers::of(objects);
    if enforcers.is_empty() {
        let none = finding("there is none: the API server does not call meshgate");
        return [none].into_iter().chain(said(seen)).collect();
    }
    let mirror = if has(Kind::MutatingPolicy, MIRROR) {
        "labels of namespaces kept by a policy"
    } else if has(Kind::MutatingWebhooks, MIRROR) {
        "labels of namespaces kept by a webhook"
    } else {
        "nothing keeps the labels of namespaces"
    };
    let form = format!("enforced by {}; {mirror}", enforcers.form());
    let mut rows = vec![row(PART, Grade::Fact, form), enforcers.armed()];
    rows.extend(enforcers.gate.and_then(|gate| unasked(seen, gate)));
    if !has(Kind::ValidatingPolicy, GUARD) || !has(Kind::ValidatingPolicyBinding, GUARD) {
        let text = "nothing guards it: the policy guard.meshgate.io is missing";
        rows.push(finding(text));
    }
    if !has(Kind::ClusterRole, OWNER) {
        rows.push(finding("its owner, the ClusterRole meshgate, is missing"));
    }
    rows.extend(said(seen));
    rows
}

/// The objects that refuse pods.
struct Enforcers<'o> {
    gate: Option<&'o Object>,
    check: Option<&'o Object>,
    /// What labels namespaces, where that is a webhook: an entry for pods selects by the labels.
    mirror: Option<&'o Object>,
    /// The bindings of the policies that are checks.
    bindings: Vec<&'o Object>,
}

impl<'o> Enforcers<'o> {
    fn of(objects: &'o Registration) -> Self {
        let is_check =
            |id: &Id| id.kind == Kind::ValidatingPolicyBinding && id.name.ends_with(POLICIES);
        let bindings = objects.iter().filter(|(id, _)| is_check(id));
        Self {
            gate: objects.get(&Id::new(Kind::MutatingWebhooks, CONFIGURATION)),
            check: objects.get(&Id::new(Kind::ValidatingWebhooks, CONFIGURATION)),
            mirror: objects.get(&Id::new(Kind::MutatingWebhooks, MIRROR)),
            bindings: bindings.map(|(_, object)| object).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.gate.is_none() && self.check.is_none() && self.bindings.is_empty()
    }

    fn form(&self) -> &'static str {
        match (self.check, self.bindings.as_slice()) {
            (Some(_), []) => "webhooks",
            (None, [_, ..]) => "policies; the gate never blocks",
            (Some(_), [_, ..]) => "webhooks and policies (the mode is being changed)",
            (None, []) => "nothing: there is only a gate",
        }
    }

    /// Whether all of them refuse pods that require an injector.
    fn armed(&self) -> Row {
        let all = self.bindings.len();
        let specs = self.bindings.iter().filter_map(|one| one.spec.as_ref());
        let denies = |action: &String| action == "Deny";
        let denying = specs.filter(|spec| spec.validation_actions.iter().any(denies));
        let denying = denying.count();
        let policies = format!("{denying} of {all} policies refuse");
        if all > 0 && denying == all {
            return row("armed", Grade::Good, policies);
        }
        if all > 0 && self.check.is_none() {
            let text = format!("{policies}; the others warn");
            return row("armed", Grade::Finding, text);
        }
        let configurations = [self.mirror, self.gate, self.check].into_iter().flatten();
        let entries =
            configurations.flat_map(|one| one.entries().iter().map(move |own| (one, own)));
        let entries: Vec<(&Object, &Entry)> =
            entries.filter(|(_, own)| enforces(&own.name)).collect();
        let added = |(object, own): &(&Object, &Entry)| {
            let added = foreign(object, own);
            let text = || format!("another client added {} to {}", added.join(", "), own.name);
            (!added.is_empty()).then(text)
        };
        let narrowed: Vec<String> = entries.iter().filter_map(added).collect();
        let is_armed = |one: &&(&Object, &Entry)| one.1.is_armed() && added(one).is_none();
        let armed = entries.iter().filter(is_armed).count();
        let mut webhooks = format!("{armed} of {} entries armed", entries.len());
        if !narrowed.is_empty() {
            webhooks = format!("{webhooks} ({})", listed(narrowed));
        }
        if armed < entries.len() {
            let open = "pods that require an injector may start without it";
            let text = format!("NOT ARMED: {webhooks}; {open}");
            return row("armed", Grade::Finding, text);
        }
        if all == 0 && entries.iter().all(|(_, own)| own.name == MIRROR) {
            let text = "no entry refuses pods: all injectors are in mode warn";
            return row("armed", Grade::Finding, text);
        }
        row("armed", Grade::Good, webhooks)
    }
}

/// A finding if no entry asks about some configured injector: another configuration is in force.
fn unasked(seen: &Observed, gate: &Object) -> Option<Row> {
    let asked_for = gate.annotation(ASKED_FOR)?;
    let asked_for: BTreeMap<String, Vec<String>> = serde_json::from_str(asked_for).ok()?;
    let asked_for: BTreeSet<&str> = asked_for.values().flatten().map(String::as_str).collect();
    let configured = seen.injectors.as_ref().ok()?.iter();
    // The name of an instance stands behind its injector's.
    let configured = configured.filter_map(|one| one.name.split(' ').next());
    let missing: BTreeSet<&str> = configured.filter(|one| !asked_for.contains(one)).collect();
    let names = listed(missing);
    let text = format!("another configuration is registered: no entry asks about {names} yet");
    (!names.is_empty()).then(|| row(PART, Grade::Finding, text))
}

/// meshgate's own Event, if it reports trouble.
fn said(seen: &Observed) -> Option<Row> {
    let said = seen.said.as_ref().filter(|said| said.is_wrong)?;
    let age = span(said.at, seen.now);
    let text = format!("meshgate said {age} ago: {}", said.text);
    Some(row("said", Grade::Finding, text))
}
