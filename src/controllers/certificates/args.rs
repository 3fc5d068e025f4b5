//! The flags that say where certificates come from.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use rustls::pki_types::ServerName;

use crate::certs::rotation::Lifetimes;

use super::own::Own;
use super::{Clock, Settings, Source};

/// Named at each flag, so that flags after them keep their own heading.
const HEADING: &str = "Certificates";
/// Shorter ones leave no time for a renewal: its steps wait for API servers' caches.
const SHORTEST: Duration = Duration::from_secs(30);
/// A hundred years.
const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);

#[derive(Debug, Clone, clap::Args)]
pub struct CertificatesArgs {
    /// What makes the serving certificate
    #[arg(long, help_heading = HEADING, value_name = "ISSUER", default_value = "own")]
    pub certificates: Issuer,

    /// Secret of the serving certificate, in --namespace
    #[arg(long, help_heading = HEADING, value_name = "NAME", default_value = "meshgate-tls")]
    pub tls_secret: String,

    /// Secret of meshgate's own CA, in --namespace
    #[arg(long, help_heading = HEADING, value_name = "NAME", default_value = "meshgate-ca")]
    pub ca_secret: String,

    /// Validity of meshgate's own CA; meshgate renews it after two thirds of that
    #[arg(long, help_heading = HEADING, value_name = "DURATION", default_value = "365d", value_parser = parse_lifetime)]
    pub ca_lifetime: Duration,

    /// Validity of meshgate's own serving certificates, at most that of their CA
    #[arg(long, help_heading = HEADING, value_name = "DURATION", default_value = "90d", value_parser = parse_lifetime)]
    pub leaf_lifetime: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Issuer {
    /// meshgate, with a CA of its own.
    Own,
    /// cert-manager, or another party that writes the Secret.
    CertManager,
}

impl CertificatesArgs {
    /// `names` are those by which the API server calls the replicas.
    pub fn settings(&self, names: Vec<String>, clock: Clock) -> Settings {
        let source = match self.certificates {
            Issuer::CertManager => Source::Secret(self.tls_secret.clone()),
            Issuer::Own => Source::Own(Own {
                ca_secret: self.ca_secret.clone(),
                tls_secret: self.tls_secret.clone(),
                names,
                lifetimes: Lifetimes {
                    ca: self.ca_lifetime,
                    leaf: self.leaf_lifetime,
                },
            }),
        };
        Settings { source, clock }
    }
}

/// The DNS names of a Service. What callers refuse as a name is left out, such as `meshgate.2024` for a
/// namespace of digits: no certificate would ever count as issued for it.
pub fn names(namespace: &str, service: &str) -> Vec<String> {
    let service = service.trim_matches(['[', ']']);
    let ends = [".svc", ".svc.cluster.local", ""];
    let long = ends.map(|end| format!("{service}.{namespace}{end}"));
    let all = long.into_iter().chain([service.to_owned()]);
    all.filter(|name| ServerName::try_from(name.as_str()).is_ok())
        .collect()
}

fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a duration of {SHORTEST:?} or more, as 90d, 12h or 10m");
    let span = text.parse::<Span>().ok();
    let span = span.filter(|span| span.get_weeks() == 0);
    let span = span.ok_or_else(expected)?;
    let time = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let time = time.ok().and_then(|time| Duration::try_from(time).ok());
    time.filter(|time| (SHORTEST..=LONGEST).contains(time))
        .ok_or_else(expected)
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
