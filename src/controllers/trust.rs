//! What the registration carries so that API servers can verify meshgate's certificate. Pure.

use serde_json::Value;

/// By what a caller verifies meshgate's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// These CAs in PEM: the `caBundle`.
    Bundle(String),
    /// The trust store of the API server's own system: a public CA.
    System,
}

/// Whether two client configurations of webhooks call the same address: the Service, or host and port.
pub fn has_same_address(one: &Value, other: &Value) -> bool {
    let service = |config: &Value| {
        let mut service = config["service"].clone();
        if let Some(service) = service.as_object_mut() {
            service.remove("path");
        }
        service
    };
    let host = |config: &Value| {
        let url = config["url"].as_str()?;
        let rest = url.strip_prefix("https://")?;
        rest.split('/').next().map(str::to_owned)
    };
    service(one) == service(other) && host(one) == host(other)
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
