//! What meshgate costs a cluster, and how soon after its injector a pod comes: the real binary,
//! registered with a real API server.
//!
//! `make bench-cluster`; `bench-cluster MESHGATE [cpu]` with the program that is measured, `cpu` for that of plain
//! pods alone. The lab's etcd and API server, the stand-in for Linkerd's injector, meshgate
//! and this program share the machine, so absolute times are those of a busy one; what is compared is
//! measured in interleaved rounds.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints, and says on the way what it does"
)]

mod apiserver;
mod cpu;
mod latency;
mod load;
mod meshgate;
mod plane;
mod pods;
mod ready;
mod table;

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use self::latency::Form;
use self::meshgate::Meshgate;
use self::plane::Plane;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// From the slice to the first pod, so often.
const READY: usize = 50;
/// Rounds of each form, and creates of each kind of pod in one.
const ROUNDS: usize = 6;
const CREATES: usize = 100;
/// Rounds, and creates of a plain pod in each, for the API server's CPU time.
const CPU_ROUNDS: usize = 7;
const CPU_CREATES: usize = 500;
/// The load.
const PER_SECOND: u32 = 200;
const LENGTH: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: bench-cluster MESHGATE [cpu]";
    let meshgate = arguments.next().ok_or(usage)?;
    let only_cpu = match (arguments.next().as_deref(), arguments.next()) {
        (None, None) => false,
        (Some("cpu"), None) => true,
        _ => return Err(usage.into()),
    };
    tokio::runtime::Runtime::new()?.block_on(run(Path::new(&meshgate), only_cpu))
}

async fn run(meshgate: &Path, only_cpu: bool) -> Result<()> {
    let load_average = || std::fs::read_to_string("/proc/loadavg");
    say("starting a control plane");
    let mut plane = Plane::start(meshgate).await?;
    pods::prepare(&plane)?;
    let before = load_average()?;
    let cpu = cpu::measure(&mut plane, CPU_ROUNDS, CPU_CREATES).await?;
    table::cpu(&cpu);
    if only_cpu {
        println!("load average: {}", before.trim());
        return Ok(());
    }
    let meshgate = Meshgate::start(&mut plane, "webhook")?;
    say(&format!("from the slice to the first pod, {READY} times"));
    let ready = ready::measure(&plane, READY).await?;
    meshgate.uninstall(&mut plane)?;
    let latency = latency::measure(&mut plane, ROUNDS, CREATES).await?;
    let mut load = Vec::new();
    for (form, enforcement) in [(Form::Webhook, "webhook"), (Form::Policy, "policy")] {
        let length = LENGTH.as_secs();
        say(&format!(
            "{PER_SECOND} creates a second for {length} s, {}",
            form.name()
        ));
        let meshgate = Meshgate::start(&mut plane, enforcement)?;
        load.push((
            form,
            load::measure(&plane, &meshgate, PER_SECOND, LENGTH).await?,
        ));
        meshgate.uninstall(&mut plane)?;
    }
    let after = load_average()?;
    println!(
        "load average: {} before, {} after\n",
        before.trim(),
        after.trim()
    );
    table::ready(&ready);
    table::latency(&latency);
    table::load(&load);
    Ok(())
}

/// What is done now, for a person who waits.
fn say(text: &str) {
    eprintln!("bench-cluster: {text}");
}
