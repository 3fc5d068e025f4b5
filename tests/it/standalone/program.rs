//! The built binary on a folder of its own. Killed when dropped, so that nothing is left behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use meshgate::metrics::Hook;
use serde_json::Value;
use tempfile::TempDir;

use crate::hooks::answer::Verdict;
use crate::hooks::{self, path};
use crate::support::client::Client;
use crate::support::{PATIENCE, eventually};

/// A folder with a copy of the example cluster, and the reviews beside it.
pub(super) struct ExampleDir {
    folder: TempDir,
}

impl ExampleDir {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for part in ["cluster", "reviews"] {
            let from = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("examples")
                .join(part);
            let to = folder.path().join(part);
            std::fs::create_dir(&to).unwrap();
            for entry in std::fs::read_dir(from).unwrap() {
                let entry = entry.unwrap();
                std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
        Self { folder }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap()
    }

    pub(super) fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path(file), text).unwrap();
    }

    /// Replaces a text that must be in the file.
    pub(super) fn edit(&self, file: &str, from: &str, to: &str) {
        let text = self.read(file);
        assert!(text.contains(from), "{file} has no {from:?}");
        self.write(file, &text.replacen(from, to, 1));
    }

    pub(super) fn delete(&self, file: &str) {
        std::fs::remove_file(self.path(file)).unwrap();
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_meshgate"));
        command
            .env_clear()
            .arg("serve")
            .arg("--standalone")
            .arg(self.path("cluster"))
            .arg("--certs-dir")
            .arg(self.path("certs"))
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .args(["--log-format", "json"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the program and waits until it has said where it is.
    pub(super) async fn start(&self, more: &[&str]) -> Program {
        self.started(Program::of(self.command(more))).await
    }

    /// The same with a log that goes elsewhere.
    pub(super) async fn start_with_log(&self, log: Stdio) -> Program {
        let mut command = self.command(&[]);
        command.stderr(log);
        self.started(Program::of(command)).await
    }

    async fn started(&self, mut program: Program) -> Program {
        eventually("start-up lines", async || {
            assert_eq!(program.exit_code(), None, "{}", program.stderr.text());
            program.stdout.text().contains("/mutate/pods\n\n")
        })
        .await;
        let banner = program.stdout.text();
        program.gate = address(&banner, "  gate      https://");
        program.probes = address(&banner, "  probes    http://");
        program.ca = self.read("certs/ca.crt");
        program
    }

    /// Starts the program, which must refuse: its exit code and what it writes to both.
    pub(super) async fn refused(&self, more: &[&str]) -> (Option<i32>, String, String) {
        let mut program = Program::of(self.command(more));
        let code = program.ended().await;
        (code, program.stdout.whole(), program.stderr.whole())
    }
}

/// The address that follows a text.
fn address(banner: &str, before: &str) -> SocketAddr {
    let (_, rest) = banner
        .split_once(before)
        .unwrap_or_else(|| panic!("{before} in {banner}"));
    rest.split('/').next().unwrap().parse().unwrap()
}

/// What a process writes, as far as it was read.
struct Output {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Output {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut lines = BufReader::new(stream);
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
                written.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Self {
            text,
            reader: Some(reader),
        }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// All of it, once the process has ended.
    fn whole(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.text()
    }
}

/// A running program.
pub(super) struct Program {
    child: Child,
    stdout: Output,
    stderr: Output,
    gate: SocketAddr,
    probes: SocketAddr,
    ca: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already; both calls may fail.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Program {
    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = Output::of(child.stdout.take().unwrap());
        let stderr = child.stderr.take();
        Self {
            child,
            stdout,
            stderr: stderr.map_or_else(|| Output::of(std::io::empty()), Output::of),
            gate: "127.0.0.1:0".parse().unwrap(),
            probes: "127.0.0.1:0".parse().unwrap(),
            ca: String::new(),
        }
    }
}

impl Program {
    pub(super) fn banner(&self) -> String {
        self.stdout.text()
    }

    pub(super) fn log(&self) -> String {
        self.stderr.text()
    }

    /// Waits for a line of the log with all these texts, and returns it.
    pub(super) async fn logged(&self, texts: &[&str]) -> String {
        let mut found = None;
        eventually(&format!("a log line with {texts:?}"), async || {
            let log = self.log();
            let line = log
                .lines()
                .find(|line| texts.iter().all(|text| line.contains(text)));
            found = line.map(str::to_owned);
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    pub(super) async fn client(&self) -> Client {
        Client::connect(self.gate, &self.ca).await
    }

    /// What a hook says to a review.
    pub(super) async fn ask(&self, hook: Hook, review: &Value) -> Verdict {
        let uid = review["request"]["uid"].as_str().unwrap();
        let mut client = self.client().await;
        let body = review.to_string();
        let answer = client.post(path(hook), "application/json", body).await;
        let mut wrong = Vec::new();
        let verdict = Verdict::of(hook, uid, &answer, &mut wrong);
        assert_eq!(wrong, [""; 0]);
        verdict.unwrap()
    }

    /// The gate's word on a plain pod in a namespace: decision and reason.
    pub(super) async fn gate(&self, namespace: &str) -> (String, String) {
        let review = hooks::review("u", namespace, hooks::plain_pod("shop-"));
        let verdict = self.ask(Hook::Gate, &review).await;
        (verdict.decision, verdict.reason)
    }

    /// Waits until the gate says this of a plain pod in a namespace, and returns how long it took.
    pub(super) async fn comes_to(&self, namespace: &str, decision: &str, reason: &str) -> Duration {
        let begin = Instant::now();
        loop {
            let found = self.gate(namespace).await;
            if found == (decision.to_owned(), reason.to_owned()) {
                return begin.elapsed();
            }
            let log = self.log();
            assert!(
                begin.elapsed() < PATIENCE,
                "{namespace} stays {found:?}\n{log}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Code and text of a probe; `None` without an answer.
    pub(super) fn probe(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.probes).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let code = answer.split(' ').nth(1)?.parse().ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        Some((code, body.to_owned()))
    }

    /// Sends a signal: `TERM`, `INT`.
    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    }

    fn exit_code(&mut self) -> Option<Option<i32>> {
        self.child.try_wait().unwrap().map(|status| status.code())
    }

    /// Waits for the end and returns the exit code.
    pub(super) async fn ended(&mut self) -> Option<i32> {
        let mut code = None;
        eventually("the end of the program", async || {
            code = self.exit_code();
            code.is_some()
        })
        .await;
        code.flatten()
    }
}
