//! A lab with a service network and nodes of its own, all of it in namespaces that go with the last
//! of its processes: `unshare -Urnm`, no root needed.
//!
//! The lab becomes a process of the new namespaces by [`enter`], with the same process id, so that it
//! is stopped as any other. A client outside reaches the API server by the same address and port as
//! those inside ([`forward`]). In there: one machine for the control plane with kube-proxy, and nodes
//! that are network namespaces, each with a stand-in for the kubelet that starts real programs for
//! those images that it knows (`tests/lab/kubelet`).

pub(crate) mod forward;
pub(crate) mod install;
pub(crate) mod orders;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::control_plane::components::{Probe, Scheme};
use crate::control_plane::process::{Launch, Process};
use crate::control_plane::{ControlPlane, ports};
use crate::stop::Stop;
use crate::{Folder, Options};

/// The control plane's machine, as the nodes and their pods see it.
pub(crate) const MACHINE: &str = "10.0.0.1";

const LINKS: &str = include_str!("links.sh");

/// The node whose logs are on a disk of their own, so small that it can be filled.
const SMALL_DISK: &str = "node3";

/// What the lab is told by the process that it was before.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Inside {
    /// The folder that was made for it
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
    /// The port by which the API server is reached from outside
    #[arg(long, hide = true, requires = "inside")]
    forwarded_port: Option<u16>,
}

impl Inside {
    /// Whether this is the process inside.
    pub(crate) fn is_given(&self) -> bool {
        self.inside.is_some()
    }

    /// The folder, which is this lab's own from then on, and the API server's port, once inside.
    pub(crate) fn given(&self) -> Option<(Folder, u16)> {
        let folder = self.inside.clone()?;
        Some((Folder::given(folder), self.forwarded_port?))
    }
}

/// Becomes the same program with the same arguments inside of new namespaces.
///
/// # Errors
///
/// When there can be none; else it does not return.
pub(crate) fn enter() -> Result<()> {
    let namespaces = ["-Urnm", "--"];
    let can = Command::new("unshare")
        .args(namespaces)
        .args(["mount", "-t", "tmpfs", "none", "/run"])
        .stdin(Stdio::null())
        .output()
        .context("a lab with a network needs unshare (package util-linux)")?;
    if !can.status.success() {
        let said = String::from_utf8_lossy(&can.stderr);
        bail!(
            "a lab with a network needs namespaces of its own, which this machine does not allow ({}); as root, or with kernel.unprivileged_userns_clone=1, it may",
            said.trim()
        );
    }
    let [port] = ports::find(ports::COMPONENTS, 1, &[])?[..] else {
        bail!("there is no free port")
    };
    let folder = Folder::new()?;
    forward::start(port, folder.path())?;
    let path = folder.path().to_owned();
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    arguments.push("--inside".into());
    arguments.push(folder.keep().into());
    arguments.push(format!("--forwarded-port={port}").into());
    let error = Command::new("unshare")
        .args(namespaces)
        .arg(std::env::current_exe()?)
        .args(arguments)
        .exec();
    fs::remove_dir_all(path).ok();
    Err(error).context("unshare")
}

/// Lays the links; the first thing inside.
pub(crate) fn lay(folder: &Path, nodes: usize) -> Result<()> {
    let mut script = Command::new("sh");
    script.args(["-c", LINKS, "links.sh", &nodes.to_string()]);
    run(&mut script)?;
    for node in names(nodes) {
        let logs = folder.join("logs").join(&node);
        if node == SMALL_DISK {
            // By a link, as a folder on which there is a disk cannot be removed.
            let disk = Path::new("/run/small-disk");
            fs::create_dir(disk)?;
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", "size=8m", "none"]);
            run(mount.arg(disk))?;
            symlink(disk, logs)?;
        } else {
            fs::create_dir(logs)?;
        }
    }
    Ok(())
}

