//! The start-up lines: what was read, what each injector's state is and why, where the CA is, and
//! a command to paste.

pub(super) mod in_cluster;
pub(super) mod standalone;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::certs::throwaway::{Origin, Prepared};
use crate::cluster::object::Kind;
use crate::cluster::report::State;
use crate::cluster::store::Store;
use crate::injector::profile::Mode;
use crate::injector::profile::ServiceName;
use crate::message;
use crate::readiness::{Looked, Readiness};

use super::super::output;
use super::certificates::Certificates;
use super::front::Addresses;

/// A server that has started: what it serves with, and where.
#[derive(Clone, Copy)]
pub(super) struct Started<'p> {
    pub(super) certificates: &'p Certificates,
    pub(super) addresses: Addresses,
}

/// Lines of a name and what is to be said of it.
#[derive(Debug, Default)]
struct Lines(String);

impl Lines {
    fn push(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("  {name:<9} {value}\n"));
    }

    /// Where the server listens, and who vouches for it.
    fn push_started(&mut self, started: &Started<'_>) {
        let Started {
            certificates,
            addresses,
        } = started;
        let gate = url(addresses.admission);
        self.push("gate", &format!("https://{gate}/mutate/pods"));
        self.push("check", &format!("https://{gate}/validate/pods"));
        let admin = url(addresses.admin);
        self.push("probes", &format!("http://{admin}/readyz?verbose"));
        let ca = match certificates {
            Certificates::Files(files) => ca_of(files),
            Certificates::Secret(place) => format!("that of Secret {place}"),
        };
        self.push("CA", &ca);
    }
}

fn ca_of(files: &Prepared) -> String {
    let made = match files.origin {
        Origin::Found => "found there",
        Origin::Made => "made just now",
        Origin::MadeAnew => "made anew just now",
    };
    let until = files.pair.not_after().strftime("%Y-%m-%d");
    match &files.ca_path {
        Some(ca) => format!("{} ({made}, valid until {until})", ca.display()),
        None => format!("that of {}", files.cert_path.display()),
    }
}

/// A line per injector: what a change has changed is told by the lines that are new.
pub(super) fn state_lines(store: &Store) -> BTreeSet<String> {
    let line = |state: &State<'_>| {
        let (word, why) = state_and_reason(state);
        format!("{} is {word}: {why}", name(state))
    };
    store.states().iter().map(line).collect()
}

/// The first names of a list, and how many more there are.
pub(super) fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{shown} and {more} more"),
        Some(0) | None => shown,
    }
}

fn states_table(store: &Store) -> String {
    let mut table = output::table(&["INJECTOR", "STATE", "WHY"]);
    for state in store.states() {
        let (word, why) = state_and_reason(&state);
        table.add_row([name(&state).as_str(), word, why.as_str()]);
    }
    output::indented(&table)
}

fn name(state: &State<'_>) -> String {
    let name = &state.injector.profile.name;
    match state.instance {
        Some(instance) => format!("{name} {instance}"),
        None => name.clone(),
    }
}

/// The state of an injector in a word, and why.
pub(in super::super) fn state_and_reason(state: &State<'_>) -> (&'static str, String) {
    let profile = &state.injector.profile;
    match &state.readiness {
        Readiness::Usable(looked) => ("usable", message::state(profile, looked)),
        Readiness::NotUsable(looked) => ("not usable", message::state(profile, looked)),
        Readiness::NotInstalled | Readiness::NoInstance => (
            "not installed",
            "no webhook configuration has an entry of it".to_owned(),
        ),
    }
}

fn plural(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// The injectors by name; `origin` says where that comes from.
fn injectors(store: &Store, origin: &str) -> String {
    let name = |mode: Mode, name: &str| match mode {
        Mode::Enforce => name.to_owned(),
        Mode::Warn => format!("{name} (warns only)"),
        Mode::Disabled => format!("{name} (disabled)"),
    };
    let profiles = store.injectors().iter().map(|injector| &injector.profile);
    let names: Vec<String> = profiles.map(|p| name(p.mode, &p.name)).collect();
    format!("{} ({origin})", names.join(", "))
}

/// How many objects of each kind there are.
fn counts(store: &Store) -> String {
    let count = |(kind, count): (Kind, usize)| plural(count, kind.as_str());
    let mut text = store.counts().map(count).join(", ");
    let (_, lost) = store.nodes().counts();
    if lost > 0 {
        text.push_str(&format!(" ({lost} of the Nodes lost)"));
    }
    text
}

fn excluded(store: &Store) -> String {
    let always = crate::injector::ALWAYS_EXCLUDED.iter().copied();
    let more = store.injectors().excluded().iter().map(String::as_str);
    always.chain(more).collect::<Vec<_>>().join(", ")
}

/// What somebody would wonder about later.
fn notes(store: &Store) -> Vec<String> {
    let [(_, namespaces), .., (_, nodes), _] = store.counts();
    let mut notes = Vec::new();
    let (_, lost) = store.nodes().counts();
    if namespaces == 0 {
        let note = "no Namespace was found: pods are refused until theirs is there";
        notes.push(note.to_owned());
    }
    if store.nodes().rule_rests() {
        notes.push(format!(
            "{lost} of {nodes} Nodes look lost, which is too many to be true, so that nodes are \
             not looked at"
        ));
    }
    if nodes == 0 {
        notes.push("no Node was found, so that nodes are not looked at".to_owned());
    }
    if !store.knows_webhooks() {
        let note = "no webhook configuration was found, so that no injector counts as not \
                    installed; with one, all are checked";
        notes.push(note.to_owned());
    }
    for name in store.ambiguous() {
        notes.push(format!(
            "{name} has webhook entries with several Services, none of them the profile's own: \
             the first is taken, name the right one as `service`"
        ));
    }
    notes.extend(
        store
            .states()
            .iter()
            .flat_map(|state| notes_on(state, store)),
    );
    notes
}

/// The same of one injector.
fn notes_on(state: &State<'_>, store: &Store) -> Vec<String> {
    let mut notes = Vec::new();
    let (Readiness::Usable(looked) | Readiness::NotUsable(looked)) = &state.readiness else {
        return notes;
    };
    let Looked::Endpoints { service, tally, .. } = looked else {
        return notes;
    };
    let (name, own) = (name(state), &state.injector.profile.service.namespace);
    let ServiceName {
        namespace,
        name: service_name,
    } = &**service;
    if namespace != own {
        notes.push(format!(
            "{name} is in namespace {namespace} and not in {own}: let its profile say `service: \
             {{namespace: {namespace}, name: {service_name}}}`, so that its own pods never wait \
             for it"
        ));
    }
    let external = store.external_name(service).filter(|name| !name.is_empty());
    if let (None, Some(external)) = (tally, external) {
        notes.push(format!(
            "Service {service} of {name} is an ExternalName ({external}) and never has endpoints: \
             let its profile say readiness: probe or assumed"
        ));
    }
    notes
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    if text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The address as a URL has it; a wildcard address is reached through loopback.
fn url(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("127.0.0.1:{}", address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("[::1]:{}", address.port()),
        IpAddr::V4(_) | IpAddr::V6(_) => address.to_string(),
    }
}
