//! The health endpoints, word for word as the API server's own speak.
//!
//! `ok`, or with `?verbose` a line per check; always verbose when one fails, with 500;
//! `?exclude=NAME` leaves a check out; `/readyz/NAME` asks for one.

use std::fmt::Write as _;

use axum::http::StatusCode;

use crate::lifecycle::{Condition, HealthChecks, Shutdown};

/// What the probes are answered from.
///
/// A process that can answer at all is live (`/livez`, `/healthz`). It is ready (`/readyz`) while
/// all conditions are met and it has not been asked to stop.
#[derive(Clone, Debug)]
pub struct Health {
    checks: HealthChecks,
    shutdown: Shutdown,
}

impl Health {
    /// Probes that tell of these checks and this shutdown.
    pub fn new(checks: HealthChecks, shutdown: Shutdown) -> Self {
        Self { checks, shutdown }
    }

    /// The answer to a path and a query; `None` for any other path.
    pub(super) fn answer(&self, path: &str, query: &str) -> Option<(StatusCode, String)> {
        let path = path.strip_prefix('/')?;
        let (endpoint, one) = match path.split_once('/') {
            Some((endpoint, one)) => (endpoint, Some(one)),
            None => (path, None),
        };
        let checks = match endpoint {
            "livez" | "healthz" => vec![ok("ping")],
            "readyz" => self.readiness(),
            _ => return None,
        };
        match one {
            None | Some("") => Some(all(endpoint, checks, query)),
            Some(name) => checks.iter().find(|check| check.name == name).map(single),
        }
    }

    fn readiness(&self) -> Vec<Condition> {
        let mut checks = vec![ok("ping")];
        checks.extend(self.checks.conditions());
        let shutdown = self.shutdown.cause().map(|cause| Condition {
            name: "shutdown",
            state: Err(format!("process is shutting down ({cause})")),
        });
        checks.push(shutdown.unwrap_or_else(|| ok("shutdown")));
        checks
    }
}

fn ok(name: &'static str) -> Condition {
    let state = Ok(String::new());
    Condition { name, state }
}

fn single(check: &Condition) -> (StatusCode, String) {
    match &check.state {
        Ok(_) => (StatusCode::OK, "ok".to_owned()),
        Err(why) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {why}\n"),
        ),
    }
}

fn all(endpoint: &str, checks: Vec<Condition>, query: &str) -> (StatusCode, String) {
    let mut excluded = excluded(query);
    let mut lines = String::new();
    let mut failed = false;
    for Condition { name, state } in checks {
        let written = if let Some(at) = excluded.iter().position(|one| one == name) {
            excluded.remove(at);
            writeln!(lines, "[+]{name} excluded: ok")
        } else {
            failed |= state.is_err();
            match state {
                Ok(remark) if remark.is_empty() => writeln!(lines, "[+]{name} ok"),
                Ok(remark) => writeln!(lines, "[+]{name} ok: {remark}"),
                Err(why) => writeln!(lines, "[-]{name} failed: {why}"),
            }
        };
        // Writing to a String cannot fail.
        written.unwrap_or_default();
    }
    if !excluded.is_empty() {
        let names: Vec<_> = excluded.iter().map(|name| format!("{name:?}")).collect();
        lines.push_str("warn: some health checks cannot be excluded: no matches for ");
        lines.push_str(&names.join(", "));
        lines.push('\n');
    }
    if failed {
        let text = format!("{lines}{endpoint} check failed\n");
        (StatusCode::INTERNAL_SERVER_ERROR, text)
    } else if parameters(query).any(|(key, _)| key == "verbose") {
        (StatusCode::OK, format!("{lines}{endpoint} check passed\n"))
    } else {
        (StatusCode::OK, "ok".to_owned())
    }
}

fn excluded(query: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (key, value) in parameters(query) {
        let new = !value.is_empty() && names.iter().all(|name| name != value);
        if key == "exclude" && new {
            names.push(value.to_owned());
        }
    }
    names
}

/// Names of checks are plain words, so nothing in a query that matters is ever escaped.
fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query
        .split('&')
        .map(|one| one.split_once('=').unwrap_or((one, "")))
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
