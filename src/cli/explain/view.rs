//! The answer for people: a table of two columns per pod.

use super::super::output;
use super::report::{Explained, Gate, Injector, State, UNKNOWN};

/// All pods, one block each.
pub(super) fn text(explained: &[Explained]) -> String {
    explained.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn block(pod: &Explained) -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    if pod
        .injectors
        .iter()
        .all(|injector| injector.requirement == "notRequired")
    {
        let is_unknown = [UNKNOWN, "unreadable"].contains(&pod.gate.decision);
        rows.push((
            "requires",
            if is_unknown { UNKNOWN } else { "nothing" }.to_owned(),
        ));
    }
    for injector in &pod.injectors {
        rows.push((word(injector), requirement(injector)));
        rows.extend(
            injector
                .readiness
                .iter()
                .flat_map(state)
                .map(|line| ("", line)),
        );
    }
    rows.push(("gate", gate(&pod.gate)));
    let checks = pod
        .injectors
        .iter()
        .filter_map(|i| Some(format!("{}: {}", i.name, i.check.as_ref()?)));
    rows.extend(checks.map(|check| ("check", check)));
    rows.extend(
        pod.warnings
            .iter()
            .map(|warning| ("warning", warning.clone())),
    );

    let mut table = output::table(&[]);
    for (name, text) in rows {
        table.add_row([name, text.as_str()]);
    }
    let Explained {
        kind,
        name,
        namespace,
        origin,
        ..
    } = pod;
    let pods = if pod.template { "Pods of " } else { "" };
    let rows = output::indented(&table);
    format!("{pods}{kind} {name} in namespace {namespace} ({origin})\n{rows}")
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
    let Injector { because, rule, .. } = injector;
    match injector.requirement {
        "invalid" => format!("for {name}: {because} (rule {rule} of its profile)"),
        _ => format!("{name}: {because} (rule {rule} of its profile)"),
    }
}

/// The state of an injector, and below it what was counted.
fn state(state: &State) -> Vec<String> {
    let word = match state.state {
        "usable" => output::good("usable"),
        "notUsable" => output::bad("not usable"),
        "notInstalled" => output::bad("not installed"),
        _ => output::unclear(UNKNOWN),
    };
    let mut lines = vec![format!("{word}: {}", state.why)];
    lines.extend(
        state
            .endpoints
            .iter()
            .map(|one| format!("  {}: {}", one.name, one.state)),
    );
    lines.extend(state.slices.iter().map(|slice| {
        let managed_by = slice
            .managed_by
            .as_deref()
            .map(|by| format!(", kept by {by}"));
        let managed_by = managed_by.unwrap_or_default();
        let plural = if slice.endpoints == 1 { "" } else { "s" };
        format!(
            "  slice {}: {} endpoint{plural}{managed_by}",
            slice.name, slice.endpoints
        )
    }));
    lines
}

fn gate(gate: &Gate) -> String {
    let reason = gate.reason;
    match (gate.decision, &gate.mark) {
        ("mark", Some(mark)) => format!(
            "{} and mark it {mark} ({reason})",
            output::good("would admit it")
        ),
        ("admit" | "mark", _) => {
            format!(
                "{}{} ({reason})",
                output::good("would admit it"),
                why_exempt(reason)
            )
        }
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

/// Why a pod is not looked at, for those that are not.
fn why_exempt(reason: &str) -> &'static str {
    match reason {
        "excluded_namespace" => ", as pods of this namespace are never looked at",
        "host_network" => ", as injectors pass by pods on the host network",
        "os_windows" => ", as injectors pass by Windows pods",
        "mirror_pod" => ", as a kubelet's mirror pods run whatever is said of them",
        "pod_opt_out" => ", as the pod opts out",
        _ => "",
    }
}
