//! Replicas, leader, certificates, injectors and refusals.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use meshgate_core::list::listed;

use crate::cli::output::plural;
use crate::cli::states::InjectorState;

use super::super::observed::{Ends, Leader, Observed, Owners, Pod, Refusal, Stuck};
use super::{Grade, Row, judged, row, span, time};

/// How many refusals the report shows, the newest first.
const SHOWN: usize = 5;
/// Longest message of a refusal, in characters.
const LONGEST: usize = 160;

pub(super) fn replicas(pods: &[Pod], wanted: &BTreeMap<String, usize>) -> Vec<Row> {
    let counted = |part, component: &str| {
        let of = |pod: &&Pod| pod.component == component && !pod.ending;
        let pods: Vec<&Pod> = pods.iter().filter(of).collect();
        counted(part, &pods, wanted.get(component).copied().unwrap_or(0))
    };
    let mut rows = vec![counted("replicas", "serve"), counted("control", "control")];
    rows.extend(differing(pods).map(|text| row("replicas", Grade::Finding, text)));
    rows
}

/// A sentence if serving replicas have different configurations. Pods that are ending count: they
/// answer until they are gone, and meshgate arms nothing new before that.
fn differing(pods: &[Pod]) -> Option<String> {
    let serving = || pods.iter().filter(|pod| pod.component == "serve");
    let hashes: BTreeSet<&str> = serving().map(|pod| pod.configuration.as_str()).collect();
    if hashes.len() < 2 {
        return None;
    }
    let ending = serving().filter(|pod| pod.ending).count();
    let hashes = listed(hashes);
    let differ = if ending == 0 {
        format!("they have different configurations: {hashes}")
    } else {
        format!("{ending} more are terminating, of different configurations: {hashes}")
    };
    Some(format!(
        "{differ}; a new one is put in force once all replicas have it"
    ))
}

/// The pods of a component. One that the Deployment wants and could not create counts as not ready.
fn counted(part: &'static str, pods: &[&Pod], wanted: usize) -> Row {
    if pods.is_empty() {
        return row(part, Grade::Finding, "no pod");
    }
    let ready = pods.iter().filter(|pod| pod.ready).count();
    let nodes: BTreeSet<&str> = pods.iter().map(|pod| pod.node.as_str()).collect();
    let images: BTreeSet<&str> = pods.iter().map(|pod| pod.image.as_str()).collect();
    let all = wanted.max(pods.len());
    let is_spread = pods.len() < 2 || nodes.len() > 1;
    let nodes = plural(nodes.len(), "node");
    let text = format!("{ready} of {all} ready, on {nodes} ({})", listed(images));
    judged(part, ready == all && is_spread, text)
}

pub(super) fn leader(leader: Option<&Leader>, now: Timestamp) -> Row {
    let finding = |text: String| row("leader", Grade::Finding, text);
    let Some(leader) = leader else {
        return finding("none: there is no Lease".to_owned());
    };
    let Some(renewed) = leader.renewed.filter(|_| !leader.holder.is_empty()) else {
        return finding("none: the Lease is free".to_owned());
    };
    let (holder, age) = (&leader.holder, span(renewed, now));
    if now.as_second() - renewed.as_second() > leader.holds {
        return finding(format!("none: {holder} last renewed the Lease {age} ago"));
    }
    let text = format!("{holder}, renewed the Lease {age} ago");
    row("leader", Grade::Good, text)
}

/// Until when the API server can call the replicas.
pub(super) fn certificates(seen: &Observed) -> [Row; 2] {
    // A chain begins with the leaf.
    let served = |chain: &Ends| chain.first().map(|(_, end)| *end);
    // Of several CAs, the API server needs only one.
    let trusted = |cas: &Ends| cas.iter().map(|(_, end)| *end).max();
    let judge = |what: &str, end: Result<Option<Timestamp>, _>| {
        let (grade, text) = match end {
            Err(why) => (Grade::Unknown, format!("not known: {what}: {why:#}")),
            Ok(None) => (Grade::Finding, format!("{what}: there is none")),
            Ok(Some(end)) if end <= seen.now => {
                (Grade::Finding, format!("{what}: EXPIRED at {}", time(end)))
            }
            Ok(Some(end)) => {
                let (end, left) = (time(end), span(seen.now, end));
                (Grade::Good, format!("{what}: until {end} ({left})"))
            }
        };
        row("certificates", grade, text)
    };
    [
        judge("served with", seen.serving.as_ref().map(served)),
        judge(
            "trusted by the API server",
            seen.trusted.as_ref().map(trusted),
        ),
    ]
}

pub(super) fn injectors(injectors: &[InjectorState]) -> Vec<Row> {
    let row = |one: &InjectorState| {
        let text = format!("{} {}: {}", one.name, one.state, one.why);
        judged("injectors", one.state == "usable", text)
    };
    injectors.iter().map(row).collect()
}

pub(super) fn refusals(refusals: &[Refusal], now: Timestamp) -> Vec<Row> {
    if refusals.is_empty() {
        return vec![row("refusals", Grade::Good, "none in the last minutes")];
    }
    let fact = |text: String| row("refusals", Grade::Fact, text);
    let mut newest: Vec<_> = refusals.iter().collect();
    newest.sort_by_key(|one| std::cmp::Reverse(one.last));
    let tell = |one: &&Refusal| {
        let message = shortened(&one.message);
        let age = span(one.last, now);
        fact(format!(
            "{} ({}x, {age} ago): {message}",
            one.owner, one.count
        ))
    };
    let mut rows: Vec<Row> = newest.iter().take(SHOWN).map(tell).collect();
    if refusals.len() > SHOWN {
        rows.push(fact(format!("and {} more", refusals.len() - SHOWN)));
    }
    rows
}

fn shortened(message: &str) -> String {
    let mut short: String = message.chars().take(LONGEST).collect();
    if short.len() < message.len() {
        short.push('…');
    }
    short
}

/// The owners that lack pods, per injector, and when meshgate last made some try again.
pub(super) fn owners(owners: &Owners, now: Timestamp) -> Vec<Row> {
    let mut by_injector: BTreeMap<&str, Vec<&Stuck>> = BTreeMap::new();
    for one in &owners.blocked {
        by_injector.entry(&one.injector).or_default().push(one);
    }
    let tell = |(injector, all): (&str, Vec<&Stuck>)| {
        let oldest = all.iter().min_by_key(|one| (one.since, &one.owner))?;
        let (count, age) = (plural(all.len(), "owner"), span(oldest.since, now));
        let (owner, why) = (&oldest.owner, shortened(&oldest.why));
        let text = format!("{count} blocked by {injector}, {owner} for {age}: {why}");
        Some(row("owners", Grade::Finding, text))
    };
    let mut rows: Vec<Row> = by_injector.into_iter().filter_map(tell).collect();
    if rows.is_empty() {
        rows.push(row(
            "owners",
            Grade::Good,
            "none lacks pods because of an injector",
        ));
    }
    if let Some(last) = owners.woken.iter().max() {
        let (count, age) = (plural(owners.woken.len(), "owner"), span(*last, now));
        let text = format!("{count} woken within the last hour, the last {age} ago");
        rows.push(row("owners", Grade::Fact, text));
    }
    rows
}
