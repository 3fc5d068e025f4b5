//! Which CAs of a bundle verify a serving certificate.
//!
//! Owns the answer to "would a caller that trusts this accept that", as Go's `crypto/x509` answers
//! it for an API server: by any CA of the bundle that is valid now.

use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;

use super::bundle::Ca;

/// The CAs of a bundle that verify a server's chain (leaf first) at this time. Names are ignored.
pub fn verifying<'b>(
    chain: &[CertificateDer<'_>],
    bundle: &'b [Ca],
    now: Timestamp,
) -> Vec<&'b Ca> {
    let verifies = |ca: &&Ca| ca.is_valid(now) && verifies(chain, ca, now);
    bundle.iter().filter(verifies).collect()
}

fn verifies(chain: &[CertificateDer<'_>], ca: &Ca, now: Timestamp) -> bool {
    let Some((leaf, intermediates)) = chain.split_first() else {
        return false;
    };
    // Go accepts a self-signed certificate as its own CA; the library does not.
    if leaf.as_ref() == ca.der.as_slice() {
        return true;
    }
    let mut roots = RootCertStore::empty();
    let seconds = u64::try_from(now.as_second()).unwrap_or(0);
    let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let provider = aws_lc_rs::default_provider();
    let algorithms = provider.signature_verification_algorithms.all;
    let added = roots.add(CertificateDer::from(ca.der.as_slice()).into_owned());
    let (Ok(()), Ok(leaf)) = (added, ParsedCertificate::try_from(leaf)) else {
        return false;
    };
    verify_server_cert_signed_by_trust_anchor(&leaf, &roots, intermediates, now, algorithms).is_ok()
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
