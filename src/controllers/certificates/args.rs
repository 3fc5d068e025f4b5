//! The flags of whoever keeps the certificates.

use std::time::Duration;

use crate::certs::rotation::Lifetimes;

use super::own::Own;
use super::{Clock, Settings, Source};

const DAY: u64 = 24 * 60 * 60;
/// Named at each flag, so that those which come after them are under their own.
const HEADING: &str = "Certificates";
/// Shorter ones leave no time for a renewal: its steps wait for API servers' caches.
const SHORTEST: Duration = Duration::from_secs(30);

/// Where the certificates of a cluster come from.
#[derive(Debug, Clone, clap::Args)]
pub struct CertificatesArgs {
    /// Who makes the serving certificate
    #[arg(long, help_heading = HEADING, value_name = "BY", default_value = "own")]
    pub certificates: By,

    /// Secret of the serving certificate, in --namespace
    #[arg(long, help_heading = HEADING, value_name = "NAME", default_value = "meshgate-tls")]
    pub tls_secret: String,

    /// Secret of meshgate's own CA, in --namespace
    #[arg(long, help_heading = HEADING, value_name = "NAME", default_value = "meshgate-ca")]
    pub ca_secret: String,

    /// Leave the caBundle to cainjector of cert-manager, which takes it from this Certificate
    #[arg(long, help_heading = HEADING, value_name = "NAMESPACE/NAME", value_parser = parse_certificate)]
    pub inject_ca_from: Option<String>,

    /// How long a CA of meshgate's own is valid; it is renewed when two thirds of that are over
    #[arg(long, help_heading = HEADING, value_name = "TIME", default_value = "365d", value_parser = parse_lifetime)]
    pub ca_lifetime: Duration,

    /// How long a serving certificate of meshgate's own is valid, at most as long as its CA
    #[arg(long, help_heading = HEADING, value_name = "TIME", default_value = "90d", value_parser = parse_lifetime)]
    pub leaf_lifetime: Duration,
}

/// Who makes certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// meshgate, with a CA of its own.
    Own,
    /// cert-manager, or whoever else writes the Secret.
    CertManager,
}

impl CertificatesArgs {
    /// What they say, for a Service of a namespace.
    pub fn settings(&self, (namespace, service): (&str, &str), clock: Clock) -> Settings {
        let source = match (&self.inject_ca_from, self.certificates) {
            (Some(certificate), _) => Source::Injected(certificate.clone()),
            (None, By::CertManager) => Source::Secret(self.tls_secret.clone()),
            (None, By::Own) => Source::Own(Own {
                ca_secret: self.ca_secret.clone(),
                tls_secret: self.tls_secret.clone(),
                names: names(namespace, service),
                lifetimes: Lifetimes {
                    ca: self.ca_lifetime,
                    leaf: self.leaf_lifetime,
                },
            }),
        };
        Settings { source, clock }
    }
}

/// The names by which a Service is called.
pub fn names(namespace: &str, service: &str) -> Vec<String> {
    let ends = [".svc", ".svc.cluster.local", ""];
    let long = ends.map(|end| format!("{service}.{namespace}{end}"));
    long.into_iter().chain([service.to_owned()]).collect()
}

fn parse_certificate(text: &str) -> Result<String, String> {
    let is_name = |name: &str| !name.is_empty() && !name.contains('/');
    match text.split_once('/') {
        Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(text.to_owned()),
        _ => Err("expected NAMESPACE/NAME of a Certificate of cert-manager".to_owned()),
    }
}

fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a time of {SHORTEST:?} or more, as 90d, 12h or 10m");
    let (count, unit) = text
        .split_at_checked(text.len().saturating_sub(1))
        .unwrap_or((text, ""));
    let seconds = match unit {
        "d" => DAY,
        "h" => 60 * 60,
        "m" => 60,
        "s" => 1,
        _ => return Err(expected()),
    };
    let count = count.parse::<u64>().ok();
    let all = count.and_then(|count| count.checked_mul(seconds));
    // A hundred years: what ends later than that is not renewed by us.
    let all = all
        .filter(|all| *all <= 36_500 * DAY)
        .map(Duration::from_secs);
    all.filter(|all| *all >= SHORTEST).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_a_unit_and_a_least() {
        assert_eq!(parse_lifetime("90d"), Ok(Duration::from_secs(90 * DAY)));
        assert_eq!(parse_lifetime("30s"), Ok(SHORTEST));
        for wrong in [
            "",
            "d",
            "29s",
            "90",
            "1w",
            "-1d",
            "ü",
            "99999999999999999999d",
            "40000d",
        ] {
            assert!(parse_lifetime(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_service_is_called_by_its_long_name_first() {
        let names = names("meshgate-system", "meshgate");
        assert_eq!(
            names,
            [
                "meshgate.meshgate-system.svc",
                "meshgate.meshgate-system.svc.cluster.local",
                "meshgate.meshgate-system",
                "meshgate",
            ]
        );
    }

    #[test]
    fn a_certificate_has_a_namespace() {
        assert!(parse_certificate("a/b").is_ok());
        for wrong in ["", "a", "/a", "a/", "a/b/c"] {
            assert!(parse_certificate(wrong).is_err(), "{wrong}");
        }
    }
}
