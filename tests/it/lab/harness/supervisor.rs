//! The supervisor of `tests/lab/supervisor` as a child process. It holds the control plane; this
//! holds its standard input, which closes however this process ends, and with it all is gone.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use anyhow::Context as _;
use parking_lot::Mutex;
use serde_json::Value;

/// How a control plane is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Only these components; all if there are none.
    pub(crate) only: Vec<&'static str>,
    /// More flags for the API server.
    pub(crate) api_server_flags: Vec<String>,
    /// With a service network, and with Nodes on which programs run: `node1` to `node3`.
    pub(crate) network: Option<Network>,
}

/// A service network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    /// After so many seconds of silence a Node is lost; as in production if nothing is said.
    pub(crate) node_grace: Option<u64>,
}

/// A running control plane. Dropped, it ends, and that is waited for.
pub(crate) struct Supervisor {
    child: Mutex<Child>,
    pipes: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
    description: Value,
}

impl Supervisor {
    /// Starts one and waits until it is up, or says in full why it is not.
    pub(crate) fn start(options: &Options) -> anyhow::Result<Self> {
        let mut child = command(options)
            // Ctrl-C in a terminal reaches this process; the supervisor then ends in order.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("stdin")?;
        let mut output = BufReader::new(child.stdout.take().context("stdout")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        if line.is_empty() {
            let mut error = String::new();
            let mut errors = child.stderr.take().context("stderr")?;
            errors.read_to_string(&mut error)?;
            child.wait()?;
            anyhow::bail!(error);
        }
        Ok(Self {
            child: Mutex::new(child),
            pipes: Mutex::new(Some((input, output))),
            description: serde_json::from_str(&line)?,
        })
    }

    /// Has a line obeyed, see `tests/lab/supervisor/orders.rs`; blocks until it is.
    pub(crate) fn order(&self, line: &str) -> Value {
        let mut pipes = self.pipes.lock();
        let (input, output) = pipes.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty(), "the lab ended while it was to: {line}");
        serde_json::from_str(&answer).unwrap()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.lock().try_wait().unwrap().is_none()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.lock().id()
    }

    /// What the supervisor said about itself, as `/kubeconfigs/admin`.
    pub(crate) fn fact(&self, pointer: &str) -> &str {
        let fact = self.description.pointer(pointer).and_then(Value::as_str);
        fact.unwrap_or_else(|| panic!("no {pointer} in {}", self.description))
    }

    pub(crate) fn folder(&self) -> &Path {
        Path::new(self.fact("/folder"))
    }

    /// Copies the components' logs to where they stay; returns where that is.
    pub(crate) fn keep_logs(&self) -> PathBuf {
        let name = self.folder().file_name().unwrap();
        let kept = built().join("logs").join(name);
        // As the lab sees it: some of its logs may be on disks of its own.
        let root = PathBuf::from(format!("/proc/{}/root", self.id()));
        let logs = self.folder().join("logs");
        let logs = root.join(logs.strip_prefix("/").unwrap());
        copy_all(&logs, &kept);
        copy_all(&root.join("run/small-disk"), &kept.join("node3"));
        kept
    }

    /// Closes its input, and waits for the end.
    pub(crate) fn stop(&self) {
        drop(self.pipes.lock().take());
        self.child.lock().wait().unwrap();
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop();
    }
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).into_iter().flatten() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy_all(&entry.path(), &target),
            kind if kind.is_file() => drop(fs::copy(entry.path(), target).unwrap()),
            _ => {}
        }
    }
}

/// What `make lab` builds.
pub(crate) fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/lab")
}

fn command(options: &Options) -> Command {
    let mut command = Command::new(example("lab"));
    command.arg("run").arg("--lab").arg(built());
    if !options.only.is_empty() {
        command.arg("--only").arg(options.only.join(","));
    }
    if let Some(network) = options.network {
        command.arg("--network");
        if let Some(seconds) = network.node_grace {
            command.arg(format!("--node-grace={seconds}"));
        }
    }
    for flag in &options.api_server_flags {
        command.arg(format!("--api-server-flag={flag}"));
    }
    command
}

/// An example program, as its sources are now: cargo builds examples for all tests, but not for
/// `--test it` alone.
pub(crate) fn example(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        // The test is in target/PROFILE/deps.
        let own = std::env::current_exe().unwrap();
        let profile = own.ancestors().nth(2).unwrap();
        let name = match profile.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            name => name,
        };
        let output = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--example=lab", "--example=injector"])
            .args(["--example=kubelet", "--example=load"])
            .args(["--profile", name])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo build: {errors}");
        profile.join("examples")
    });
    folder.join(name)
}
