//! What a lab with a network obeys besides (see [`crate::orders`]):
//!
//! | line | what |
//! | --- | --- |
//! | `cut NODE`, `mend NODE` | its link to all others is down, and no program is told |
//! | `blind ADDRESS`, `unblind ADDRESS` | the pod with this address no longer reaches the API server; no program tells it |
//! | `routes ADDRESS` | answers `{"leads": true}` while kube-proxy leads any client to the pod with this address |
//! | `freeze NAMESPACE/POD`, `thaw …`, `murder …` | SIGSTOP, SIGCONT, SIGKILL for the pod's program |
//! | `install injector`, `install plain` | a stand-in for Linkerd's injector, a fail-closed webhook to compare with |
//! | `fill NODE`, `empty NODE` | the disk of its logs, of `node3` only |

use std::fs;
use std::io::Write as _;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::install::install;
use super::{SMALL_DISK, output, run};
use crate::control_plane::ControlPlane;

/// What is said, if it is an order of these.
pub(crate) fn answer(plane: &ControlPlane, verb: &str, what: &str) -> Option<Result<Value>> {
    if verb == "routes" {
        return Some(routes(plane, what));
    }
    let done = match verb {
        "cut" => link(what, "down"),
        "mend" => link(what, "up"),
        "blind" => blind(plane, what),
        "unblind" => unblind(plane, what),
        "freeze" => signal(plane, what, Signal::STOP),
        "thaw" => signal(plane, what, Signal::CONT),
        "murder" => signal(plane, what, Signal::KILL),
        "install" => install(plane, what),
        "fill" => fill(plane, what),
        "empty" => empty(plane, what),
        _ => return None,
    };
    Some(done.map(|()| json!({})))
}

/// By the rules as they are, which come some time after the endpoints that they are made from.
fn routes(plane: &ControlPlane, address: &str) -> Result<Value> {
    let mut nft = Command::new(plane.lab.join("bin/nft"));
    let rules = output(nft.args(["list", "table", "ip", "kube-proxy"]))?;
    Ok(json!({"leads": rules.contains(&format!(" {address} . "))}))
}

fn link(node: &str, state: &str) -> Result<()> {
    run(Command::new("ip").args(["link", "set", node, state]))
}

/// In the node's forwarding, by the addresses as they are there: those of Services are made real on
/// the control plane's machine.
fn blind(plane: &ControlPlane, address: &str) -> Result<()> {
    let table = table(address);
    let rules = format!(
        "add table ip {table}
add chain ip {table} forward {{ type filter hook forward priority 0; }}
add rule ip {table} forward ip saddr {address} ip daddr 10.96.0.1 drop
add rule ip {table} forward ip daddr {address} ip saddr 10.96.0.1 drop
"
    );
    nft(plane, address, &rules)
}

fn unblind(plane: &ControlPlane, address: &str) -> Result<()> {
    nft(
        plane,
        address,
        &format!("delete table ip {}", table(address)),
    )
}

fn table(address: &str) -> String {
    format!("blind-{}", address.replace('.', "-"))
}

fn nft(plane: &ControlPlane, address: &str, rules: &str) -> Result<()> {
    let number = address
        .strip_prefix("10.244.")
        .and_then(|rest| rest.split('.').next());
    let number = number.with_context(|| format!("{address} is no pod's: expected 10.244.N.X"))?;
    let mut nft = Command::new("nsenter");
    nft.arg(format!("--net=/run/netns/node{number}"));
    run(nft.arg(plane.lab.join("bin/nft")).arg(rules))
}

fn signal(plane: &ControlPlane, pod: &str, signal: Signal) -> Result<()> {
    let folder = plane.folder().join("pods").join(pod.replace('/', "_"));
    let mut count = 0;
    let entries = fs::read_dir(&folder).with_context(|| format!("{pod} runs nowhere here"))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pid") {
            let id = fs::read_to_string(&path)?.trim().parse()?;
            let id = Pid::from_raw(id).context("process id 0")?;
            kill_process(id, signal).with_context(|| format!("cannot signal {pod}"))?;
            count += 1;
        }
    }
    if count == 0 {
        bail!("no program of {pod} runs");
    }
    Ok(())
}

fn fill(plane: &ControlPlane, node: &str) -> Result<()> {
    let mut file = fs::File::create(ballast(plane, node)?)?;
    let block = [b'x'; 4096];
    // Until there is no room: that is what is wanted.
    while file.write_all(&block).is_ok() {}
    Ok(())
}

fn empty(plane: &ControlPlane, node: &str) -> Result<()> {
    Ok(fs::remove_file(ballast(plane, node)?)?)
}

fn ballast(plane: &ControlPlane, node: &str) -> Result<std::path::PathBuf> {
    if node != SMALL_DISK {
        bail!("only the logs of {SMALL_DISK} are on a disk of their own");
    }
    Ok(plane.folder().join("logs").join(node).join("ballast"))
}
