//! The serving pair: a certificate chain and its key, known to be usable.
//!
//! Owns the one answer to "may we serve with this". A [`ServingPair`] that exists has been parsed,
//! its key belongs to its first certificate, and that certificate was valid at the time given. It
//! must not know where the bytes came from, and shows the key to rustls alone.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SigningKey};

use super::chain::{self, Certificate, ChainError};
use super::pem::{self, NotPem};

/// A certificate chain and its key that parsed, match, and were valid at the time of making.
#[derive(Clone)]
pub struct ServingPair {
    /// What rustls serves with.
    pub(super) certified: Arc<CertifiedKey>,
    leaf: Certificate,
}

/// Why a certificate and a key cannot be served with. The messages speak of "the certificate" and
/// "the key"; the code that read them says from where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// There is no chain.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The key is not PEM.
    #[error("the key {0}")]
    KeyNotPem(NotPem),
    /// There is no private key where one belongs.
    #[error(
        "the key has no private key block (found: {found}); expected PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY"
    )]
    NoKey {
        /// The labels of the blocks there are, or `nothing`.
        found: String,
    },
    /// More than one private key: it is not for us to choose.
    #[error("the key has {count} private keys; expected exactly one")]
    SeveralKeys {
        /// How many.
        count: usize,
    },
    /// A key that needs a passphrase.
    #[error("the key is encrypted; decrypt it with `openssl pkey -in KEY -out PLAIN`")]
    EncryptedKey,
    /// A key that cannot be parsed or is of a kind that TLS has no use for.
    #[error(
        "the key cannot be used: {why}; expected RSA of 2048 bits or more, ECDSA on P-256, P-384 or P-521, or Ed25519"
    )]
    BadKey {
        /// What the parser said.
        why: String,
    },
    /// The key belongs to a certificate further down: the CA was put first.
    #[error(
        "the chain is in the wrong order: the key belongs to certificate {position} ({subject}), which must come first, followed by its issuers"
    )]
    WrongOrder {
        /// The place of the certificate that the key belongs to, from 1.
        position: usize,
        /// Its subject.
        subject: String,
    },
    /// The key is that of another certificate.
    #[error(
        "the key does not belong to the certificate ({subject}); were they read in the middle of an update, or are they from two different pairs?"
    )]
    OtherKey {
        /// The subject of the first certificate.
        subject: String,
    },
    /// The certificate is no longer valid.
    #[error("the certificate ({subject}) expired at {not_after}, it is now {now}; renew it")]
    Expired {
        /// Its subject.
        subject: String,
        /// Until when it was valid.
        not_after: Timestamp,
        /// The clock it was compared with.
        now: Timestamp,
    },
    /// The certificate is not valid yet.
    #[error(
        "the certificate ({subject}) is not valid before {not_before}, it is now {now}; check the clocks"
    )]
    NotYetValid {
        /// Its subject.
        subject: String,
        /// From when it is valid.
        not_before: Timestamp,
        /// The clock it was compared with.
        now: Timestamp,
    },
}

impl ServingPair {
    /// Reads a chain (leaf first, then its issuers) and the leaf's private key from PEM.
    ///
    /// Keys may be PKCS#8, PKCS#1 or SEC1. Blocks of other kinds and text around the blocks are
    /// passed over, so that one combined file can be given for both.
    ///
    /// # Errors
    ///
    /// One variant of [`PairError`] for each reason not to serve with it at `now`.
    pub fn from_pem(cert_pem: &[u8], key_pem: &[u8], now: Timestamp) -> Result<Self, PairError> {
        let pair = Self::at_any_time(cert_pem, key_pem)?;
        check_time(&pair.leaf, now)?;
        Ok(pair)
    }

    /// The same, whether or not it is valid now.
    pub(super) fn at_any_time(cert_pem: &[u8], key_pem: &[u8]) -> Result<Self, PairError> {
        let chain = chain::read(cert_pem)?;
        let key = read_key(key_pem)?;
        let leaf = own_certificate(&chain, &key)?;
        Ok(Self {
            leaf: leaf.clone(),
            certified: Arc::new(CertifiedKey::new(ders(&chain), key)),
        })
    }

