//! Making a CA and serving certificates. Pure but for randomness: the clock is passed in.
//!
//! Owns how our own certificates look. It must not know where they are kept.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

use super::rotation::BACKDATED;

/// A certificate that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate")]
pub struct IssueError(#[from] rcgen::Error);

/// A certificate authority that can sign. Its key leaves it only by [`Authority::key_pem`].
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    cert_pem: String,
}

/// What is wanted of a serving certificate.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The common name, for people only.
    pub name: &'a str,
    /// DNS names it is valid for.
    pub dns_names: &'a [String],
    /// Addresses it is valid for.
    pub addresses: &'a [IpAddr],
    /// How long it is valid from now on.
    pub lifetime: Duration,
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
        let mut params = validity(lifetime, now);
        params.distinguished_name = common_name(name);
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
    #[must_use]
    pub fn cert_pem(&self) -> String {
        self.cert_pem.clone()
    }

    /// The CA's private key, PEM. For those who keep a CA; a throw-away one is simply dropped.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Makes a serving certificate with an ECDSA P-256 key of its own.
    ///
    /// # Errors
    ///
    /// When a name cannot stand in a certificate, or no key can be made.
    pub fn issue(&self, request: &Request<'_>, now: Timestamp) -> Result<Issued, IssueError> {
        let mut params = validity(request.lifetime, now);
        params.distinguished_name = common_name(request.name);
        for name in request.dns_names {
            let name = SanType::DnsName(name.as_str().try_into()?);
            params.subject_alt_names.push(name);
        }
        let addresses = request.addresses.iter().copied().map(SanType::IpAddress);
        params.subject_alt_names.extend(addresses);
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

fn validity(lifetime: Duration, now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    // A clock before 1970 gives certificates from 1970 on: wrong, but then so is all of TLS.
    let since_epoch = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch.saturating_sub(BACKDATED);
    params.not_after = epoch + since_epoch + lifetime;
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

    use super::*;
    use crate::certs::pair::ServingPair;

    #[test]
    fn a_leaf_has_the_names_given_and_begins_an_hour_ago() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let day = Duration::from_secs(86_400);
        let authority = Authority::new("test CA", day * 10, now).unwrap();
        let request = Request {
            name: "meshgate",
            dns_names: &["meshgate.mesh.svc".to_owned()],
            addresses: &["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
            lifetime: day,
        };
        let issued = authority.issue(&request, now).unwrap();
        let pair =
            ServingPair::from_pem(issued.cert_pem.as_bytes(), issued.key_pem.as_bytes(), now)
                .unwrap();
        assert_eq!(pair.not_before().to_string(), "2026-03-01T11:00:00Z");
        assert_eq!(pair.not_after().to_string(), "2026-03-02T12:00:00Z");
        assert_eq!(pair.subject(), "CN=meshgate");

        let (_, leaf) = X509Certificate::from_der(&pair.chain()[0]).unwrap();
        assert_eq!(leaf.issuer().to_string(), "CN=test CA");
        let names = leaf.subject_alternative_name().unwrap().unwrap();
        assert_eq!(
            names.value.general_names,
            [
                GeneralName::DNSName("meshgate.mesh.svc"),
                GeneralName::IPAddress(&[127, 0, 0, 1]),
                GeneralName::IPAddress(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            ]
        );
    }
}
