//! One round of load, and the table.

use std::process::Command;
use std::time::Duration;

use super::Result;
use super::servers::{Kind, Server, TestBed};

/// How the load comes.
pub(super) struct Shape {
    pub(super) name: &'static str,
    /// For h2load.
    pub(super) arguments: &'static [&'static str],
    pub(super) requests: u32,
}

/// What one round showed.
pub(super) struct Round {
    cpu_per_request: f64,
    per_second: f64,
    resident: f64,
    ready_after: Duration,
}

pub(super) fn round(bed: &TestBed, kind: &Kind, shape: &Shape) -> Result<Round> {
    let server = Server::start(bed, kind)?;
    load(bed, &server, shape, shape.requests / 8)?;
    let before = server.cpu()?;
    let per_second = load(bed, &server, shape, shape.requests)?;
    let cpu = server.cpu()? - before;
    Ok(Round {
        cpu_per_request: cpu.as_secs_f64() * 1e6 / f64::from(shape.requests),
        per_second,
        resident: server.resident()?,
        ready_after: server.ready_after,
    })
}

/// Requests per second. Any answer but 2xx is an error.
fn load(bed: &TestBed, server: &Server, shape: &Shape, requests: u32) -> Result<f64> {
    let output = Command::new("taskset")
        .args([
            "-c",
            "1",
            "h2load",
            "--h1",
            "-n",
            &requests.to_string(),
            "-d",
        ])
        .arg(bed.path("review.json"))
        .args(["-H", "content-type: application/json"])
        .args(shape.arguments)
        .arg(format!("https://{}/mutate/pods?timeout=5s", server.address))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains(&format!("status codes: {requests} 2xx")) {
        return Err(format!("not every request was answered:\n{text}").into());
    }
    let line = text
        .lines()
        .find(|line| line.starts_with("finished in"))
        .ok_or("no rate")?;
    let rate = line
        .split(", ")
        .nth(1)
        .and_then(|part| part.split(' ').next())
        .ok_or("no rate")?;
    Ok(rate.parse()?)
}

/// A row of the table. The ratio is to the first server's rounds.
pub(super) fn row(shape: &Shape, kind: &Kind, own: &[Round], floor: &[Round]) -> String {
    let median =
        |rounds: &[Round], value: &dyn Fn(&Round) -> f64| spread(rounds.iter().map(value)).1;
    let cpu = |round: &Round| round.cpu_per_request;
    let base = median(floor, &cpu);
    let (low, middle, high) = spread(own.iter().map(cpu));
    let (low_ratio, ratio, high_ratio) = (low / base, middle / base, high / base);
    format!(
        "{:<26} {:<9} {:>22} {:>18} {:>8.0} {:>8.1} {:>10.1}",
        shape.name,
        kind.name(),
        format!("{middle:.1} ({low:.1}-{high:.1})"),
        format!("{ratio:.2} ({low_ratio:.2}-{high_ratio:.2})"),
        median(own, &|round| round.per_second),
        median(own, &|round| round.resident),
        median(own, &|round| round.ready_after.as_secs_f64() * 1e3),
    )
}

/// Least, median and most.
fn spread(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    (
        at(0),
        at(values.len() / 2),
        at(values.len().saturating_sub(1)),
    )
}
