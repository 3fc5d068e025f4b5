//! The control plane as a whole: a folder, credentials, the processes in their order.

pub(crate) mod components;
mod credentials;
pub(crate) mod http;
mod nodes;
pub(crate) mod ports;
pub(crate) mod process;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustls::ClientConfig;
use serde_json::{Value, json};

use self::components::{Component, NAMES, Place, Ports, Probe, Scheme};
use self::credentials::Credentials;
use self::http::Request;
use self::process::{Launch, Process};
use crate::remains::Watcher;
use crate::stop::Stop;
use crate::{Folder, Options, network};

/// A component that is not up after this time will not be.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long all together may take to end before they are killed: nothing of theirs is kept.
const GRACE: Duration = Duration::from_millis(500);

/// A running control plane. Dropped or stopped, nothing of it stays.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    pub(crate) processes: Vec<(Process, Option<Probe>)>,
    pub(crate) ports: Ports,
    pub(crate) lab: PathBuf,
    /// Ports that guests were given.
    given: Vec<u16>,
    credentials: Credentials,
    trusted: Arc<ClientConfig>,
    // Dropped in this order: the watcher looks after the folder until it is removed.
    folder: Folder,
    _watcher: Watcher,
}

impl ControlPlane {
    /// Starts everything and waits until it is up.
    ///
    /// # Errors
    ///
    /// Which program is missing, failed or was not up in time, with the end of its log.
    pub(crate) fn start(options: &Options, stop: &Stop) -> Result<Self> {
        let wanted = wanted(options)?;
        let (folder, forwarded) = match options.inside.given() {
            Some((folder, port)) => (folder, Some(port)),
            None => (Folder::new()?, None),
        };
        let watcher = Watcher::start(folder.path())?;
        fs::create_dir(folder.path().join("logs"))?;
        if let Some(port) = forwarded {
            network::lay(folder.path(), options.real_nodes.into())?;
            network::forward::inside(port, folder.path())?;
        }
        let ports = Ports::new(forwarded)?;
        let credentials = Credentials::create(folder.path(), ports.api_server)?;
        let place = Place {
            folder: folder.path(),
            lab: &options.lab,
            ports,
            credentials: &credentials,
            network: options.network,
            node_grace: options.node_grace,
        };
        let components = components::all(&place, &options.api_server_flag);
        let trusted = http::trusting(&credentials.ca_pem)?;
        let mut plane = Self {
            processes: Vec::new(),
            ports,
            lab: options.lab.clone(),
            given: Vec::new(),
            credentials,
            trusted,
            folder,
            _watcher: watcher,
        };
        for component in components {
            if wanted.contains(&component.name) {
                plane.launch(&component, options.program(component.name), stop)?;
            }
        }
        for index in 0..plane.processes.len() {
            plane.wait_until_up(index, stop)?;
        }
        if wanted.contains(&components::KWOK) && options.nodes() > 0 {
            nodes::create(&plane, options)?;
        }
        if options.network {
            network::start(&mut plane, options, stop)?;
        }
        Ok(plane)
    }

    /// etcd and the API server are waited for, because the others need them; those not, so that
    /// they start at the same time.
    fn launch(&mut self, component: &Component, program: PathBuf, stop: &Stop) -> Result<()> {
        let launch = Launch {
            program,
            args: component.args.clone(),
            env: Vec::new(),
            folder: self.folder().to_owned(),
            works_in: self.folder().to_owned(),
        };
        let mut process = Process::new(component.name, launch);
        process.start()?;
        self.processes.push((process, Some(component.probe)));
        if [components::ETCD, components::API_SERVER].contains(&component.name) {
            self.wait_until_up(self.processes.len() - 1, stop)?;
        }
        Ok(())
    }

