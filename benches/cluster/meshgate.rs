//! The real meshgate, registered with the plane: started, armed, looked at from outside, uninstalled.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::Result;
use super::plane::{Plane, until};

const CONFIGURATION: &str = "
apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
";

/// How many ticks of `/proc/PID/stat` a second has on Linux, whatever the kernel's own are.
const TICKS: f64 = 100.0;

/// One that is armed.
pub(super) struct Meshgate {
    name: String,
    id: u64,
}

/// What its process has used so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    /// MiB now.
    pub(super) resident: f64,
    /// MiB at most.
    pub(super) peak: f64,
}

impl Meshgate {
    /// Starts it with `--enforcement`, and waits until all is armed.
    pub(super) fn start(plane: &mut Plane, enforcement: &str) -> Result<Self> {
        let [https, probes] = plane.ports()?;
        let name = format!("meshgate-{https}");
        let config = plane.folder().join("meshgate.yaml");
        fs::write(&config, CONFIGURATION)?;
        let certs = plane.folder().join(format!("{name}-certs"));
        let flags = [
            ("kubeconfig", plane.kubeconfig().display().to_string()),
            ("config", config.display().to_string()),
            ("certs-dir", certs.display().to_string()),
            ("webhook-url", format!("https://127.0.0.1:{https}")),
            ("listen", format!("127.0.0.1:{https}")),
            ("admin-listen", format!("127.0.0.1:{probes}")),
            ("enforcement", enforcement.to_owned()),
        ];
        let flags = flags.map(|(flag, value)| format!("--{flag}={value}"));
        let args: Vec<String> = std::iter::once("serve".to_owned()).chain(flags).collect();
        let program = plane.meshgate.clone();
        let id = plane.add(&name, &program, &args)?;
        until("meshgate is armed", || {
            let text = get(probes, "/readyz?verbose").unwrap_or_default();
            text.contains("readyz check passed") && all_are_armed(&text)
        })?;
        Ok(Self { name, id })
    }

    /// Ends it and takes away what it has registered.
    pub(super) fn uninstall(self, plane: &mut Plane) -> Result<()> {
        plane.order(&format!("stop {}", self.name))?;
        let output = Command::new(&plane.meshgate)
            .args(["uninstall", "--yes", "--kubeconfig"])
            .arg(plane.kubeconfig())
            .stdin(Stdio::null())
            .output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into()),
        }
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id))?;
        // The name of the program may hold anything, but ends with the last parenthesis.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().collect())
            .unwrap_or_default();
        let [user, system] = [11, 12].map(|at| fields.get(at).and_then(|word| word.parse().ok()));
        let ticks: f64 = user
            .zip(system)
            .map(|(a, b): (f64, f64)| a + b)
            .ok_or("no times")?;
        let status = fs::read_to_string(format!("/proc/{}/status", self.id))?;
        let mebibytes = |name: &str| -> Result<f64> {
            let line = status.lines().find(|line| line.starts_with(name));
            let word = line.and_then(|line| line.split_whitespace().nth(1));
            Ok(word.ok_or("no memory")?.parse::<f64>()? / 1024.0)
        };
        Ok(Usage {
            cpu: Duration::from_secs_f64(ticks / TICKS),
            resident: mebibytes("VmRSS:")?,
            peak: mebibytes("VmHWM:")?,
        })
    }
}

fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// `… armed: 3 of 3 entries …`; with a policy that enforces there is nothing to arm.
fn all_are_armed(readyz: &str) -> bool {
    let rest = readyz.split("armed: ").nth(1).unwrap_or_default();
    let mut words = rest.split_whitespace();
    let (armed, of, all) = (words.next(), words.next(), words.next());
    of == Some("of") && armed == all
}
