//! The settings that rustls serves with.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};

pub use crate::certs::live::LivePair;

/// The settings of the HTTPS endpoints: TLS 1.2 and 1.3, and HTTP/1.1 alone, which is all that API
/// servers speak to webhooks (kubernetes/kubernetes#75791).
pub(super) fn server_config(pair: &LivePair) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(pair.clone()));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // The API server never resumes a session. Not keeping any saves memory per connection, and
    // every new connection really sees the pair of the moment.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