    /// Waits until the process's probe answers; one without a probe is up at once.
    ///
    /// # Errors
    ///
    /// When it ends instead, or is not up in time, or the lab is to end.
    pub(crate) fn wait_until_up(&mut self, index: usize, stop: &Stop) -> Result<()> {
        let (process, probe) = &mut self.processes[index];
        let Some(probe) = probe else { return Ok(()) };
        let trusted = (probe.scheme == Scheme::Https).then_some(&self.trusted);
        let begin = Instant::now();
        loop {
            let answer = http::ask(probe.port, trusted, &Request::Get { path: probe.path });
            let seen = match answer {
                Ok(body) if body.contains(probe.says) => return Ok(()),
                Ok(body) => format!("{} says {:?}", probe.path, body.trim()),
                Err(error) => error.to_string(),
            };
            if let Some(status) = process.ended() {
                let log = process.log_tail();
                bail!("{} ended ({status}) before it was up. {log}", process.name);
            }
            if begin.elapsed() > PATIENCE {
                let log = process.log_tail();
                let name = &process.name;
                bail!("{name} was not up within {PATIENCE:?} ({seen}). {log}");
            }
            stop.pause()?;
        }
    }

    /// Free ports for a guest, which this lab gives to no other guest.
    ///
    /// # Errors
    ///
    /// When there are not as many.
    pub(crate) fn give_ports(&mut self, count: usize) -> Result<Vec<u16>> {
        let found = ports::find(ports::GUESTS, count, &self.given)?;
        self.given.extend(&found);
        Ok(found)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.credentials.kubeconfig(user)
    }

    /// `kubectl apply --server-side`, as the admin.
    pub(crate) fn apply(&self, objects: &str) -> Result<()> {
        self.kubectl_with(&["apply", "--server-side", "--filename=-"], objects)
    }

    /// Runs it as the admin, to its good end.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        self.kubectl_with(arguments, "")
    }

    fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<()> {
        let mut child = Command::new(self.lab.join("bin/kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig("admin"))
            .args(arguments)
            .env("KUBECACHEDIR", self.folder().join("kubectl"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("kubectl")?;
        if let Some(mut pipe) = child.stdin.take() {
            pipe.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {}: {}", arguments.join(" "), error.trim());
        }
        Ok(())
    }

    /// What its users need to know.
    pub(crate) fn description(&self) -> Value {
        json!({
            "folder": self.folder(),
            "logs": self.folder().join("logs"),
            "url": format!("https://127.0.0.1:{}", self.ports.api_server),
            "etcd": format!("http://127.0.0.1:{}", self.ports.etcd),
            "ca": self.credentials.ca_file(),
            "kubeconfigs": {"admin": self.kubeconfig("admin"), "alice": self.kubeconfig("alice")},
            "processes": self.processes.iter().map(|(process, _)| {
                (process.name.clone(), json!(process.id()))
            }).collect::<serde_json::Map<String, Value>>(),
        })
    }

    /// Ends everything, in reverse order, and removes the folder.
    pub(crate) fn stop(self) -> Result<()> {
        let folder = self.folder().to_owned();
        drop(self);
        if folder.exists() {
            bail!("{} could not be removed", folder.display());
        }
        Ok(())
    }

    fn end_processes(&mut self) {
        for (process, _) in self.processes.iter_mut().rev() {
            // Fails if it is not running.
            drop(process.ask_to_end());
        }
        let begin = Instant::now();
        for (process, _) in self.processes.iter_mut().rev() {
            drop(process.wait(GRACE.saturating_sub(begin.elapsed())));
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.end_processes();
    }
}

/// The components asked for, whose programs are there.
fn wanted(options: &Options) -> Result<Vec<&'static str>> {
    if let Some(unknown) = options
        .only
        .iter()
        .find(|name| !NAMES.contains(&name.as_str()))
    {
        bail!(
            "there is no component {unknown}; there are: {}",
            NAMES.join(", ")
        );
    }
    let is_wanted = |name: &str| match options.only.is_empty() {
        true => name != components::KWOK || options.nodes() > 0,
        false => options.only.iter().any(|n| n == name),
    };
    let wanted: Vec<_> = NAMES.into_iter().filter(|name| is_wanted(name)).collect();
    let mut programs = wanted.iter().map(|name| options.program(name));
    if let Some(missing) = programs.find(|program| !program.exists()) {
        let how = match options.kubernetes {
            Some(_) => "make lab PROGRAMS=compat",
            None => "make lab",
        };
        bail!("{} is not there: run `{how}`", missing.display());
    }
    Ok(wanted)
}
