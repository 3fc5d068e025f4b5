//! What the registration carries so that callers can verify us. Pure.

use crate::render::Settings;

/// By what a caller verifies our certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// These CAs, PEM: the `caBundle`.
    Bundle(String),
    /// What the API server's own system trusts: a public CA.
    System,
    /// What cainjector of cert-manager writes there for this `NAMESPACE/NAME` of a Certificate.
    Injected(String),
}

impl Trust {
    /// Says so in what is rendered.
    pub fn enter(&self, settings: &mut Settings) {
        settings.ca_bundle = None;
        settings.inject_ca_from = None;
        match self {
            Self::Bundle(pem) => settings.ca_bundle = Some(pem.clone()),
            Self::System => {}
            Self::Injected(from) => settings.inject_ca_from = Some(from.clone()),
        }
    }
}
