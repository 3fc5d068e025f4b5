//! What the content of a Secret is worth: the keys of `kubernetes.io/tls` with `ca.crt`, read and
//! judged. Pure; knows nothing of how a Secret is got.

use jiff::Timestamp;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::bundle::{self, Ca, distinct};
use super::issue::Authority;
use super::pair::{ServingPair, read_chain};
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
    match content {
        None => Held::Missing,
        Some(content) => match good_ca(content) {
            Ok(ca) => Held::Good(ca),
            Err(why) => Held::Unusable(why),
        },
    }
}

fn good_ca(content: &Content) -> Result<HeldCa, String> {
    let (cert, key) = content.pair()?;
    let read = bundle::read(cert).map_err(|error| format!("{CERT}: {error}"))?;
    let first = read.into_iter().next();
    let current = first.ok_or_else(|| format!("{CERT} cannot be read: expected a CA"))?;
    // Whether it is valid now is for the rotation to say.
    ServingPair::from_pem(cert, key, current.not_after)
        .map_err(|error| format!("{CERT}, {KEY}: {error}"))?;
    if !is_authority(cert) {
        return Err(format!(
            "{CERT} is no CA: expected a certificate that may sign others"
        ));
    }
    content.authority()?;
    Ok(HeldCa {
        current,
        bundle: content.bundle(),
    })
}

fn is_authority(cert: &[u8]) -> bool {
    let chain = read_chain(cert).unwrap_or_default();
    let parsed = chain.first().map(|der| X509Certificate::from_der(der));
    let Some(Ok((_, cert))) = parsed else {
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
    match content {
        None => Held::Missing,
        Some(content) => match good_leaf(content, names, known, now) {
            Ok(leaf) => Held::Good(leaf),
            Err(why) => Held::Unusable(why),
        },
    }
}

fn good_leaf(
    content: &Content,
    names: &[String],
    known: &[Ca],
    now: Timestamp,
) -> Result<HeldLeaf, String> {
    let (cert, key) = content.pair()?;
    let first = bundle::read(cert).map_err(|error| format!("{CERT}: {error}"))?;
    let own = first
        .first()
        .ok_or_else(|| format!("{CERT} cannot be read"))?;
    let at = now.min(own.not_after).max(own.not_before);
    let pair =
        ServingPair::from_pem(cert, key, at).map_err(|error| format!("{CERT}, {KEY}: {error}"))?;
    if let Some(name) = names.iter().find(|name| !has_name(&pair, name)) {
        return Err(format!("{CERT} does not name {name}"));
    }
    let own = content.bundle();
    let all = distinct(known.iter().chain(&own).cloned());
    let issuer = verifying(pair.chain(), &all, at).first().copied().cloned();
    let issuer = issuer.ok_or_else(|| {
        format!("{CERT} is issued by none of the CAs that are known: expected one of {CAS}")
    })?;
    Ok(HeldLeaf {
        not_before: pair.not_before(),
        not_after: pair.not_after(),
        issuer,
        bundle: own,
    })
}

fn has_name(pair: &ServingPair, wanted: &str) -> bool {
    let leaf = pair.chain().first();
    let Some(Ok((_, leaf))) = leaf.map(|der| X509Certificate::from_der(der)) else {
        return false;
    };
    let Ok(Some(names)) = leaf.subject_alternative_name() else {
        return false;
    };
    let mut names = names.value.general_names.iter();
    names
        .any(|name| matches!(name, GeneralName::DNSName(name) if name.eq_ignore_ascii_case(wanted)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::certs::issue::{Issued, Request};

    const DAY: Duration = Duration::from_secs(86_400);

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn issued(authority: &Authority) -> Issued {
        let request = Request {
            name: "meshgate",
            dns_names: &["a.test".to_owned()],
            addresses: &[],
            lifetime: DAY,
        };
        authority.issue(&request, now()).unwrap()
    }

    fn content(cert: &str, key: &str, cas: &str) -> Content {
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        Content {
            cert: bytes(cert),
            key: bytes(key),
            cas: bytes(cas),
        }
    }

    #[test]
    fn a_leaf_of_somebody_with_their_ca_beside_it_is_theirs() {
        let theirs = Authority::new("theirs", DAY * 9, now()).unwrap();
        let leaf = issued(&theirs);
        let content = content(&leaf.cert_pem, &leaf.key_pem, &theirs.cert_pem());
        let held = super::leaf(Some(&content), &["a.test".to_owned()], &[], now());
        let Held::Good(leaf) = held else {
            panic!("{held:?}");
        };
        assert_eq!(leaf.bundle, [leaf.issuer]);
    }

    #[test]
    fn an_authority_that_was_kept_issues_what_its_certificate_verifies() {
        let made = Authority::new("CA", DAY * 9, now()).unwrap();
        let content = content(&made.cert_pem(), &made.key_pem(), &made.cert_pem());
        let Held::Good(held) = ca(Some(&content)) else {
            panic!("not good");
        };
        assert_eq!(held.bundle, std::slice::from_ref(&held.current));
        let leaf = issued(&content.authority().unwrap());
        let chain = read_chain(leaf.cert_pem.as_bytes()).unwrap();
        assert_eq!(verifying(&chain, &held.bundle, now()).len(), 1);
    }

    #[test]
    fn what_is_no_ca_is_said_to_be_none() {
        let made = Authority::new("CA", DAY, now()).unwrap();
        let leaf = issued(&made);
        let why = |cert: &str, key: &str| match ca(Some(&content(cert, key, ""))) {
            Held::Unusable(why) => why,
            Held::Missing | Held::Good(_) => panic!("usable"),
        };
        let said = why(&leaf.cert_pem, &leaf.key_pem);
        assert!(said.contains("tls.crt is no CA"), "{said}");
        let said = why(&made.cert_pem(), &leaf.key_pem);
        assert!(said.contains("does not belong"), "{said}");
        assert!(why("", "x").contains("tls.crt is empty"));
        assert_eq!(ca(None), Held::Missing);
        let empty = Content::default();
        let Held::Unusable(why) = ca(Some(&empty)) else {
            panic!("usable");
        };
        assert!(why.contains("tls.crt is missing"));
    }
}
