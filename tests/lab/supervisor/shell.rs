//! A shell around a running lab.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::Options;
use crate::control_plane::ControlPlane;
use crate::guests::{self, Guests};
use crate::network::install::helm_homes;
use crate::remains;
use crate::stop::Stop;

/// Starts the lab, runs a shell with `kubectl` in it, and ends the lab with the shell. The exit
/// code is the command's.
pub(crate) fn run(options: &Options, command: Option<&str>) -> Result<ExitCode> {
    let stop = Stop::on_termination()?;
    eprintln!("lab: starting a control plane");
    let begin = Instant::now();
    let mut plane = ControlPlane::start(options, &stop)?;
    let guests = match options.network {
        true => guests::start_in_pods(&mut plane, &stop)?,
        false => guests::start(&mut plane, &stop)?,
    };
    eprintln!("{}", greeting(options, begin.elapsed(), &guests));
    stop.leave_interrupts_to_others();
    let status = shell(&plane, &guests, command, &stop)?;
    plane.stop()?;
    eprintln!("lab: everything is gone again");
    // A shell that a person leaves ends with whatever they looked at last: that is no failure.
    let is_over = command.is_none() && status.is_some();
    let code = status.and_then(|status| status.code()).unwrap_or(1);
    let code = if is_over { 0 } else { code };
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn greeting(options: &Options, took: Duration, guests: &Guests) -> String {
    let nodes = match options.network {
        true => format!(
            "kube-proxy, {} Nodes that are network namespaces (meshgate's and the injector's pods on them are\nreal processes, all others are only said to run), and a meshgate of three replicas, installed by Helm,\nthat is registered and armed.",
            options.real_nodes
        ),
        false => format!(
            "{} Nodes that kwok plays (pods on them become Running; nothing really runs), and a meshgate that\nis registered and armed.",
            options.nodes()
        ),
    };
    let probes = match guests.probes {
        Some(port) => format!("curl 'http://127.0.0.1:{port}/readyz?verbose'   # and /metrics"),
        None => "load orders --seconds 20 & kubectl -n meshgate-system rollout restart deployment meshgate; wait\n  \
                 # what becomes of pods that are created meanwhile"
            .to_owned(),
    };
    format!(
        "
A Kubernetes control plane runs here, started in {:.1} s: etcd, API server, controller manager, scheduler,
{nodes} It looks after linkerd, whose injector is scaled to zero.
kubectl is set up. All of it is yours alone; when this shell ends, it is gone, and what you have
started from it as well.

  kubectl create namespace orders
  kubectl annotate namespace orders linkerd.io/inject=enabled
  kubectl -n orders create deployment checkout --image nginx --replicas 2
  kubectl -n orders describe replicaset           # why there are no pods
  kubectl -n linkerd scale deployment linkerd-proxy-injector --replicas 1
  kubectl -n orders get pods --watch              # there they are

  meshgate --help                                 # the same meshgate, with its tools
  {probes}
  ls $MESHGATE_LAB_FOLDER/logs                    # a log per component
",
        took.as_secs_f32(),
    )
}

fn shell(
    plane: &ControlPlane,
    guests: &Guests,
    command: Option<&str>,
    stop: &Stop,
) -> Result<Option<ExitStatus>> {
    let program = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let mut shell = Command::new(&program);
    if let Some(command) = command {
        shell.arg("-c").arg(command);
    }
    let mut child = shell
        .env("KUBECONFIG", plane.kubeconfig("admin"))
        // What kubectl and Helm keep goes with the lab, too.
        .envs(helm_homes(plane))
        .env("KUBECACHEDIR", plane.folder().join("kubectl"))
        .env("PATH", path(plane, guests)?)
        // Marked, so that what is started here goes with the lab.
        .env(remains::MARK, plane.folder())
        .spawn()
        .with_context(|| format!("cannot start the shell {}", Path::new(&program).display()))?;
    // Below `make` no signal tells us that a terminal was closed, and the shell may wait for something.
    let had_terminal = io::stdin().is_terminal();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let is_hung_up = had_terminal && !io::stdin().is_terminal();
        if is_hung_up || stop.pause().is_err() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
    }
}

fn path(plane: &ControlPlane, guests: &Guests) -> Result<std::ffi::OsString> {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    // `load` is among the examples.
    let examples = guests.programs.join("examples");
    let first = [plane.lab.join("bin"), guests.programs.clone(), examples];
    let all = first.into_iter().chain(std::env::split_paths(&rest));
    Ok(std::env::join_paths(all)?)
}