    /// The first certificate, which the key belongs to.
    pub fn leaf(&self) -> &Certificate {
        &self.leaf
    }

    /// The whole chain, leaf first, as it is sent to clients.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// Whether a caller that wants this DNS name or address accepts the leaf.
    pub fn is_for(&self, name: &str) -> bool {
        let leaf = self.chain().first().map(ParsedCertificate::try_from);
        let (Some(Ok(leaf)), Ok(name)) = (leaf, ServerName::try_from(name)) else {
            return false;
        };
        verify_server_name(&leaf, &name).is_ok()
    }
}

impl fmt::Debug for ServingPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingPair")
            .field("subject", &self.leaf.subject)
            .field("not_before", &self.leaf.not_before)
            .field("not_after", &self.leaf.not_after)
            .finish_non_exhaustive()
    }
}

/// Whether a certificate is valid at this time.
fn check_time(leaf: &Certificate, now: Timestamp) -> Result<(), PairError> {
    let subject = leaf.subject.clone();
    if now > leaf.not_after {
        return Err(PairError::Expired {
            subject,
            not_after: leaf.not_after,
            now,
        });
    }
    if now < leaf.not_before {
        return Err(PairError::NotYetValid {
            subject,
            not_before: leaf.not_before,
            now,
        });
    }
    Ok(())
}

fn ders(chain: &[Certificate]) -> Vec<CertificateDer<'static>> {
    let ders = chain.iter().map(|one| one.der.clone());
    ders.map(CertificateDer::from).collect()
}

fn read_key(pem: &[u8]) -> Result<Arc<dyn SigningKey>, PairError> {
    let mut keys = pem::blocks(pem).map_err(PairError::KeyNotPem)?;
    let found = pem::labels(&keys);
    keys.retain(|block| block.label.ends_with("PRIVATE KEY"));
    if keys.len() > 1 {
        return Err(PairError::SeveralKeys { count: keys.len() });
    }
    let Some(block) = keys.pop() else {
        return Err(PairError::NoKey { found });
    };
    if block.encrypted || block.label == "ENCRYPTED PRIVATE KEY" {
        return Err(PairError::EncryptedKey);
    }
    let der = match block.label.as_str() {
        "PRIVATE KEY" => PrivateKeyDer::Pkcs8(block.der.into()),
        "RSA PRIVATE KEY" => PrivateKeyDer::Pkcs1(block.der.into()),
        "EC PRIVATE KEY" => PrivateKeyDer::Sec1(block.der.into()),
        other => {
            return Err(PairError::BadKey {
                why: format!("{other} is of a kind that TLS does not use here"),
            });
        }
    };
    aws_lc_rs::sign::any_supported_type(&der).map_err(|error| PairError::BadKey {
        // Its own text would begin with "unexpected error", which a wrong key is not.
        why: if let rustls::Error::General(why) = error {
            why
        } else {
            error.to_string()
        },
    })
}

/// The first certificate, which the key must belong to.
fn own_certificate<'c>(
    chain: &'c [Certificate],
    key: &Arc<dyn SigningKey>,
) -> Result<&'c Certificate, PairError> {
    let belongs = |one: &&Certificate| {
        CertifiedKey::new(ders(std::slice::from_ref(one)), Arc::clone(key))
            .keys_match()
            .is_ok()
    };
    let subject = |one: &Certificate| one.subject.clone();
    match chain.iter().zip(1..).find(|(one, _)| belongs(one)) {
        Some((leaf, 1)) => Ok(leaf),
        Some((own, position)) => Err(PairError::WrongOrder {
            position,
            subject: subject(own),
        }),
        None => Err(PairError::OtherKey {
            subject: chain.first().map(subject).unwrap_or_default(),
        }),
    }
}

#[cfg(test)]
mod tests;
