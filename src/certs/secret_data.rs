//! What the content of a Secret is worth: the keys of `kubernetes.io/tls` with `ca.crt`, read and
//! judged. Pure; knows nothing of how a Secret is got.

use jiff::Timestamp;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::bundle::{self, Ca, distinct};
use super::issue::Authority;
use super::pair::{PairError, ServingPair};
use super::rotation::{Held, HeldCa, HeldLeaf};
use super::verify::verifying;

/// Key of a certificate.
pub const CERT: &str = "tls.crt";
/// Key of its private key.
pub const KEY: &str = "tls.key";
/// Key of the bundle of CAs.
pub const CAS: &str = "ca.crt";

/// The content of a Secret: its three keys, as far as they are there.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// `tls.crt`.
    pub cert: Option<Vec<u8>>,
    /// `tls.key`.
    pub key: Option<Vec<u8>>,
    /// `ca.crt`.
    pub cas: Option<Vec<u8>>,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}

impl Content {
    /// Certificate and key.
    ///
    /// # Errors
    /// Which is missing, or empty.
    pub fn pair(&self) -> Result<(&[u8], &[u8]), String> {
        Ok((
            there(CERT, self.cert.as_deref())?,
            there(KEY, self.key.as_deref())?,
        ))
    }

    /// The CAs of `ca.crt`; none where it is missing or cannot be read.
    pub fn bundle(&self) -> Vec<Ca> {
        let text = self.cas.as_deref().unwrap_or_default();
        bundle::read(text).unwrap_or_default()
    }

    /// The authority that certificate and key make.
    ///
    /// # Errors
    /// Which key is of no use, and what was expected there.
    pub fn authority(&self) -> Result<Authority, String> {
        let (cert, key) = self.pair()?;
        let texts = (std::str::from_utf8(cert), std::str::from_utf8(key));
        let (Ok(cert), Ok(key)) = texts else {
            return Err(format!("{CERT} or {KEY} is not text: expected PEM"));
        };
        let bad = |error: super::issue::IssueError| {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            format!(
                "{CERT} and {KEY} cannot be issued with: {}; expected a CA and its key (ECDSA P-256)",
                why.unwrap_or_default()
            )
        };
        Authority::load(cert, key).map_err(bad)
    }
}

fn there<'v>(key: &str, value: Option<&'v [u8]>) -> Result<&'v [u8], String> {
    match value {
        Some(value) if !value.is_empty() => Ok(value),
        Some(_) => Err(format!("{key} is empty: expected PEM")),
        None => Err(format!("{key} is missing: expected PEM")),
    }
}

/// What the CA's Secret holds.
pub fn ca(content: Option<&Content>) -> Held<HeldCa> {
    held(content.map(good_ca))
}

fn held<T>(read: Option<Result<T, String>>) -> Held<T> {
    match read {
        None => Held::Missing,
        Some(Ok(good)) => Held::Good(good),
        Some(Err(why)) => Held::Unusable(why),
    }
}

fn good_ca(content: &Content) -> Result<HeldCa, String> {
    let pair = pair(content)?;
    if !is_authority(&pair) {
        return Err(format!(
            "{CERT} is no CA: expected a certificate that may sign others"
        ));
    }
    content.authority()?;
    Ok(HeldCa {
        current: pair.leaf().clone(),
        bundle: content.bundle(),
    })
}

/// Certificate and key as a pair. Whether it is valid now is for the rotation to say.
fn pair(content: &Content) -> Result<ServingPair, String> {
    let (cert, key) = content.pair()?;
    ServingPair::at_any_time(cert, key).map_err(|error| {
        if matches!(error, PairError::Chain(_)) {
            format!("{CERT}: {error}")
        } else {
            format!("{CERT}, {KEY}: {error}")
        }
    })
}

fn is_authority(pair: &ServingPair) -> bool {
    let Ok((_, cert)) = X509Certificate::from_der(&pair.leaf().der) else {
        return false;
    };
    let may_sign = match cert.key_usage() {
        Ok(Some(usage)) => usage.value.key_cert_sign(),
        Ok(None) => true,
        Err(_) => false,
    };
    cert.is_ca() && may_sign
}

/// What the leaf's Secret holds. It must name `names`, and be issued by one of `known`, or of its
/// own `ca.crt`.
pub fn leaf(
    content: Option<&Content>,
    names: &[String],
    known: &[Ca],
    now: Timestamp,
) -> Held<HeldLeaf> {
    held(content.map(|content| good_leaf(content, names, known, now)))
}

fn good_leaf(
    content: &Content,
    names: &[String],
    known: &[Ca],
    now: Timestamp,
) -> Result<HeldLeaf, String> {
    let pair = pair(content)?;
    let leaf = pair.leaf();
    let at = now.min(leaf.not_after).max(leaf.not_before);
    if let Some(name) = names.iter().find(|name| !pair.is_for(name)) {
        return Err(format!("{CERT} does not name {name}"));
    }
    let own = content.bundle();
    let all = distinct(known.iter().chain(&own).cloned());
    let issuer = verifying(pair.chain(), &all, at).first().copied().cloned();
    let issuer = issuer.ok_or_else(|| {
        format!("{CERT} is issued by none of the CAs that are known: expected one of {CAS}")
    })?;
    Ok(HeldLeaf {
        not_before: leaf.not_before,
        not_after: leaf.not_after,
        issuer,
        bundle: own,
    })
}

#[cfg(test)]
#[path = "secret_data_tests.rs"]
mod tests;
