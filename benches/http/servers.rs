//! The servers under load: started on a free port, pinned to core 0, killed when dropped.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Result;

const REVIEW: &str = include_str!("../../tests/samples/26-real-review-1.37.json");

const STATE: &str = include_str!("../linkerd-up.yaml");

const CONFIGURATION: &str = "
apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
";

/// What is started.
pub(super) enum Kind {
    /// Reads the body and gives a fixed answer.
    Noop,
    /// The real binary.
    Meshgate,
    /// Another program: `PROGRAM ADDRESS CERTS_DIR`.
    Peer(String),
}

impl Kind {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Noop => "no-op",
            Self::Meshgate => "meshgate",
            Self::Peer(program) => Path::new(program)
                .file_name()
                .and_then(|n| n.to_str())
                .unwrap_or("peer"),
        }
    }
}

/// A folder with all that the servers need: state, certificates, body, the real answer.
pub(super) struct TestBed {
    folder: tempfile::TempDir,
    programs: PathBuf,
}

impl TestBed {
    pub(super) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("state"))?;
        fs::write(folder.path().join("state/cluster.yaml"), STATE)?;
        fs::write(folder.path().join("state/meshgate.yaml"), CONFIGURATION)?;
        fs::write(folder.path().join("review.json"), REVIEW)?;
        // target/PROFILE/examples/bench-http
        let own = std::env::current_exe()?;
        let programs = own
            .parent()
            .and_then(Path::parent)
            .ok_or("no folder of programs")?;
        let bed = Self {
            programs: programs.to_owned(),
            folder,
        };
        // The first start makes the certificates and gives the answer to imitate.
        let server = Server::start(&bed, &Kind::Meshgate)?;
        let url = format!("https://{}/mutate/pods", server.address);
        let answer = Command::new("curl")
            .args(["-sS", "--fail", "--cacert"])
            .arg(bed.path("certs/ca.crt"))
            .args(["-H", "content-type: application/json", "--data-binary"])
            .arg(format!("@{}", bed.path("review.json").display()))
            .arg(url)
            .output()?;
        if !answer.status.success() {
            return Err(String::from_utf8_lossy(&answer.stderr).into());
        }
        fs::write(bed.path("answer.json"), answer.stdout)?;
        Ok(bed)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, kind: &Kind, address: &str) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]);
        match kind {
            Kind::Noop => {
                command
                    .arg(self.programs.join("examples/noop"))
                    .arg(address);
                command
                    .arg(self.path("certs"))
                    .arg(self.path("answer.json"));
            }
            Kind::Meshgate => {
                command.arg(self.programs.join("meshgate"));
                command.args([
                    "serve",
                    "--admin-listen",
                    "127.0.0.1:0",
                    "--listen",
                    address,
                ]);
                command.arg("--standalone").arg(self.path("state"));
                command.arg("--certs-dir").arg(self.path("certs"));
            }
            Kind::Peer(program) => {
                command.arg(program).arg(address).arg(self.path("certs"));
                command.env("GOMAXPROCS", "1");
            }
        }
        command
    }
}

/// A server that runs until it is dropped.
pub(super) struct Server {
    child: Child,
    pub(super) address: String,
    /// From the start of the process to the first TLS handshake that it answered.
    pub(super) ready_after: Duration,
}

impl Server {
    pub(super) fn start(bed: &TestBed, kind: &Kind) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let begin = Instant::now();
        let mut child = bed
            .command(kind, &address)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        // A full pipe would stop the server.
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || BufReader::new(out).lines().for_each(drop));
        }
        let mut server = Self {
            child,
            address,
            ready_after: Duration::ZERO,
        };
        while !answers_a_handshake(&server.address) {
            if begin.elapsed() > Duration::from_secs(10) {
                return Err(format!("{} does not listen", kind.name()).into());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        server.ready_after = begin.elapsed();
        Ok(server)
    }

    /// CPU time of all its threads so far.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let mut nanoseconds = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let schedstat = fs::read_to_string(task?.path().join("schedstat"))?;
            let time = schedstat
                .split_whitespace()
                .next()
                .ok_or("an empty schedstat")?;
            nanoseconds += time.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Resident memory in MiB.
    pub(super) fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .ok_or("no VmRSS")?;
        let kib: f64 = line
            .split_whitespace()
            .next()
            .ok_or("an empty VmRSS")?
            .parse()?;
        Ok(kib / 1024.0)
    }
}

/// Sends the beginning of a TLS 1.2 ClientHello with nothing in it: a server of TLS answers, if
/// only with an alert, and a socket that is only bound does not.
fn answers_a_handshake(address: &str) -> bool {
    const HELLO: [u8; 9] = [0x16, 3, 1, 0, 4, 1, 0, 0, 0];
    let answered = || -> std::io::Result<bool> {
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_millis(50)))?;
        stream.write_all(&HELLO)?;
        Ok(stream.read(&mut [0; 1])? == 1)
    };
    answered().unwrap_or(false)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
