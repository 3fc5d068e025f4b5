//! The answer as people read it: a table of two columns per pod.

use meshgate_core::injector::rule::Outcome;

use crate::cli::output;

use super::answer::{Explained, Gate, Injector, State, UNKNOWN};

/// All pods, one block each.
pub(super) fn text(explained: &[Explained<'_>]) -> String {
    explained.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn block(pod: &Explained<'_>) -> String {
    let mut table = output::table(&[]);
    let mut add = |name: &str, text: &str| {
        table.add_row([name, text]);
    };
    let mut injectors = pod.injectors.iter();
    if injectors.all(|injector| injector.requirement == Outcome::NotRequired) {
        let is_unknown = [UNKNOWN, "unreadable"].contains(&pod.gate.decision);
        add("requires", if is_unknown { UNKNOWN } else { "nothing" });
    }
    for injector in &pod.injectors {
        let (word, text) = requirement(injector);
        add(word, &text);
        let lines = injector.readiness.iter().flat_map(state);
        lines.for_each(|line| add("", &line));
    }
    add("gate", &gate(&pod.gate));
    for injector in &pod.injectors {
        if let Some(check) = &injector.check {
            add("check", &format!("{}: {check}", injector.name));
        }
    }
    for warning in &pod.warnings {
        add("warning", warning);
    }
    let subject = pod.subject;
    let pods = if subject.is_template { "Pods of " } else { "" };
    format!(
        "{pods}{} {} in namespace {} ({})\n{}",
        subject.kind,
        subject.name,
        subject.namespace,
        subject.origin,
        output::indented(&table)
    )
}

fn requirement(injector: &Injector) -> (&'static str, String) {
    let Injector { because, rule, .. } = injector;
    let (word, before) = match injector.requirement {
        Outcome::Required => ("requires", ""),
        Outcome::Invalid => ("invalid", "for "),
        Outcome::OptOut => ("opts out", "of "),
        Outcome::NotRequired => ("without", ""),
    };
    let instance = injector.instance.as_ref();
    let instance = instance.map(|name| format!(" {name}")).unwrap_or_default();
    let name = format!("{before}{}{instance}", injector.name);
    let text = format!("{name}: {because} (rule {rule} of its profile)");
    (word, text)
}

/// The state of an injector, and below it the endpoints that were counted.
fn state(state: &State) -> Vec<String> {
    let word = match state.state {
        "usable" => output::good("usable"),
        "notUsable" => output::bad("not usable"),
        "notInstalled" => output::bad("not installed"),
        _ => output::unclear(UNKNOWN),
    };
    let mut lines = vec![format!("{word}: {}", state.why)];
    let endpoints = state.endpoints.iter();
    lines.extend(endpoints.map(|one| format!("  {}: {}", one.name, one.state)));
    lines.extend(state.slices.iter().map(|slice| {
        let by = slice.managed_by.as_ref();
        let by = by.map(|by| format!(", kept by {by}")).unwrap_or_default();
        let count = output::plural(slice.endpoints, "endpoint");
        format!("  slice {}: {count}{by}", slice.name)
    }));
    lines
}

fn gate(gate: &Gate) -> String {
    let Gate {
        reason, message, ..
    } = gate;
    let admits = output::good("would admit it");
    match (gate.decision, &gate.mark) {
        ("mark", Some(mark)) => format!("{admits} and mark it {mark} ({reason})"),
        ("admit" | "mark", _) => format!("{admits}{} ({reason})", why_exempt(reason)),
        ("warn", _) => {
            let warns = output::unclear("would admit it with a warning");
            format!("{warns} ({reason})")
        }
        (UNKNOWN, _) => format!("{}: {message}", output::unclear(UNKNOWN)),
        ("defer", _) => {
            let refuses = output::bad("would refuse it for now");
            format!("{refuses} ({reason}): {message}")
        }
        _ => format!("{} ({reason}): {message}", output::bad("would refuse it")),
    }
}

/// Why meshgate does not look at a pod.
fn why_exempt(reason: &str) -> &'static str {
    match reason {
        "excluded_namespace" => ", as meshgate never looks at pods of this namespace",
        "host_network" => ", as injectors pass by pods on the host network",
        "os_windows" => ", as injectors pass by Windows pods",
        "mirror_pod" => ", as a kubelet runs its mirror pods whatever the API server answers",
        "pod_opt_out" => ", as the pod opts out",
        _ => "",
    }
}
