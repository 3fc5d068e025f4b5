//! Who else stands in the lab when a person comes: a stand-in for Linkerd's injector, and a
//! meshgate that is registered and armed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::control_plane::ControlPlane;
use crate::control_plane::http::{self, Request};
use crate::control_plane::process::{Launch, Process};
use crate::network::install;
use crate::stop::Stop;

/// A guest that is not ready after this time will not be.
const PATIENCE: Duration = Duration::from_secs(30);

const CONFIGURATION: &str = "\
apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
";

/// Where the guests were put.
#[derive(Debug)]
pub(crate) struct Guests {
    /// Probes and metrics of meshgate, where it is one process of this machine.
    pub(crate) probes: Option<u16>,
    /// The folder of the programs `meshgate` and `lab`.
    pub(crate) programs: PathBuf,
}

/// Starts them and waits until meshgate is armed.
///
/// # Errors
///
/// Which of them is missing, failed or was not ready in time, with the end of its log.
pub(crate) fn start(plane: &mut ControlPlane, stop: &Stop) -> Result<Guests> {
    let programs = programs()?;
    let ports = plane.give_ports(3)?;
    let [injector, https, probes] = ports[..] else {
        bail!("there are no three ports")
    };
    start_injector(plane, &programs, injector, stop)?;
    start_meshgate(plane, &programs, https, probes)?;
    let index = plane.processes.len() - 1;
    wait(plane, index, stop, || {
        let request = Request::Get {
            path: "/readyz?verbose",
        };
        let text = http::ask(probes, None, &request).unwrap_or_default();
        text.contains("readyz check passed") && all_are_armed(&text)
    })?;
    Ok(Guests {
        probes: Some(probes),
        programs,
    })
}

/// In a lab with a network: meshgate by its chart, and an injector whose pods are real.
///
/// # Errors
///
/// Which of them could not be installed, and why.
pub(crate) fn start_in_pods(plane: &mut ControlPlane, stop: &Stop) -> Result<Guests> {
    let programs = programs()?;
    install::install_for_people(plane)?;
    install::install_meshgate(plane, stop)?;
    Ok(Guests {
        probes: None,
        programs,
    })
}

/// This program is among `examples` of what cargo has built.
fn programs() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let programs = own.parent().and_then(Path::parent);
    let programs = programs.context("this program is nowhere")?;
    for program in ["meshgate", "examples/injector", "examples/load"] {
        if !programs.join(program).exists() {
            bail!(
                "{} is missing: run `make lab-shell`",
                programs.join(program).display()
            );
        }
    }
    Ok(programs.to_owned())
}

fn start_injector(plane: &mut ControlPlane, programs: &Path, port: u16, stop: &Stop) -> Result<()> {
    let certs = plane.folder().join("injector-certs");
    let args = vec![format!("127.0.0.1:{port}"), certs.display().to_string()];
    let index = launch(plane, "injector", programs.join("examples/injector"), args)?;
    let ca = certs.join("ca.crt");
    wait(plane, index, stop, || ca.exists())?;
    let bundle = STANDARD.encode(std::fs::read(&ca)?);
    let objects = include_str!("../injector/linkerd.yaml")
        .replace("PORT", &port.to_string())
        .replace("BUNDLE", &bundle);
    plane.apply(&objects)
}

fn start_meshgate(
    plane: &mut ControlPlane,
    programs: &Path,
    https: u16,
    probes: u16,
) -> Result<()> {
    let config = plane.folder().join("meshgate.yaml");
    std::fs::write(&config, CONFIGURATION)?;
    let flags = [
        (
            "kubeconfig",
            plane.kubeconfig("meshgate").display().to_string(),
        ),
        ("config", config.display().to_string()),
        (
            "certs-dir",
            plane.folder().join("certs").display().to_string(),
        ),
        ("webhook-url", format!("https://127.0.0.1:{https}")),
        ("listen", format!("127.0.0.1:{https}")),
        ("admin-listen", format!("127.0.0.1:{probes}")),
    ];
    let flags = flags.map(|(flag, value)| format!("--{flag}={value}"));
    let args = std::iter::once("serve".to_owned()).chain(flags).collect();
    launch(plane, "meshgate", programs.join("meshgate"), args).map(drop)
}

fn launch(
    plane: &mut ControlPlane,
    name: &'static str,
    program: PathBuf,
    args: Vec<String>,
) -> Result<usize> {
    let launch = Launch {
        program,
        args,
        env: Vec::new(),
        folder: plane.folder().to_owned(),
        works_in: plane.folder().to_owned(),
    };
    let mut process = Process::new(name, launch);
    process.start()?;
    plane.processes.push((process, None));
    Ok(plane.processes.len() - 1)
}

fn wait(
    plane: &mut ControlPlane,
    index: usize,
    stop: &Stop,
    is_ready: impl Fn() -> bool,
) -> Result<()> {
    let begin = Instant::now();
    let process = &mut plane.processes[index].0;
    while !is_ready() {
        let log = process.log_tail();
        if let Some(status) = process.ended() {
            bail!(
                "{} ended ({status}) before it was ready. {log}",
                process.name
            );
        }
        if begin.elapsed() > PATIENCE {
            bail!("{} was not ready within {PATIENCE:?}. {log}", process.name);
        }
        stop.pause()?;
    }
    Ok(())
}

/// `… armed: 3 of 3 entries …`.
fn all_are_armed(readyz: &str) -> bool {
    let rest = readyz.split("armed: ").nth(1).unwrap_or_default();
    let mut words = rest.split_whitespace();
    let (armed, of, all) = (words.next(), words.next(), words.next());
    of == Some("of") && armed == all
}
