//! The flags of commands that write the registration.

use std::fmt;
use std::str::FromStr;

use axum::http::uri::Authority;
use meshgate_core::render::{Enforcement, MirrorForm};

/// The flags of `serve` by which it registers itself.
#[derive(Debug, Clone, clap::Args)]
pub struct RegistrationArgs {
    /// Register with the cluster, to be called at this address: for development and tests. meshgate
    /// writes the registration, arms it once the API server has reached this address, and keeps it. It
    /// stays when meshgate stops (see `meshgate uninstall`)
    #[arg(
        long,
        value_name = "https://HOST:PORT",
        requires = "kubeconfig",
        conflicts_with = "standalone"
    )]
    pub webhook_url: Option<WebhookUrl>,

    /// What refuses a pod without its sidecar: a webhook, or a policy in the API server itself
    #[arg(
        long,
        value_enum,
        value_name = "MECHANISM",
        default_value_t,
        requires = "webhook_url"
    )]
    pub enforcement: EnforcementArg,

    /// What keeps the labels of namespaces that mirror their annotations
    #[arg(
        long,
        value_enum,
        value_name = "MECHANISM",
        default_value_t,
        requires = "webhook_url"
    )]
    pub mirror: MirrorArg,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum EnforcementArg {
    /// Gate and check are webhooks.
    #[default]
    Webhook,
    /// The check is a ValidatingAdmissionPolicy, and the gate never blocks.
    Policy,
}

impl From<EnforcementArg> for Enforcement {
    fn from(argument: EnforcementArg) -> Self {
        match argument {
            EnforcementArg::Webhook => Self::Webhook,
            EnforcementArg::Policy => Self::Policy,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MirrorArg {
    /// A policy where the cluster serves the kind, else a webhook.
    #[default]
    Auto,
    /// A MutatingAdmissionPolicy (Kubernetes 1.36 and later).
    Policy,
    /// A webhook.
    Webhook,
}

impl MirrorArg {
    /// `None`: what the cluster serves decides.
    pub fn form(self) -> Option<MirrorForm> {
        match self {
            Self::Auto => None,
            Self::Policy => Some(MirrorForm::Policy),
            Self::Webhook => Some(MirrorForm::Webhook),
        }
    }
}

/// An address that the API server accepts as a webhook's, without a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    url: String,
    host: String,
}

impl WebhookUrl {
    /// For the certificate.
    pub fn host(&self) -> &str {
        &self.host
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl FromStr for WebhookUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = |found: &str| {
            format!(
                "expected https://HOST:PORT without a path, as the API server is to call it: {found}"
            )
        };
        let rest = text.strip_prefix("https://");
        let rest = rest.ok_or_else(|| expected("webhooks are called by https only"))?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(expected("found more than a host and a port"));
        }
        let parsed = authority.parse::<Authority>();
        let parsed = parsed.map_err(|_| expected("found no host"))?;
        let has_port = authority.len() > parsed.host().len();
        if parsed.host().is_empty() || has_port && parsed.port_u16().is_none_or(|port| port == 0) {
            let found = "found no host, or no port from 1 to 65535 behind the colon";
            return Err(expected(found));
        }
        Ok(Self {
            url: format!("https://{authority}"),
            host: parsed.host().to_owned(),
        })
    }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
