//! Who answers and writes, by which certificates; injectors; who was refused.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Grade, Observed, Pod, Row, row, span, time, unknown};

/// Refusals that are shown, the newest first.
const SHOWN: usize = 5;
/// Longest message of one.
const LONGEST: usize = 160;

/// The pods.
pub(super) fn replicas(seen: &Observed) -> Vec<Row> {
    let pods = match &seen.pods {
        Ok(pods) => pods,
        Err(why) => return vec![unknown("replicas", why)],
    };
    let of = |component: &str| -> Vec<&Pod> {
        let pods = pods.iter();
        pods.filter(|pod| pod.component == component && !pod.ending)
            .collect()
    };
    let wanted = |component: &str| seen.wanted.get(component).copied().unwrap_or_default();
    let serving = of("serve");
    let mut rows = vec![
        counted("replicas", &serving, wanted("serve")),
        counted("control", &of("control"), wanted("control")),
    ];
    rows.extend(differing(pods).map(|text| row("replicas", Grade::Finding, text)));
    rows
}

/// What there is to say where serving replicas have different configurations, those included that are
/// about to end: they answer until then, and so long nothing else is put in force.
fn differing(pods: &[Pod]) -> Option<String> {
    let serving = || pods.iter().filter(|pod| pod.component == "serve");
    let all: BTreeSet<&str> = serving().map(|pod| pod.configuration.as_str()).collect();
    let hashes: Vec<&str> = all.into_iter().collect();
    let ending = serving().filter(|pod| pod.ending).count();
    let waits = "a new one is put in force once all have it";
    match (hashes.len() > 1, ending) {
        (false, _) => None,
        (true, 0) => Some(format!(
            "they have different configurations: {}; {waits}",
            hashes.join(", ")
        )),
        (true, _) => Some(format!(
            "{ending} more on their way out, of different configurations: {}; {waits}",
            hashes.join(", ")
        )),
    }
}

/// Pods of a component; those that are wanted and could not even be made count as not ready.
fn counted(part: &'static str, pods: &[&Pod], wanted: usize) -> Row {
    if pods.is_empty() {
        return row(part, Grade::Finding, "no pod");
    }
    let ready = pods.iter().filter(|pod| pod.ready).count();
    let nodes: BTreeSet<&str> = pods.iter().map(|pod| pod.node.as_str()).collect();
    let images: BTreeSet<&str> = pods.iter().map(|pod| pod.image.as_str()).collect();
    let all = wanted.max(pods.len());
    let text = format!(
        "{ready} of {all} ready, on {} ({})",
        match nodes.len() {
            1 => "1 node".to_owned(),
            count => format!("{count} nodes"),
        },
        images.into_iter().collect::<Vec<_>>().join(", ")
    );
    let is_spread = pods.len() < 2 || nodes.len() > 1;
    match ready == all && is_spread {
        true => row(part, Grade::Good, text),
        false => row(part, Grade::Finding, text),
    }
}

/// Who holds the Lease.
pub(super) fn leader(seen: &Observed) -> Row {
    let leader = match &seen.leader {
        Ok(Some(leader)) => leader,
        Ok(None) => return row("leader", Grade::Finding, "nobody: there is no Lease"),
        Err(why) => return unknown("leader", why),
    };
    let Some(renewed) = leader.renewed.filter(|_| !leader.holder.is_empty()) else {
        return row("leader", Grade::Finding, "nobody: the Lease is free");
    };
    let age = span(renewed, seen.now);
    let is_held = seen.now.as_second() - renewed.as_second() <= leader.holds;
    match is_held {
        true => row(
            "leader",
            Grade::Good,
            format!("{}, heard of {age} ago", leader.holder),
        ),
        false => row(
            "leader",
            Grade::Finding,
            format!("nobody: {} was last heard of {age} ago", leader.holder),
        ),
    }
}

/// Until when replicas can be called.
pub(super) fn certificates(seen: &Observed) -> Vec<Row> {
    let ends = |what: &str, known: &super::Known<Vec<(String, Timestamp)>>, all: bool| -> Row {
        let ends = match known {
            Ok(ends) => ends,
            Err(why) => return unknown("certificates", &format!("{what}: {why}")),
        };
        let mut times = ends.iter().map(|(_, end)| *end);
        // A leaf comes first in its chain; of several CAs the newest counts.
        let end = if all { times.max() } else { times.next() };
        match end {
            None => row(
                "certificates",
                Grade::Finding,
                format!("{what}: there is none"),
            ),
            Some(end) if end <= seen.now => {
                let text = format!("{what}: EXPIRED at {}", time(end));
                row("certificates", Grade::Finding, text)
            }
            Some(end) => {
                let text = format!("{what}: until {} ({})", time(end), span(seen.now, end));
                row("certificates", Grade::Good, text)
            }
        }
    };
    vec![
        ends("served with", &seen.serving, false),
        ends("trusted by the API server", &seen.trusted, true),
    ]
}

/// Whether injectors can be tried.
pub(super) fn injectors(seen: &Observed) -> Vec<Row> {
    let injectors = match &seen.injectors {
        Ok(injectors) => injectors,
        Err(why) => return vec![unknown("injectors", why)],
    };
    let tell = |one: &super::Injector| {
        let grade = match one.state {
            "usable" => Grade::Good,
            _ => Grade::Finding,
        };
        row(
            "injectors",
            grade,
            format!("{} {}: {}", one.name, one.state, one.why),
        )
    };
    injectors.iter().map(tell).collect()
}

/// Who was refused.
pub(super) fn refusals(seen: &Observed) -> Vec<Row> {
    let refusals = match &seen.refusals {
        Ok(refusals) => refusals,
        Err(why) => return vec![unknown("refusals", why)],
    };
    if refusals.is_empty() {
        return vec![row("refusals", Grade::Good, "none in the last minutes")];
    }
    let mut newest: Vec<_> = refusals.iter().collect();
    newest.sort_by_key(|one| std::cmp::Reverse(one.last));
    let tell = |one: &&super::Refusal| {
        let mut message: String = one.message.chars().take(LONGEST).collect();
        if message.len() < one.message.len() {
            message.push('…');
        }
        let text = format!(
            "{} ({}x, {} ago): {message}",
            one.owner,
            one.count,
            span(one.last, seen.now)
        );
        row("refusals", Grade::Fact, text)
    };
    let mut rows: Vec<Row> = newest.iter().take(SHOWN).map(tell).collect();
    if refusals.len() > SHOWN {
        let text = format!("and {} more", refusals.len() - SHOWN);
        rows.push(row("refusals", Grade::Fact, text));
    }
    rows
}
