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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_are_compared_by_host_and_services_without_their_path() {
        let url = |url: &str| json!({"url": url});
        assert!(has_same_address(&url("https://a:1/x"), &url("https://a:1")));
        assert!(!has_same_address(
            &url("https://a:1/x"),
            &url("https://a:2/x")
        ));
        let service = |name: &str, path: &str| json!({"service": {"name": name, "path": path}});
        assert!(has_same_address(&service("a", "/x"), &service("a", "/y")));
        assert!(!has_same_address(&service("a", "/x"), &service("b", "/x")));
        assert!(!has_same_address(&service("a", "/x"), &url("https://a")));
    }
}
