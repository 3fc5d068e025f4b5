//! What rustls serves with: its settings, and the pair that can be swapped under it.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};

use crate::certs::pair::ServingPair;

/// The serving pair of the moment, if there is one yet. Clones are handles to the same one.
///
/// Every handshake takes the pair that is live when it begins; connections that are open keep
/// theirs. Swapping needs no lock and no restart. Before there is one, handshakes are refused, with
/// an alert and at once: whoever calls may fare better elsewhere.
#[derive(Clone)]
pub struct LivePair(Arc<ArcSwapOption<ServingPair>>);

impl LivePair {
    /// Begins with `pair`.
    #[must_use]
    pub fn new(pair: ServingPair) -> Self {
        Self(Arc::new(ArcSwapOption::from_pointee(pair)))
    }

    /// Begins with none.
    #[must_use]
    pub fn empty() -> Self {
        Self(Arc::new(ArcSwapOption::empty()))
    }

    /// Serves with `pair` from the next handshake on.
    pub fn swap(&self, pair: ServingPair) {
        self.0.store(Some(Arc::new(pair)));
    }

    /// The pair that the next handshake gets: what is served, whatever may lie on a disk.
    #[must_use]
    pub fn current(&self) -> Option<Arc<ServingPair>> {
        self.0.load_full()
    }
}

impl fmt::Debug for LivePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.load().fmt(f)
    }
}

impl ResolvesServerCert for LivePair {
    // Whatever name is asked for: the API server asks for `svc.ns.svc`, or for none at all when
    // it calls an address, and there is only this one pair to answer with.
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load().as_ref()?.certified_key())
    }
}

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
