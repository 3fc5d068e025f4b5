//! The start-up lines: what was read, what each injector's state is and why, where the CA is, and
//! a command to paste.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::certs::throwaway::{Origin, Prepared};
use crate::cluster::folder::Folder;
use crate::cluster::object::Kind;
use crate::cluster::report::State;
use crate::cluster::store::Store;
use crate::decision::{Looked, Readiness, sentence};
use crate::injector::spec::Mode;

use super::super::output;
use super::{Addresses, ServeArgs};

/// All of it.
pub(super) fn text(
    args: &ServeArgs,
    folder: &Folder,
    store: &Store,
    certificates: &Prepared,
    addresses: Addresses,
) -> String {
    let (gate, ca) = (url(addresses.admission), &certificates.ca_path);
    let mut text = format!(
        "meshgate {} answers for the cluster in {}\n\n",
        env!("CARGO_PKG_VERSION"),
        args.standalone.display()
    );
    let mut line = |name: &str, value: &str| text.push_str(&format!("  {name:<9} {value}\n"));
    line("read", &read(folder, store));
    line("injectors", &injectors(folder, store));
    line("excluded", &excluded(store));
    for note in notes(store) {
        line("note", &note);
    }
    line("gate", &format!("https://{gate}/mutate/pods"));
    line("check", &format!("https://{gate}/validate/pods"));
    line(
        "probes",
        &format!("http://{}/readyz?verbose", url(addresses.admin)),
    );
    let made = match certificates.origin {
        Origin::Found => "found there",
        Origin::Made => "made just now",
        Origin::MadeAnew => "made anew just now",
    };
    let until = certificates.pair.not_after().strftime("%Y-%m-%d");
    match ca {
        Some(ca) => line(
            "CA",
            &format!("{} ({made}, valid until {until})", ca.display()),
        ),
        None => line(
            "CA",
            &format!("that of {}", certificates.cert_path.display()),
        ),
    }
    text.push_str(&format!("\n{}\n", states_table(store)));
    let ca = ca.as_deref().unwrap_or_else(|| Path::new("CA.crt"));
    let (verb, review) = match review(&args.standalone) {
        Some(review) => ("Try", review),
        None => ("Send an AdmissionReview", PathBuf::from("REVIEW.json")),
    };
    text.push_str(&format!(
        "{verb}, in another terminal:\n\n  curl --cacert {} -H 'Content-Type: application/json' \\\n    \
         --data @{} https://{gate}/mutate/pods\n\n",
        quoted(ca),
        quoted(&review)
    ));
    text
}

/// Lines that tell, by what is new in them, what a change has changed.
pub(super) fn facts(folder: &Folder, store: &Store) -> BTreeSet<String> {
    let line = |state: &State<'_>| {
        let (word, why) = state_and_reason(state);
        format!("{} is {word}: {why}", name(state))
    };
    let mut facts: BTreeSet<String> = store.states().iter().map(line).collect();
    facts.insert(format!("injectors: {}", injectors(folder, store)));
    facts.insert(format!("excluded namespaces: {}", excluded(store)));
    facts.extend(notes(store));
    facts
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
        Readiness::Usable(looked) => ("usable", sentence::state(profile, looked)),
        Readiness::NotUsable(looked) => ("not usable", sentence::state(profile, looked)),
        Readiness::NotInstalled | Readiness::NoInstance => (
            "not installed",
            "no webhook configuration has an entry of it".to_owned(),
        ),
    }
}

fn read(folder: &Folder, store: &Store) -> String {
    let count = |(kind, count): (Kind, usize)| plural(count, kind.as_str());
    let mut text = plural(folder.files().count(), "file");
    text.push_str(": ");
    text.push_str(&store.counts().map(count).join(", "));
    let (_, lost) = store.nodes().counts();
    if lost > 0 {
        text.push_str(&format!(" ({lost} of the Nodes lost)"));
    }
    let ignored = folder.ignored();
    if !ignored.is_empty() {
        let kinds: Vec<String> = ignored
            .iter()
            .map(|(kind, count)| plural(*count, kind))
            .collect();
        text.push_str(&format!("; not looked at: {}", kinds.join(", ")));
    }
    text
}

fn plural(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

fn injectors(folder: &Folder, store: &Store) -> String {
    let name = |mode: Mode, name: &str| match mode {
        Mode::Enforce => name.to_owned(),
        Mode::Warn => format!("{name} (warns only)"),
        Mode::Disabled => format!("{name} (disabled)"),
    };
    let profiles = store.injectors().iter().map(|injector| &injector.profile);
    let names: Vec<String> = profiles.map(|p| name(p.mode, &p.name)).collect();
    let names = names.join(", ");
    match folder.configuration_origin() {
        Some(origin) => format!("{names} (by {origin})"),
        None => format!("{names} (no Configuration was found: all presets)"),
    }
}

fn excluded(store: &Store) -> String {
    let always = crate::injector::ALWAYS_EXCLUDED.iter().copied();
    let more = store.injectors().excluded().iter().map(String::as_str);
    always.chain(more).collect::<Vec<_>>().join(", ")
}

/// What somebody would wonder about later.
fn notes(store: &Store) -> Vec<String> {
    let [(_, namespaces), .., (_, nodes), (_, webhooks)] = store.counts();
    let mut notes = Vec::new();
    let (_, lost) = store.nodes().counts();
    if store.counts().iter().all(|(_, count)| *count == 0) {
        let note = "no object was found: expected *.yaml, *.yml or *.json files directly in the \
                    folder";
        return vec![note.to_owned()];
    }
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
    if webhooks == 0 {
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
    for state in store.states() {
        if let Readiness::Usable(Looked::Endpoints { service, .. })
        | Readiness::NotUsable(Looked::Endpoints {
            service,
            tally: None,
            ..
        }) = &state.readiness
            && let Some(external) = store.external_name(service).filter(|name| !name.is_empty())
        {
            notes.push(format!(
                "Service {service} of {} is an ExternalName ({external}) and never has \
                 endpoints: let its profile say readiness: probe or assumed",
                name(&state)
            ));
        }
    }
    notes
}

/// A review to try: one of those beside the folder.
fn review(folder: &Path) -> Option<PathBuf> {
    let beside = match folder.parent() {
        Some(parent) if folder.file_name().is_some() => parent.join("reviews"),
        Some(_) | None => folder.join("../reviews"),
    };
    let entries = std::fs::read_dir(beside).ok()?.flatten();
    let files = entries.map(|entry| entry.path());
    files
        .filter(|file| file.extension().is_some_and(|end| end == "json"))
        .min()
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
