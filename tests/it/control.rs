//! `meshgate control` before it has a cluster: what it lacks, and that it waits for an API server.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::lab::harness::{PATIENCE, within};
use crate::support::process::get;

const CONFIG: &str = "examples/cluster/meshgate.yaml";

/// An API server that does not run.
const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: x, user: {token: x}}]
contexts: [{name: x, context: {cluster: x, user: x}}]
current-context: x
";

fn control(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshgate"));
    command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .arg("control")
        .args(arguments)
        .env_remove("MESHGATE_NAMESPACE")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

#[tokio::test]
async fn it_says_what_it_lacks() {
    let url = "https://127.0.0.1:8443";
    for (arguments, expected) in [
        (&[][..], "expected --config FILE: the injectors are named"),
        (&["--config", "missing"], "cannot read --config missing"),
        (&["--config", CONFIG], "found no --kubeconfig"),
        (
            &["--config", CONFIG, "--kubeconfig", "missing"],
            "cannot use --kubeconfig missing",
        ),
        (
            &["--config", CONFIG, "--configuration-hash", ""],
            "expected --configuration-hash to be the label",
        ),
        (
            &["--config", CONFIG, "--service-port", "0"],
            "--service-port",
        ),
        (
            &["--service", "x", "--webhook-url", url],
            "cannot be used with",
        ),
    ] {
        let output = timeout(PATIENCE, control(arguments).output()).await;
        let output = output.unwrap().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
}

/// It does not end for want of an API server (case 63), is alive, not ready, says why, and ends when
/// it is told to.
#[tokio::test]
async fn it_waits_for_an_api_server() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let mut child = control(&["--config", CONFIG, "--admin-listen", "127.0.0.1:0"])
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let probes = loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some((_, rest)) = line.split_once("http://") {
            break rest.split('/').next().unwrap().parse().unwrap();
        }
    };
    within(PATIENCE, "it says why it is not ready", async || {
        let ready = get(probes, "/readyz?verbose");
        ready
            .contains("[-]lease failed: the Lease cannot be read or written: ")
            .then_some(())
    })
    .await;
    assert!(get(probes, "/livez").starts_with("HTTP/1.1 200"));
    let metrics = get(probes, "/metrics");
    assert!(metrics.lines().any(|line| line == "meshgate_leader 0"));
    let id = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    let status = timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
}
