//! The settings that rustls serves with, and whose client certificates count.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use arc_swap::ArcSwap;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use tokio::time::sleep;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

pub use crate::certs::live::LivePair;
use crate::telemetry::with_causes;

/// How often the file of client CAs is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// Why the server cannot set up TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read the client CA {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("cannot read the client CA {} as certificates in PEM", .0.display())]
    Pem(PathBuf, #[source] pem::Error),
    #[error("cannot use a certificate of the client CA {}, expected X.509", .0.display())]
    Certificate(PathBuf, #[source] rustls::Error),
    #[error("cannot verify clients with {}, expected a certificate of a CA", .0.display())]
    ClientCa(PathBuf, #[source] VerifierBuilderError),
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// The settings of the moment. With a file of client CAs they change with it.
pub(super) struct LiveTls {
    pub(super) config: ArcSwap<ServerConfig>,
    pair: LivePair,
    client_ca: Option<PathBuf>,
}

impl LiveTls {
    pub(super) fn new(pair: &LivePair, client_ca: Option<&Path>) -> Result<Self, TlsError> {
        let text = client_ca.map(read).transpose()?;
        let config = server_config(pair, client_ca.zip(text.as_deref()))?;
        Ok(Self {
            config: ArcSwap::from(config),
            pair: pair.clone(),
            client_ca: client_ca.map(Path::to_owned),
        })
    }

    /// Follows the file of client CAs, until it is dropped. What it held before stays in use while it
    /// cannot be read.
    pub(super) async fn follow(&self) {
        let Some(path) = &self.client_ca else {
            return std::future::pending().await;
        };
        let mut seen = None;
        loop {
            let text = read(path).map_err(|error| with_causes(&error));
            if seen.as_ref() != Some(&text) {
                let config = text.clone().and_then(|text| {
                    let config = server_config(&self.pair, Some((path, &text)));
                    config.map_err(|error| with_causes(&error))
                });
                match config {
                    Ok(config) => self.config.store(config),
                    Err(error) => tracing::error!(
                        error,
                        "the client CA is refused, the last good one stays in use"
                    ),
                }
                seen = Some(text);
            }
            sleep(INTERVAL).await;
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError::Read(path.to_owned(), error))
}

/// The settings of the HTTPS endpoints: TLS 1.2 and 1.3, and HTTP/1.1 alone, which is all that API
/// servers speak to webhooks (kubernetes/kubernetes#75791).
fn server_config(
    pair: &LivePair,
    client_ca: Option<(&Path, &[u8])>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = match client_ca {
        None => WebPkiClientVerifier::no_client_auth(),
        Some((path, text)) => {
            let mut roots = RootCertStore::empty();
            for ca in CertificateDer::pem_slice_iter(text) {
                let ca = ca.map_err(|error| TlsError::Pem(path.to_owned(), error))?;
                let added = roots.add(ca);
                added.map_err(|error| TlsError::Certificate(path.to_owned(), error))?;
            }
            // Who has no certificate gets an answer that says so, and the server asks itself without.
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| TlsError::ClientCa(path.to_owned(), error))?
        }
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(pair.clone()));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // The API server never resumes a session. Not keeping any saves memory per connection, and
    // every new connection really sees the pair of the moment.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Whether a client's chain, which TLS has verified, is for one of these names: its common name or
/// one of its DNS names. Without names every verified client counts.
pub(super) fn is_for(chain: Option<&[CertificateDer<'_>]>, names: &[String]) -> bool {
    let Some(leaf) = chain.and_then(<[_]>::first) else {
        return false;
    };
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else {
        return false;
    };
    let is_named = |own: &str| names.iter().any(|name| name == own);
    let common = leaf.subject().iter_common_name();
    let mut common = common.filter_map(|name| name.as_str().ok());
    let others = leaf.subject_alternative_name().ok().flatten();
    let mut others = others.iter().flat_map(|one| &one.value.general_names);
    names.is_empty()
        || common.any(is_named)
        || others.any(|name| matches!(name, GeneralName::DNSName(dns) if is_named(dns)))
}
