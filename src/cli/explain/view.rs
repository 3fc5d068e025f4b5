//! The answer for people: a table of two columns per pod.

use super::super::output;
use super::report::{Explained, Gate, Injector, State, UNKNOWN};

/// All pods, one block each.
pub(super) fn text(explained: &[Explained]) -> String {
    explained.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn block(pod: &Explained) -> String {
    let Explained {
        kind,
        name,
        namespace,
        origin,
        ..
    } = pod;
    let pods = if pod.template { "Pods of " } else { "" };
    let mut table = output::table(&[]);
    let mut row = |name: &str, text: String| {
        table.add_row([name.to_owned(), text]);
    };
    let of_interest = pod
        .injectors
        .iter()
        .filter(|injector| injector.requirement != "notRequired");
    if of_interest.clone().count() == 0 {
        let is_unknown = pod.gate.decision == UNKNOWN;
        row(
            "requires",
            if is_unknown {
                UNKNOWN.to_owned()
            } else {
                "nothing".to_owned()
            },
        );
    }
    for injector in &pod.injectors {
        row(word(injector), requirement(injector));
        if let Some(readiness) = &injector.readiness {
            row("", state(readiness));
            for endpoint in &readiness.endpoints {
                row("", format!("  {}: {}", endpoint.name, endpoint.state));
            }
            for slice in &readiness.slices {
                let managed_by = slice
                    .managed_by
                    .as_deref()
                    .map(|by| format!(", kept by {by}"));
                let managed_by = managed_by.unwrap_or_default();
                row(
                    "",
                    format!(
                        "  slice {}: endpoints {}{managed_by}",
                        slice.name, slice.endpoints
                    ),
                );
            }
        }
    }
    row("gate", gate(&pod.gate));
    for injector in &pod.injectors {
        if let Some(check) = &injector.check {
            row("check", format!("{}: {check}", injector.name));
        }
    }
    for warning in &pod.warnings {
        row("warning", warning.clone());
    }
    format!(
        "{pods}{kind} {name} in namespace {namespace} ({origin})\n{}",
        output::indented(&table)
    )
}

fn word(injector: &Injector) -> &'static str {
    match injector.requirement {
        "required" => "requires",
        "invalid" => "invalid",
        _ => "without",
    }
}

fn requirement(injector: &Injector) -> String {
    let name = match &injector.instance {
        Some(instance) => format!("{} {instance}", injector.name),
        None => injector.name.clone(),
    };
    format!(
        "{name}, by its rule {}: {}",
        injector.rule, injector.because
    )
}

fn state(state: &State) -> String {
    match state.state {
        "usable" => output::good("usable") + ": " + &state.why,
        "notUsable" => output::bad("not usable") + ": " + &state.why,
        "notInstalled" => output::bad("not installed") + ": " + &state.why,
        _ => output::unclear("unknown") + ": " + &state.why,
    }
}

fn gate(gate: &Gate) -> String {
    let reason = gate.reason;
    match (gate.decision, &gate.mark) {
        ("mark", Some(mark)) => format!(
            "{} and mark it {mark} ({reason})",
            output::good("would admit it")
        ),
        ("admit" | "mark", _) => format!("{} ({reason})", output::good("would admit it")),
        ("warn", _) => format!(
            "{} ({reason})",
            output::unclear("would admit it with a warning")
        ),
        ("defer", _) => {
            format!(
                "{} ({reason}): {}",
                output::bad("would refuse it for now"),
                gate.message
            )
        }
        ("unknown", _) => format!("{}: {}", output::unclear("unknown"), gate.message),
        (_, _) => format!(
            "{} ({reason}): {}",
            output::bad("would refuse it"),
            gate.message
        ),
    }
}