/// Starts the nodes and kube-proxy, and waits until the nodes are ready.
pub(crate) fn start(plane: &mut ControlPlane, options: &Options, stop: &Stop) -> Result<()> {
    let server = format!("https://{MACHINE}:{}", plane.ports.api_server);
    let interval = options.node_grace.map_or(10, |grace| (grace / 4).max(1));
    let all = names(options.real_nodes.into());
    for name in std::iter::once("cp").chain(all.iter().map(String::as_str)) {
        let process = node(plane, name, &server, interval)?;
        plane.processes.push((process, None));
    }
    let [healthz, metrics] = ports::find(ports::COMPONENTS, 2, &plane.ports.all())?[..] else {
        bail!("there are no free ports")
    };
    let config = plane.folder().join("kube-proxy.json");
    let said = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": plane.kubeconfig("kube-proxy")},
        "mode": "nftables",
        "hostnameOverride": "cp",
        "bindAddress": MACHINE,
        "healthzBindAddress": format!("127.0.0.1:{healthz}"),
        "metricsBindAddress": format!("127.0.0.1:{metrics}"),
        // The kernel's limits are not this namespace's.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    });
    fs::write(&config, said.to_string())?;
    let args = vec![format!("--config={}", config.display())];
    let program = plane.lab.join("bin/kube-proxy");
    let mut process = Process::new("kube-proxy", launch(plane, program, args)?);
    process.start()?;
    let probe = Probe {
        port: healthz,
        path: "/healthz",
        says: "lastUpdated",
        scheme: Scheme::Http,
    };
    plane.processes.push((process, Some(probe)));
    plane.wait_until_up(plane.processes.len() - 1, stop)?;
    plane.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "node",
        "--all",
        "--timeout=60s",
    ])
}

/// `node1`, `node2` and so on.
pub(crate) fn names(nodes: usize) -> Vec<String> {
    (1..=nodes).map(|number| format!("node{number}")).collect()
}

/// The stand-in for a kubelet: on a node in its namespace, where all of its pods are found by it.
fn node(plane: &ControlPlane, name: &str, server: &str, interval: u64) -> Result<Process> {
    let programs = std::env::current_exe()?;
    let programs = programs.parent().context("this program is nowhere")?;
    let kubelet = programs.join("kubelet");
    if !kubelet.exists() {
        bail!("{} is missing: run `make lab-shell`", kubelet.display());
    }
    let mut args = vec![
        format!("--node={name}"),
        format!("--folder={}", plane.folder().display()),
        format!("--kubeconfig={}", plane.kubeconfig("kubelet").display()),
        format!("--server={server}"),
        format!("--interval={interval}"),
    ];
    // `target/debug/examples/injector`, `target/debug/meshgate`.
    let meshgate = programs.with_file_name("meshgate");
    for (image, program) in [
        ("meshgate", meshgate),
        ("lab-injector", programs.join("injector")),
    ] {
        args.push(format!("--program={image}={}", program.display()));
    }
    let launch = match name {
        "cp" => launch(plane, kubelet, args)?,
        _ => {
            let mut all = vec![format!("--net=/run/netns/{name}")];
            all.push(kubelet.display().to_string());
            all.extend(args);
            launch(plane, "nsenter".into(), all)?
        }
    };
    let mut process = Process::new(name, launch);
    process.start()?;
    Ok(process)
}

fn launch(plane: &ControlPlane, program: PathBuf, args: Vec<String>) -> Result<Launch> {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let first = std::iter::once(plane.lab.join("bin"));
    let path = std::env::join_paths(first.chain(std::env::split_paths(&rest)))?;
    Ok(Launch {
        program,
        args,
        env: vec![("PATH".to_owned(), path.to_string_lossy().into_owned())],
        folder: plane.folder().to_owned(),
        works_in: plane.folder().to_owned(),
    })
}

/// Runs it to its end, which must be a good one.
fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// The same; returns what it printed.
fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
