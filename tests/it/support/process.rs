//! The built program as a process of its own, with certificates made for it. Killed when dropped.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use meshgate::certs::issue::{Authority, Issued};
use parking_lot::Mutex;
use tempfile::TempDir;

use super::server::now;
use super::{PATIENCE, eventually};

/// `meshgate serve`, with the examples' cluster if it is not told another.
pub(crate) struct Process {
    child: Child,
    folder: TempDir,
    pub(crate) gate: SocketAddr,
    pub(crate) probes: SocketAddr,
    pub(crate) ca_pem: String,
    log: Arc<Mutex<String>>,
}

/// How a process is started.
pub(crate) struct Start<'a> {
    /// What stands in for the program, see [`program`].
    pub(crate) program: Option<&'a Path>,
    pub(crate) flags: &'a [&'a str],
    pub(crate) env: &'a [(&'a str, &'a str)],
    /// The kubeconfig of the cluster to serve; the examples' folder if there is none.
    pub(crate) kubeconfig: Option<&'a Path>,
    /// Makes the certificate folder as the test wants it.
    pub(crate) certificates: &'a dyn Fn(&Path, &Authority),
}

impl Default for Start<'_> {
    fn default() -> Self {
        Self {
            program: None,
            flags: &[],
            env: &[],
            kubeconfig: None,
            certificates: &|folder, authority| write_pair(folder, &issue(authority)),
        }
    }
}

/// What the tests were built with, or the program that a benchmark names.
pub(crate) fn program() -> OsString {
    let named = std::env::var_os("MESHGATE_PROGRAM");
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_meshgate").into())
}

impl Process {
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let start = Start {
            flags,
            ..Start::default()
        };
        start.run(&authority()).await
    }

    /// The folder of `--certs-dir`.
    pub(crate) fn certs(&self) -> PathBuf {
        self.folder.path().join("certs")
    }

    /// What it has written to standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().clone()
    }

    /// The same without its first `bytes`.
    pub(crate) fn log_since(&self, bytes: usize) -> String {
        self.log().get(bytes..).unwrap_or_default().to_owned()
    }

    /// Resident memory now, in KiB.
    pub(crate) fn memory(&self) -> u64 {
        self.memory_as("VmRSS:")
    }

    /// The most resident memory so far, in KiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.memory_as("VmHWM:")
    }

    fn memory_as(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name));
        let word = line.and_then(|line| line.split_whitespace().nth(1));
        word.unwrap().parse().unwrap()
    }

    /// The sum of a metric over all its labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = get(self.probes, "/metrics");
        let own = text.lines().filter(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '{']))
        });
        own.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    pub(crate) fn is_ready(&self) -> bool {
        get(self.probes, "/readyz").ends_with("ok")
    }

    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Sends a signal, as `kill` names it.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let mut kill = Command::new("kill");
        assert!(kill.args([name, &id]).status().unwrap().success());
    }

    pub(crate) async fn exited(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the end of the process", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }
}

impl Start<'_> {
    pub(crate) async fn run(&self, authority: &Authority) -> Process {
        let process = self.launch(authority).await;
        eventually("ready", async || process.is_ready()).await;
        process
    }

    /// The process as soon as it listens.
    pub(crate) async fn launch(&self, authority: &Authority) -> Process {
        let folder = TempDir::new().unwrap();
        let certs = folder.path().join("certs");
        fs::create_dir(&certs).unwrap();
        (self.certificates)(&certs, authority);
        let cluster = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cluster");
        let configuration = cluster.join("meshgate.yaml");
        let source: Vec<&Path> = match self.kubeconfig {
            None => vec![Path::new("--standalone"), &cluster],
            Some(file) => vec![
                Path::new("--kubeconfig"),
                file,
                Path::new("--config"),
                &configuration,
            ],
        };
        let program = self.program.map_or_else(program, |path| path.into());
        let mut child = Command::new(program)
            .arg("serve")
            .args(source)
            .arg("--certs-dir")
            .arg(&certs)
            .args(["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"])
            .args(self.flags)
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .envs(self.env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let greeting = collect(child.stdout.take().unwrap());
        let log = collect(child.stderr.take().unwrap());
        let mut process = Process {
            child,
            folder,
            gate: "127.0.0.1:0".parse().unwrap(),
            probes: "127.0.0.1:0".parse().unwrap(),
            ca_pem: authority.cert_pem(),
            log,
        };
        let mut found = None;
        eventually("addresses", async || {
            let ended = process.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", process.log());
            let text = greeting.lock().clone();
            let gate = address(&text, "  gate      https://");
            found = gate.zip(address(&text, "  probes    http://"));
            found.is_some()
        })
        .await;
        (process.gate, process.probes) = found.unwrap();
        process
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if it has ended already, which is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The first address after `scheme` in a text that has been written to the end of its line.
fn address(text: &str, scheme: &str) -> Option<SocketAddr> {
    let (_, rest) = text.split_once(scheme)?;
    rest.split_once('/')?.0.parse().ok()
}

/// Reads on a thread of its own, so that the process never waits for its reader.
fn collect(from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let written = Arc::clone(&text);
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            writeln!(written.lock(), "{line}").unwrap();
        }
    });
    text
}

/// Plain HTTP, for probes and metrics; empty while there is no answer.
pub(crate) fn get(addr: SocketAddr, path: &str) -> String {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(addr) {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let sent = stream.write_all(request.as_bytes());
        drop(sent.and_then(|()| stream.read_to_string(&mut answer)));
    }
    answer
}

pub(crate) fn authority() -> Authority {
    Authority::new("test CA", Duration::from_secs(86_400), now()).unwrap()
}

/// A pair for `localhost`, valid for an hour.
pub(crate) fn issue(authority: &Authority) -> Issued {
    authority
        .issue(
            &["localhost", "127.0.0.1"].map(str::to_owned),
            Duration::from_secs(3600),
            now(),
        )
        .unwrap()
}

/// Puts a pair into a folder, each file in one step.
pub(crate) fn write_pair(folder: &Path, issued: &Issued) {
    for (name, content) in [("tls.crt", &issued.cert_pem), ("tls.key", &issued.key_pem)] {
        let new = folder.join("new");
        fs::write(&new, content).unwrap();
        fs::rename(&new, folder.join(name)).unwrap();
    }
}
