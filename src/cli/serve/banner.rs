//! The lines that both ways to serve print at their start: addresses, injectors, what looks wrong.

use std::collections::BTreeSet;

use meshgate_core::injector::ALWAYS_EXCLUDED;
use meshgate_core::injector::profile::Mode;
use meshgate_core::list::listed;
use meshgate_core::readiness::{Looked, Readiness};

use crate::certs::throwaway::{Origin, Prepared};
use crate::cli::output::{self, plural};
use crate::cli::states;
use crate::cluster::object::Kind;
use crate::cluster::report::State;
use crate::cluster::store::Store;
use crate::server::probe::reachable;

use super::certificates::Certificates;
use super::listeners::Ready;

/// Lines of a name and a value.
#[derive(Debug, Default)]
pub(super) struct Lines(pub(super) String);

impl Lines {
    pub(super) fn push(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("  {name:<9} {value}\n"));
    }

    pub(super) fn push_notes(&mut self, notes: &[String]) {
        for note in notes {
            self.push("note", note);
        }
    }

    /// Where the server listens, and which CA verifies it.
    pub(super) fn push_server(&mut self, server: &Ready) {
        let gate = reachable(server.server.address);
        self.push("gate", &format!("https://{gate}/mutate/pods"));
        self.push("check", &format!("https://{gate}/validate/pods"));
        let admin = reachable(server.admin.address);
        self.push("probes", &format!("http://{admin}/readyz?verbose"));
        let ca = match &server.certificates {
            Certificates::Files(files) => ca_of(files),
            Certificates::Secret(secret) => format!("that of Secret {secret}"),
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
    let until = files.pair.leaf().not_after.strftime("%Y-%m-%d");
    match &files.ca_path {
        Some(ca) => format!("{} ({made}, valid until {until})", ca.display()),
        None => format!("that of {}", files.pair_files.cert.display()),
    }
}

/// A line per injector. After a change, the lines that are new tell what has changed.
pub(super) fn state_lines(store: &Store) -> BTreeSet<String> {
    let states = states::of(store).into_iter();
    states
        .map(|one| format!("{} is {}: {}", one.name, one.state, one.why))
        .collect()
}

pub(super) fn states_table(store: &Store) -> String {
    let mut table = output::table(&["INJECTOR", "STATE", "WHY"]);
    for one in states::of(store) {
        table.add_row([one.name.as_str(), one.state, one.why.as_str()]);
    }
    output::indented(&table)
}

/// The names of the injectors; `origin` says where the configuration comes from.
pub(super) fn injectors(store: &Store, origin: &str) -> String {
    let profiles = store.injectors().iter().map(|injector| &injector.profile);
    let names = profiles.map(|profile| {
        let mode = match profile.mode {
            Mode::Enforce => "",
            Mode::Warn => " (warns only)",
            Mode::Disabled => " (disabled)",
        };
        format!("{}{mode}", profile.name)
    });
    format!("{} ({origin})", listed(names))
}

/// How many objects of each kind there are.
pub(super) fn counts(store: &Store) -> String {
    let count = |(kind, count): (Kind, usize)| plural(count, kind.as_str());
    let mut text = store.counts().map(count).join(", ");
    let (_, lost) = store.nodes.counts();
    if lost > 0 {
        text.push_str(&format!(" ({lost} of the Nodes lost)"));
    }
    text
}

/// The namespaces that meshgate never looks at.
pub(super) fn excluded(store: &Store) -> String {
    let always = ALWAYS_EXCLUDED.iter().copied();
    let more = store.injectors().excluded().iter().map(String::as_str);
    listed(always.chain(more))
}

/// What looks wrong, or makes meshgate look away.
pub(super) fn notes(store: &Store) -> Vec<String> {
    let [(_, namespaces), .., (_, nodes), _] = store.counts();
    let (_, lost) = store.nodes.counts();
    let implausible = format!(
        "{lost} of {nodes} Nodes look lost, which is implausible: meshgate does not look at nodes"
    );
    let facts = [
        (namespaces == 0).then_some(
            "no Namespace was found: meshgate refuses pods until their Namespace is there",
        ),
        store.nodes.rule_rests().then_some(&*implausible),
        (nodes == 0).then_some("no Node was found: meshgate does not look at nodes"),
        store.known_webhooks().is_none().then_some(
            "no webhook configuration was found: meshgate treats every injector as installed",
        ),
    ];
    let facts = facts.into_iter().flatten().map(str::to_owned);
    let ambiguous = store.ambiguous().map(|name| {
        format!(
            "{name} has webhook entries with several Services, none of them the profile's own: \
             meshgate takes the first; name the right one as `service`"
        )
    });
    let states = store.states();
    let of_states = states.iter().flat_map(|state| notes_on(state, store));
    facts.chain(ambiguous).chain(of_states).collect()
}

fn notes_on(state: &State<'_>, store: &Store) -> Vec<String> {
    let (Readiness::Usable(looked) | Readiness::NotUsable(looked)) = &state.readiness else {
        return Vec::new();
    };
    let Looked::Endpoints { service, tally, .. } = looked else {
        return Vec::new();
    };
    let name = states::name(state);
    let (namespace, own) = (
        &service.namespace,
        &state.injector.profile.service.namespace,
    );
    let elsewhere = (namespace != own).then(|| {
        format!(
            "{name} is in namespace {namespace} and not in {own}: let its profile say `service: \
             {{namespace: {namespace}, name: {}}}`, so that its own pods never wait for it",
            service.name
        )
    });
    let external = store.external_name(service).filter(|name| !name.is_empty());
    let external = external.filter(|_| tally.is_none()).map(|external| {
        format!(
            "Service {service} of {name} is an ExternalName ({external}) and never has endpoints: \
             let its profile say readiness: probe or assumed"
        )
    });
    elsewhere.into_iter().chain(external).collect()
}
