//! The server as its own client: does the listener answer a TLS handshake with the live pair?

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::tls::LivePair;

const DEADLINE: Duration = Duration::from_secs(5);

/// Why the listener does not count as answering.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("cannot connect to {0}")]
    Connect(SocketAddr, #[source] io::Error),
    /// Or another certificate than the live one was shown.
    #[error("no TLS handshake with {0}")]
    Handshake(SocketAddr, #[source] io::Error),
    #[error("no TLS handshake with {0} within {DEADLINE:?}")]
    TooLate(SocketAddr),
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// Makes one TLS handshake with the listener at `address` (all addresses: over loopback) and
/// expects the certificate of `pair` in answer.
///
/// # Errors
///
/// When there is no answer within 5 s, or one with another certificate.
pub async fn probe_own_listener(address: SocketAddr, pair: &LivePair) -> Result<(), ProbeError> {
    let address = reachable(address);
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned {
            pair: pair.clone(),
            provider,
        }))
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let handshake = async {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|e| ProbeError::Connect(address, e))?;
        connector
            .connect(ServerName::IpAddress(address.ip().into()), stream)
            .await
            .map_err(|e| ProbeError::Handshake(address, e))
    };
    let answered = timeout(DEADLINE, handshake).await;
    answered
        .map_err(|_| ProbeError::TooLate(address))?
        .map(drop)
}

/// Where this machine reaches a listener: a wildcard address by loopback.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V4(_) | IpAddr::V6(_) => address.ip(),
    };
    SocketAddr::new(ip, address.port())
}

/// Trusts the live pair's own certificate and nothing else. Names and CAs are the clients'
/// business: this asks only whether it is this process that answers, with the key.
#[derive(Debug)]
struct Pinned {
    pair: LivePair,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let pair = self.pair.current();
        match pair.as_ref().and_then(|pair| pair.chain().first()) {
            Some(ours) if ours == end_entity => Ok(ServerCertVerified::assertion()),
            Some(_) | None => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
