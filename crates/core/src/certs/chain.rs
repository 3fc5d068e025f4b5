//! The certificates of a PEM text: a chain that is served, or the CAs of a bundle.

use jiff::Timestamp;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::pem::{self, Block, NotPem};

/// A certificate that parsed, and the fields that meshgate looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Certificate {
    /// Without the trust data that `openssl x509 -trustout` appends.
    pub der: Vec<u8>,
    /// For people: `CN=meshgate`.
    pub subject: String,
    /// The first second at which it is valid.
    pub not_before: Timestamp,
    /// The last second at which it is valid.
    pub not_after: Timestamp,
}

/// Why a text holds no chain. The messages speak of "the certificate"; callers add where it is from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The text is damaged, or of another form.
    #[error("the certificate {0}")]
    NotPem(NotPem),
    /// There are blocks of other kinds only, or none.
    #[error("the certificate has no CERTIFICATE block (found: {found})")]
    NoCertificate {
        /// The labels of the blocks, or `nothing`.
        found: String,
    },
    /// A CERTIFICATE block does not hold one.
    #[error("certificate {position} of the chain is not an X.509 certificate: {why}")]
    BadCertificate {
        /// Its position in the text, from 1.
        position: usize,
        /// In the parser's words.
        why: String,
    },
}

/// The certificates of a PEM text, at least one.
///
/// # Errors
/// The text is not PEM, holds no certificate, or one that cannot be parsed.
pub fn read(text: &[u8]) -> Result<Vec<Certificate>, ChainError> {
    let blocks = pem::blocks(text).map_err(ChainError::NotPem)?;
    let found = pem::labels(&blocks);
    let is_certificate = |block: &&Block| {
        let labels = ["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"];
        labels.contains(&block.label.as_str())
    };
    let certificates = blocks.iter().filter(is_certificate).zip(1..);
    let chain = certificates.map(|(block, position)| {
        Certificate::parse(block).map_err(|why| ChainError::BadCertificate { position, why })
    });
    let chain: Vec<Certificate> = chain.collect::<Result<_, _>>()?;
    if chain.is_empty() {
        return Err(ChainError::NoCertificate { found });
    }
    Ok(chain)
}

/// Subject and end of each certificate, in order.
///
/// # Errors
/// As for [`read`].
pub fn ends(text: &[u8]) -> Result<Vec<(String, Timestamp)>, ChainError> {
    let chain = read(text)?.into_iter();
    Ok(chain.map(|one| (one.subject, one.not_after)).collect())
}

impl Certificate {
    /// True for one that is past its end; one that is not valid yet has not expired.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.not_after < now
    }

    /// Whether a caller accepts it at this time.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.not_before <= now && !self.has_expired(now)
    }

    fn parse(block: &Block) -> Result<Self, String> {
        let (rest, parsed) = X509Certificate::from_der(&block.der).map_err(|e| e.to_string())?;
        let time = |seconds| Timestamp::from_second(seconds).map_err(|e| e.to_string());
        let mut der = block.der.clone();
        if block.label == "TRUSTED CERTIFICATE" {
            der.truncate(der.len() - rest.len());
        }
        Ok(Self {
            der,
            subject: parsed.subject().to_string(),
            not_before: time(parsed.validity().not_before.timestamp())?,
            not_after: time(parsed.validity().not_after.timestamp())?,
        })
    }
}
