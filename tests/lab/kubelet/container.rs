//! One container's program as a process.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Container;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::volumes;

const SCRIPT: &str = include_str!("container.sh");

/// The variable by which everything of a lab is found again.
const MARK: &str = "MESHGATE_LAB_FOLDER";

/// What is started, and where.
#[derive(Clone, Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) container: &'a Container,
    pub(crate) program: &'a Path,
    pub(crate) command: Vec<String>,
    pub(crate) variables: BTreeMap<String, String>,
    /// The file of its network namespace.
    pub(crate) network: String,
    /// The pod's folder, with its volumes.
    pub(crate) folder: &'a Path,
    pub(crate) lab: &'a Path,
    pub(crate) log: PathBuf,
}

/// A running one.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    pid_file: PathBuf,
}

/// Starts it. The process that is started becomes the program, so it has its id.
pub(crate) fn start(launch: &Launch<'_>) -> Result<Running> {
    let name = &launch.container.name;
    let root = launch.folder.join(format!("{name}.root"));
    fs::create_dir_all(&root)?;
    let security = launch.container.security_context.as_ref();
    let is_read_only =
        security.and_then(|security| security.read_only_root_filesystem) == Some(true);
    if let Some(parent) = launch.log.parent() {
        fs::create_dir_all(parent)?;
    }
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&launch.log)?;
    let mut command = Command::new("/usr/bin/nsenter");
    command
        .env_clear()
        .envs(&launch.variables)
        .env(MARK, launch.lab)
        .arg(format!("--net={}", launch.network))
        // The script needs the programs of this machine, the container has a path of its own.
        .args(["/usr/bin/unshare", "-mu", "/bin/sh", "-c"])
        .arg(format!("PATH=/usr/sbin:/usr/bin:/sbin:/bin\n{SCRIPT}"))
        .arg("container.sh")
        .arg(&root)
        .arg(if is_read_only { "ro" } else { "rw" })
        .arg(launch.program);
    for mount in launch.container.volume_mounts.iter().flatten() {
        command.arg(volumes::folder_of(launch.folder, &mount.name));
        command.arg(&mount.mount_path);
    }
    let child = command
        .arg("--")
        .args(&launch.command)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot start it")?;
    let pid_file = launch.folder.join(format!("{name}.pid"));
    let id = child.id().context("it has ended already")?;
    fs::write(&pid_file, id.to_string())?;
    Ok(Running { child, pid_file })
}

impl Running {
    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.wait().await.ok();
        fs::remove_file(&self.pid_file).ok();
        status
    }

    /// Asks it to end, and kills it when that takes longer than `grace`.
    pub(crate) async fn stop(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        match timeout(grace, self.ended()).await {
            Ok(status) => status,
            Err(_) => {
                self.signal(Signal::KILL);
                self.ended().await
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id.and_then(Pid::from_raw) {
            // Fails if it has just ended.
            kill_process(id, signal).ok();
        }
    }
}
