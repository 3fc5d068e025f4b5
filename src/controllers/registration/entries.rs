//! Webhook entries on their way to being armed. Pure.
//!
//! An entry that is new, or was never armed, fails open until the API server has reached meshgate by the
//! client configuration of that entry. One that is armed stays so, with the client configuration it was
//! armed with. A new one (another address, another CA) is proved first by the entry that only
//! meshgate's own dry run meets, and the others follow.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::certs::bundle;
use crate::controllers::trust::has_same_address;
use meshgate_core::names::asks_meshgate;
use meshgate_core::render::{self, ASKED_FOR, CONFIGURATION, FailurePolicy, REACH_ENTRY};

use super::foreign_conditions;
use super::observed::{Entry, Object, Observed};

/// Annotation with a hash of which pods the entries ask about. The names of entries do not tell:
/// another configuration may give the same name to other namespaces.
const NOTE: &str = "meshgate.io/entries";

/// What was rendered, with a note of which pods the entries ask about.
pub(super) fn wanted(rendered: Vec<Value>) -> Vec<Object> {
    // A test holds that all that is rendered can be parsed.
    let parsed = rendered.into_iter().flat_map(Object::parse);
    parsed.map(noted).collect()
}

fn noted(mut object: Object) -> Object {
    let about = |entry: &Entry| {
        let (rules, selector) = (entry.rest.get("rules"), &entry.namespace_selector);
        json!([entry.name, rules, selector, entry.match_conditions]).to_string()
    };
    let all: Vec<String> = object.entries().iter().map(about).collect();
    if !all.is_empty() {
        object.annotate(NOTE, Some(render::hash(&all.join("\n"))));
    }
    object
}

/// Whether what is armed was written for another configuration than what is wanted.
pub(super) fn is_of_another(live: &Object, wanted: &Object) -> bool {
    is_any_armed(live) && live.annotation(NOTE) != wanted.annotation(NOTE)
}

/// The entries of ours that are armed, suspended or not.
fn armed_entries(live: &Object) -> impl Iterator<Item = &Entry> {
    let entries = live.entries().iter();
    entries.filter(|entry| entry.fails_closed() && asks_meshgate(&entry.name))
}

/// Whether an entry of ours is armed.
pub(super) fn is_any_armed(live: &Object) -> bool {
    armed_entries(live).next().is_some()
}

/// Whether a webhook configuration that refuses pods has an armed entry of which this holds.
pub(super) fn has_armed(observed: &Observed, is: fn(&Entry) -> bool) -> bool {
    let objects = observed.objects.values();
    let ours = objects.filter(|live| live.id.name == CONFIGURATION);
    ours.flat_map(armed_entries).any(is)
}

/// Leaves everything as it is in the cluster, but for the entry that proves how meshgate is called.
/// Until this configuration can be armed as a whole, no namespace may be asked about less, nor by an entry
/// that is not armed. With nothing in the cluster, only that entry is left.
pub(super) fn keep(object: &mut Object, live: Option<&Object>) {
    for key in [NOTE, ASKED_FOR, foreign_conditions::NOTE] {
        let text = live.and_then(|live| live.annotation(key));
        object.annotate(key, text.map(str::to_owned));
    }
    let live = live.map(Object::entries).unwrap_or_default().iter();
    let kept = live.filter(|entry| asks_meshgate(&entry.name));
    if let Some(entries) = &mut object.webhooks {
        entries.retain(|entry| entry.name == REACH_ENTRY);
        entries.splice(..0, kept.cloned());
    }
}

/// Takes back what must not be armed yet in a configuration that was rendered as armed.
pub(super) fn hold_back(object: &mut Object, live: Option<&Object>) {
    for entry in object.entries_mut().iter_mut().filter(|entry| arms(entry)) {
        let live = live.and_then(|live| live.entry(&entry.name));
        match live.filter(|live| live.fails_closed()) {
            Some(armed) => entry.client_config = armed.client_config.clone(),
            None => {
                let open = FailurePolicy::Ignore;
                entry.failure_policy = Some(open.as_str().to_owned());
                entry.timeout_seconds = Some(open.timeout_seconds());
            }
        }
    }
}

/// How many entries are armed in the cluster, of how many that are to be. None is armed where they
/// ask for another configuration, enforcement is suspended, or another client has narrowed them.
pub(super) fn armed(wanted: &Object, live: Option<&Object>) -> (usize, usize) {
    let live = live.filter(|live| !is_of_another(live, wanted));
    let is_armed = |entry: &Entry| {
        let live = live.and_then(|live| live.entry(&entry.name));
        live.is_some_and(|live| {
            live.is_armed() && foreign_conditions::added(entry, live).is_empty()
        })
    };
    let to_arm = wanted.entries().iter().filter(|entry| arms(entry));
    to_arm.fold((0, 0), |(armed, all), entry| {
        (armed + usize::from(is_armed(entry)), all + 1)
    })
}

/// Whether the entry, which is wanted, fails closed once armed.
fn arms(entry: &Entry) -> bool {
    entry.fails_closed() && entry.name != REACH_ENTRY
}

/// The `caBundle`s in the cluster that the wanted one (PEM) covers at this time.
///
/// Entries that are armed keep their client configuration until another one is proved. But a bundle that
/// holds all that the present one holds, for the same address, can make no call fail, and must not
/// wait: a new serving certificate is issued only after all entries trust it, and it may be what
/// meshgate needs to be reached at all.
pub(super) fn covered(
    observed: &Observed,
    wanted: Option<&str>,
    now: Timestamp,
) -> BTreeSet<String> {
    let Some(wanted) = wanted else {
        return BTreeSet::new();
    };
    let entries = observed.objects.values().flat_map(Object::entries);
    let live: BTreeSet<&String> = entries
        .filter_map(|entry| entry.client_config.ca_bundle.as_ref())
        .collect();
    let is_covered = |live: &&String| {
        let pem = STANDARD.decode(live).unwrap_or_default();
        let pem = String::from_utf8(pem).unwrap_or_default();
        bundle::covers(wanted, &pem, now)
    };
    live.into_iter().filter(is_covered).cloned().collect()
}

/// Gives the entries of an object the wanted bundle, where it covers theirs and the address is equal.
pub(super) fn widen(object: &mut Object, wanted: &Object, covered: &BTreeSet<String>) {
    let Some(Entry { client_config, .. }) = wanted.entries().first() else {
        return;
    };
    if client_config.ca_bundle.is_none() {
        return;
    }
    let address = json!(client_config);
    for entry in object.entries_mut() {
        let own = &mut entry.client_config;
        let bundle = own.ca_bundle.as_ref();
        let is_covered = bundle.is_some_and(|bundle| covered.contains(bundle));
        if is_covered && has_same_address(&json!(own), &address) {
            own.ca_bundle.clone_from(&client_config.ca_bundle);
        }
    }
}

/// The merge patch that widens the bundles in the cluster and changes nothing else.
pub(super) fn widening(
    live: &Object,
    wanted: &Object,
    covered: &BTreeSet<String>,
) -> Option<Value> {
    let mut object = live.clone();
    widen(&mut object, wanted, covered);
    let version = &live.metadata.resource_version;
    let patch = || json!({"metadata": {"resourceVersion": version}, "webhooks": object.webhooks});
    (object.webhooks != live.webhooks).then(patch)
}
