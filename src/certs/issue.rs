//! Making a CA and serving certificates. Pure but for randomness: the clock is passed in.
//!
//! Owns how our own certificates look. It must not know where they are kept.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::rotation::BACKDATED;

/// Common name of serving certificates, for people only.
const LEAF_NAME: &str = "meshgate";

/// A certificate that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate")]
pub struct IssueError(#[from] rcgen::Error);

/// A certificate authority that can sign. Its key leaves it only by [`Authority::key_pem`].
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    cert_pem: String,
}

/// A certificate and its key, both PEM.
pub struct Issued {
    /// The certificate alone, without its CA.
    pub cert_pem: String,
    /// Its private key, PKCS#8.
    pub key_pem: String,
}

impl Authority {
    /// Makes a CA with an ECDSA P-256 key that may sign serving certificates and nothing below them.
    ///
    /// # Errors
    ///
    /// When `name` cannot stand in a certificate, or no key can be made.
    pub fn new(name: &str, lifetime: Duration, now: Timestamp) -> Result<Self, IssueError> {
        let mut params = params(name, &[], lifetime, now)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let cert_pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, cert_pem })
    }

    /// Takes up a CA that was made before.
    ///
    /// # Errors
    ///
    /// When either is not PEM, or cannot be parsed. That they belong together is not looked at.
    pub fn load(cert_pem: &str, key_pem: &str) -> Result<Self, IssueError> {
        let issuer = Issuer::from_ca_cert_pem(cert_pem, KeyPair::from_pem(key_pem)?)?;
        let cert_pem = cert_pem.to_owned();
        Ok(Self { issuer, cert_pem })
    }

    /// The CA's certificate, PEM: what callers have to trust.
    pub fn cert_pem(&self) -> String {
        self.cert_pem.clone()
    }

    /// The CA's private key, PEM. For those who keep a CA; a throw-away one is simply dropped.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Makes a serving certificate for these DNS names and addresses, with an ECDSA P-256 key of its own.
    ///
    /// # Errors
    ///
    /// When a name cannot stand in a certificate, or no key can be made.
    pub fn issue(
        &self,
        names: &[String],
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Issued, IssueError> {
        let mut params = params(LEAF_NAME, names, lifetime, now)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?;
        Ok(Issued {
            cert_pem: cert.pem(),
            key_pem: key.serialize_pem(),
        })
    }
}

fn params(
    name: &str,
    names: &[String],
    lifetime: Duration,
    now: Timestamp,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // A clock before 1970 gives certificates from 1970 on: wrong, but then so is all of TLS.
    let since_epoch = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch.saturating_sub(BACKDATED);
    params.not_after = epoch + since_epoch + lifetime;
    Ok(params)
}

#[cfg(test)]
#[path = "issue_tests.rs"]
mod tests;
