//! The lines that a running lab obeys, one JSON answer each: `{"done": LINE, …}` or `{"error": …}`.
//!
//! | line | what |
//! | --- | --- |
//! | `stop NAME`, `kill NAME` | SIGTERM or SIGKILL, and its end |
//! | `start NAME`, `restart NAME` | with the same ports and data, until it is up |
//! | `pause NAME`, `resume NAME` | SIGSTOP, SIGCONT |
//! | `status` | each process: running or not, its id |
//! | `compact` | etcd forgets all revisions but the last |
//! | `ports COUNT` | free ports for a guest, that stay its own while it is restarted |
//! | `add NAME JSON` | one more process: `{"program", "args", "env", "folder"}`; obeys the same lines, goes with the lab |
//!
//! A lab with a network obeys more, see [`network::orders`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::control_plane::http::{self, Request};
use crate::control_plane::process::{Launch, Process};
use crate::network;
use crate::stop::Stop;

/// One more process.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Guest {
    program: PathBuf,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Where it works, instead of in the lab's folder.
    folder: Option<PathBuf>,
}

/// Does what the line says; a failure is an answer too.
pub(crate) fn obey(plane: &mut ControlPlane, line: &str, stop: &Stop) -> Value {
    match answer(plane, line.trim(), stop) {
        Ok(mut answer) => {
            answer["done"] = json!(line.trim());
            answer
        }
        Err(error) => json!({"error": format!("{line}: {error:#}")}),
    }
}

fn answer(plane: &mut ControlPlane, line: &str, stop: &Stop) -> Result<Value> {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    if let Some(answer) = network::orders::answer(plane, verb, rest) {
        return answer;
    }
    match verb {
        "status" => Ok(status(plane)),
        "compact" => compact(plane),
        "ports" => Ok(json!({"ports": plane.give_ports(rest.parse()?)?})),
        "add" => add(plane, rest),
        _ => signal_or_start(plane, verb, rest, stop),
    }
}

fn signal_or_start(plane: &mut ControlPlane, verb: &str, name: &str, stop: &Stop) -> Result<Value> {
    let names = plane.processes.iter().map(|(process, _)| &process.name);
    let index = names.clone().position(|known| known == name);
    let index = index.with_context(|| {
        let known: Vec<_> = names.map(String::as_str).collect();
        format!(
            "there is no process {name:?}; there are: {}",
            known.join(", ")
        )
    })?;
    let process = &mut plane.processes[index].0;
    match verb {
        "stop" => process.stop()?,
        "kill" => {
            process.signal(Signal::KILL)?;
            process.wait(Duration::from_secs(10))?;
        }
        "pause" => process.signal(Signal::STOP)?,
        "resume" => process.signal(Signal::CONT)?,
        "start" | "restart" => {
            if verb == "restart" && process.is_running() {
                process.stop()?;
            }
            process.start()?;
            plane.wait_until_up(index, stop)?;
        }
        _ => bail!("there is no order {verb:?}"),
    }
    Ok(json!({"id": plane.processes[index].0.id()}))
}

fn status(plane: &mut ControlPlane) -> Value {
    let states = plane.processes.iter_mut().map(|(process, _)| {
        let id = process.id().filter(|_| process.is_running());
        (process.name.clone(), json!(id))
    });
    json!({"processes": states.collect::<serde_json::Map<_, _>>()})
}

fn add(plane: &mut ControlPlane, rest: &str) -> Result<Value> {
    let (name, guest) = rest.split_once(' ').context("expected: add NAME JSON")?;
    if plane
        .processes
        .iter()
        .any(|(process, _)| process.name == name)
    {
        bail!("there is a process {name} already");
    }
    let guest: Guest = serde_json::from_str(guest)?;
    let launch = Launch {
        program: guest.program,
        args: guest.args,
        env: guest.env.into_iter().collect(),
        folder: plane.folder().to_owned(),
        works_in: guest.folder.unwrap_or_else(|| plane.folder().to_owned()),
    };
    let mut process = Process::new(name, launch);
    process.start()?;
    let id = process.id();
    plane.processes.push((process, None));
    Ok(json!({"id": id}))
}

/// A watch that resumes from an older revision then gets 410, once the API server has lost its own
/// memory of it: restart that as well.
fn compact(plane: &ControlPlane) -> Result<Value> {
    let post = |path, body: &str| -> Result<Value> {
        let answer = http::ask(plane.ports.etcd, None, &Request::PostJson { path, body });
        Ok(serde_json::from_str(&answer.context("etcd")?)?)
    };
    let last = post("/v3/kv/range", r#"{"key":"AA=="}"#)?;
    let revision = &last["header"]["revision"];
    let body = json!({"revision": revision, "physical": true});
    post("/v3/kv/compaction", &body.to_string())?;
    Ok(json!({"revision": revision}))
}
