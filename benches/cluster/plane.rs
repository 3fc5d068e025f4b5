//! The lab as a child process (see `tests/lab/supervisor`), with the stand-in for Linkerd's
//! injector: etcd and the API server alone, as no other program may take part in what is measured.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use meshgate::kube_api::client;
use serde_json::{Value, json};

use super::Result;

const LINKERD: &str = include_str!("../../tests/lab/injector/linkerd.yaml");

/// Whatever takes longer will not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running control plane. Dropped, it ends with all that was added.
pub(super) struct Plane {
    child: Child,
    pipes: Option<(ChildStdin, BufReader<ChildStdout>)>,
    facts: Value,
    /// The folder of the example programs that cargo has built.
    examples: PathBuf,
    /// The program that is measured.
    pub(super) meshgate: PathBuf,
    /// The admin's.
    pub(super) client: Client,
}

impl Plane {
    /// Starts it, and installs the stand-in.
    pub(super) async fn start(meshgate: &Path) -> Result<Self> {
        // target/PROFILE/examples/bench-cluster
        let own = std::env::current_exe()?;
        let examples = own.parent().ok_or("no folder of programs")?;
        let mut child = Command::new(examples.join("lab"))
            .args(["run", "--only", "etcd,kube-apiserver"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no stdin")?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let facts: Value = serde_json::from_str(&line)?;
        let file = facts["kubeconfigs"]["admin"].as_str().unwrap_or_default();
        let file = Kubeconfig::read_from(file)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let mut plane = Self {
            child,
            pipes: Some((input, output)),
            facts,
            examples: examples.to_owned(),
            meshgate: meshgate.canonicalize()?,
            // Not kube's own: that tries again what was refused with 503.
            client: client::connect(&config)?,
        };
        plane.install_linkerd()?;
        Ok(plane)
    }

    fn install_linkerd(&mut self) -> Result<()> {
        let [port] = self.ports()?;
        let certs = self.folder().join("linkerd-certs");
        let args = [format!("127.0.0.1:{port}"), certs.display().to_string()];
        let program = self.examples.join("injector");
        self.add("linkerd", &program, &args)?;
        let ca = certs.join("ca.crt");
        until("the stand-in's certificates", || ca.exists())?;
        let bundle = BASE64_STANDARD.encode(std::fs::read(ca)?);
        let objects = LINKERD.replace("PORT", &port.to_string());
        self.apply(&objects.replace("BUNDLE", &bundle))
    }

    /// `kubectl apply`.
    pub(super) fn apply(&self, objects: &str) -> Result<()> {
        let mut kubectl = Command::new(self.kubectl())
            .args(["apply", "--server-side", "--filename=-", "--kubeconfig"])
            .arg(self.kubeconfig())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        if let Some(mut input) = kubectl.stdin.take() {
            input.write_all(objects.as_bytes())?;
        }
        match kubectl.wait()? {
            status if status.success() => Ok(()),
            status => Err(format!("kubectl apply ended with {status}").into()),
        }
    }

    /// Has a line obeyed, see `tests/lab/supervisor/orders.rs`.
    pub(super) fn order(&mut self, line: &str) -> Result<Value> {
        let (input, output) = self.pipes.as_mut().ok_or("the lab has ended")?;
        writeln!(input, "{line}")?;
        let mut answer = String::new();
        output.read_line(&mut answer)?;
        let answer: Value = serde_json::from_str(&answer)?;
        match answer.get("error") {
            Some(error) => Err(error.to_string().into()),
            None => Ok(answer),
        }
    }

    /// Free ports of this machine.
    pub(super) fn ports<const COUNT: usize>(&mut self) -> Result<[u16; COUNT]> {
        let answer = self.order(&format!("ports {COUNT}"))?;
        let ports: Vec<u16> = serde_json::from_value(answer["ports"].clone())?;
        ports.try_into().map_err(|_| "not as many ports".into())
    }

    /// Starts one more program; returns its process id.
    pub(super) fn add(&mut self, name: &str, program: &Path, args: &[String]) -> Result<u64> {
        let guest = json!({"program": program, "args": args});
        let answer = self.order(&format!("add {name} {guest}"))?;
        answer["id"].as_u64().ok_or_else(|| "no process id".into())
    }

    pub(super) fn kubectl(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/lab/bin/kubectl")
    }

    /// The process of the API server.
    pub(super) fn api_server(&self) -> u64 {
        let id = &self.facts["processes"]["kube-apiserver"];
        id.as_u64().unwrap_or_default()
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        Path::new(
            self.facts["kubeconfigs"]["admin"]
                .as_str()
                .unwrap_or_default(),
        )
    }

    pub(super) fn folder(&self) -> &Path {
        Path::new(self.facts["folder"].as_str().unwrap_or_default())
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        // The end of its input is its end.
        drop(self.pipes.take());
        self.child.wait().ok();
    }
}

/// Asks again and again until it is so.
pub(super) fn until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > PATIENCE {
            return Err(format!("not within {PATIENCE:?}: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
