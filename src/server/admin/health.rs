//! The health endpoints, word for word as the API server's own speak.
//!
//! `ok`, or with `?verbose` a line per check; always verbose when one fails, with 500;
//! `?exclude=NAME` leaves a check out; `/readyz/NAME` asks for one.

use std::fmt::Write as _;

use axum::http::StatusCode;

use crate::lifecycle::{Latches, Shutdown};

/// What the probes are answered from.
///
/// Live (`/livez`, `/healthz`) is whoever can answer at all. Ready (`/readyz`) is whoever has all
/// latches open and has not been asked to stop.
#[derive(Clone, Debug)]
pub struct Health {
    latches: Latches,
    shutdown: Shutdown,
}

struct Check {
    name: &'static str,
    state: Result<String, String>,
}

impl Check {
    fn ok(name: &'static str) -> Self {
        Self {
            name,
            state: Ok(String::new()),
        }
    }
}

impl Health {
    /// Probes that tell of these latches and this shutdown.
    #[must_use]
    pub fn new(latches: Latches, shutdown: Shutdown) -> Self {
        Self { latches, shutdown }
    }

    /// The answer to a path and a query; `None` for a path that is none of ours.
    pub(super) fn answer(&self, path: &str, query: &str) -> Option<(StatusCode, String)> {
        let path = path.strip_prefix('/')?;
        let (endpoint, one) = match path.split_once('/') {
            Some((endpoint, one)) => (endpoint, Some(one)),
            None => (path, None),
        };
        let checks = match endpoint {
            "livez" | "healthz" => vec![Check::ok("ping")],
            "readyz" => self.readiness(),
            _ => return None,
        };
        match one {
            None | Some("") => Some(all(endpoint, checks, query)),
            Some(name) => checks.iter().find(|check| check.name == name).map(single),
        }
    }

    fn readiness(&self) -> Vec<Check> {
        let mut checks = vec![Check::ok("ping")];
        checks.extend(self.latches.conditions().into_iter().map(|one| Check {
            name: one.name,
            state: one.state,
        }));
        checks.push(Check {
            name: "shutdown",
            state: match self.shutdown.cause() {
                None => Ok(String::new()),
                Some(cause) => Err(format!("process is shutting down ({cause})")),
            },
        });
        checks
    }
}

fn single(check: &Check) -> (StatusCode, String) {
    match &check.state {
        Ok(_) => (StatusCode::OK, "ok".to_owned()),
        Err(why) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {why}\n"),
        ),
    }
}

fn all(endpoint: &str, checks: Vec<Check>, query: &str) -> (StatusCode, String) {
    let mut excluded = excluded(query);
    let mut lines = String::new();
    let mut failed = false;
    for Check { name, state } in checks {
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
mod tests {
    use super::*;

    fn health() -> (Latches, Shutdown, Health) {
        let latches = Latches::new();
        latches.add("view").open();
        latches.add("listener").open_with("2 ms");
        let shutdown = Shutdown::new();
        let health = Health::new(latches.clone(), shutdown.clone());
        (latches, shutdown, health)
    }

    #[test]
    fn short_and_verbose_when_all_is_well() {
        let (_, _, health) = health();
        let ok = |path, query, text: &str| {
            assert_eq!(
                health.answer(path, query),
                Some((StatusCode::OK, text.to_owned())),
                "{path}?{query}"
            );
        };
        ok("/readyz", "", "ok");
        ok("/livez", "", "ok");
        ok("/healthz", "", "ok");
        ok("/livez", "verbose", "[+]ping ok\nlivez check passed\n");
        ok(
            "/readyz",
            "verbose=1",
            "[+]ping ok\n[+]view ok\n[+]listener ok: 2 ms\n[+]shutdown ok\nreadyz check passed\n",
        );
        ok("/readyz/view", "", "ok");
        ok("/livez/ping", "", "ok");
    }

    #[test]
    fn a_failure_is_always_verbose_and_touches_readiness_only() {
        let (latches, _, health) = health();
        latches.add("view").close("namespaces not listed");
        let failed = |path, query| health.answer(path, query);
        assert_eq!(
            failed("/readyz", ""),
            Some((
                StatusCode::INTERNAL_SERVER_ERROR,
                "[+]ping ok\n[-]view failed: namespaces not listed\n[+]listener ok: 2 ms\n[+]shutdown ok\nreadyz check failed\n"
                    .to_owned()
            ))
        );
        assert_eq!(
            failed("/readyz/view", ""),
            Some((
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal server error: namespaces not listed\n".to_owned()
            ))
        );
        let live = Some((StatusCode::OK, "ok".to_owned()));
        assert_eq!(failed("/livez", ""), live);
        assert_eq!(failed("/readyz", "exclude=view"), live);
    }

    #[test]
    fn exclusions_are_shown_and_unknown_ones_warned_of() {
        let (_, _, health) = health();
        let (_, text) = health
            .answer("/readyz", "verbose&exclude=view&exclude=etcd")
            .unwrap();
        assert_eq!(
            text,
            "[+]ping ok\n[+]view excluded: ok\n[+]listener ok: 2 ms\n[+]shutdown ok\nwarn: some health checks cannot be excluded: no matches for \"etcd\"\nreadyz check passed\n"
        );
    }

    #[test]
    fn unknown_checks_and_paths_are_not_found() {
        let (_, _, health) = health();
        for path in ["/readyz/etcd", "/livez/view", "/", "/ready", "/metricsx"] {
            assert_eq!(health.answer(path, ""), None, "{path}");
        }
    }

    #[test]
    fn a_shutdown_ends_readiness_at_once() {
        let (_, shutdown, health) = health();
        shutdown.drain("SIGTERM");
        let (status, text) = health.answer("/readyz", "").unwrap();
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(text.contains("[-]shutdown failed: process is shutting down (SIGTERM)\n"));
        let (status, _) = health.answer("/livez", "").unwrap();
        assert_eq!(status, StatusCode::OK);
    }
}
