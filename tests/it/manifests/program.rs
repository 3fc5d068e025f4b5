//! The manifests and the program agree: flags, ports, the user of the image.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{installed, of_kind, pods};

fn container(pod: &Value) -> &Value {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    &containers[0]
}

/// Why the built program does not take these arguments, if so: `--help` comes last, so that all others
/// are read.
pub(crate) fn refusal(arguments: &[String]) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_meshgate"))
        .args(arguments)
        .arg("--help")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then_some(said)
}

/// The arguments of each container of these objects.
pub(crate) fn arguments(objects: &[Value]) -> Vec<(String, Vec<String>)> {
    let of = |pod: &Value| -> Vec<String> {
        serde_json::from_value(container(pod)["args"].clone()).unwrap()
    };
    let all = pods(objects).into_iter();
    all.map(|(whose, pod)| (whose, of(pod))).collect()
}

#[test]
fn the_program_takes_the_flags() {
    for (whose, arguments) in arguments(&installed()) {
        assert_eq!(refusal(&arguments), None, "{whose}: {arguments:?}");
    }
}

#[test]
fn ports_are_called_and_numbered_alike() {
    let objects = installed();
    for (whose, pod) in pods(&objects) {
        let container = container(pod);
        let arguments = container["args"].to_string();
        for port in container["ports"].as_array().unwrap() {
            let flag = match port["name"].as_str() {
                Some("https") => "--listen=[::]",
                Some("http") => "--admin-listen=[::]",
                other => panic!("{other:?}"),
            };
            let flag = format!("\"{flag}:{}\"", port["containerPort"]);
            assert!(arguments.contains(&flag), "{whose}: {flag} in {arguments}");
        }
    }
    let services = of_kind(&objects, "Service");
    let [service] = services[..] else {
        panic!("{services:?}")
    };
    assert_eq!(service["spec"]["ports"][0]["targetPort"], "https");
}

/// The time that the kubelet gives is longer than what the program takes.
#[test]
fn no_replica_is_killed_while_it_drains() {
    for (whose, pod) in pods(&installed()) {
        let arguments = container(pod)["args"].to_string();
        let seconds = |flag: &str| -> u64 {
            let Some((_, rest)) = arguments.split_once(flag) else {
                return 0;
            };
            rest.split_once('s').unwrap().0.parse().unwrap()
        };
        let own = seconds("--shutdown-delay=") + seconds("--drain-deadline=");
        let grace = pod["spec"]["terminationGracePeriodSeconds"]
            .as_u64()
            .unwrap();
        assert!(grace >= own + 5, "{whose}: {grace} s for {own} s");
    }
}

/// The image has a user that is not root, by number: else `runAsNonRoot` cannot be checked.
#[test]
fn the_image_is_what_the_pods_expect() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Dockerfile");
    let file = fs::read_to_string(file).unwrap();
    assert!(file.contains("\nUSER 65532:65532\n"));
    assert!(file.contains("\nENTRYPOINT [\"/usr/local/bin/meshgate\"]\n"));
    for (whose, pod) in pods(&installed()) {
        assert!(container(pod).get("command").is_none(), "{whose}");
        assert_eq!(
            pod["spec"]["securityContext"]["runAsNonRoot"], true,
            "{whose}"
        );
        assert!(
            pod["spec"]["securityContext"].get("runAsUser").is_none(),
            "{whose}"
        );
    }
    let chart = super::text("chart/Chart.yaml");
    let version = env!("CARGO_PKG_VERSION");
    assert!(chart.contains(&format!(
        "\nversion: {version}\nappVersion: \"{version}\"\n"
    )));
}

/// A tag of an action can be moved by its owner, a commit cannot; and a token that may write is for the
/// jobs that push.
#[test]
fn workflows_pin_their_actions_and_begin_with_the_right_to_read() {
    for (name, runs) in [("test.yml", "make test"), ("release.yml", "cosign sign")] {
        let text = super::text(&format!("../.github/workflows/{name}"));
        assert!(
            text.contains("\npermissions:\n  contents: read\n\n"),
            "{name}"
        );
        assert!(text.contains(runs), "{name}");
        let uses: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- uses: "))
            .collect();
        assert!(!uses.is_empty(), "{name}");
        for action in uses {
            let (_, pin) = action.split_once('@').unwrap();
            let (commit, tag) = pin.split_once(" # v").unwrap_or_default();
            let is_commit = commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit());
            assert!(is_commit && !tag.is_empty(), "{name}: {action}");
        }
    }
}
