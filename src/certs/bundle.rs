//! A bundle of CAs, as in `ca.crt` or `caBundle`: reading it, writing it, and which of its CAs verify
//! a serving certificate. Pure.
//!
//! Owns the answer to "would a caller that trusts this accept that", as Go's `crypto/x509` answers
//! it for an API server: by any CA of the bundle that is valid now.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::pair::{PairError, read_chain};

/// One CA that is trusted: its certificate, and when it is valid. Equal if the certificates are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ca {
    der: Vec<u8>,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl Ca {
    /// A certificate that is trusted as it is.
    pub fn new(der: Vec<u8>, not_before: Timestamp, not_after: Timestamp) -> Self {
        Self {
            der,
            not_before,
            not_after,
        }
    }

    /// From when it is valid.
    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// Until when it is valid.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Whether it is valid at a time, or will be.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.not_after < now
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    fn read(der: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let time = |seconds| Timestamp::from_second(seconds).ok();
        Some(Self {
            der: der.to_vec(),
            not_before: time(parsed.validity().not_before.timestamp())?,
            not_after: time(parsed.validity().not_after.timestamp())?,
        })
    }
}

impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ca")
            .field("bytes", &self.der.len())
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .finish()
    }
}

/// The CAs of a PEM text, in order, each once.
///
/// # Errors
/// It is no PEM, or holds no certificate, or one that cannot be parsed.
pub fn read(pem: &[u8]) -> Result<Vec<Ca>, PairError> {
    Ok(distinct(read_chain(pem)?.iter().filter_map(Ca::read)))
}

/// These CAs in order, each once.
pub fn distinct(cas: impl IntoIterator<Item = Ca>) -> Vec<Ca> {
    let mut all: Vec<Ca> = Vec::new();
    for ca in cas {
        if !all.contains(&ca) {
            all.push(ca);
        }
    }
    all
}

/// The PEM text of these CAs.
pub fn pem(cas: &[Ca]) -> String {
    let mut text = String::new();
    for ca in cas {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(&ca.der);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(64));
            text.push_str(line);
            text.push('\n');
            rest = after;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// The CAs of a bundle by which a chain (leaf first) is verified at this time, for a server. Names
/// are not looked at.
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
    // A certificate that signs itself is its own CA, to Go; the library knows no such thing.
    if leaf.as_ref() == ca.der.as_slice() {
        return Ca::read(leaf).is_some_and(|leaf| leaf.is_valid(now));
    }
    let mut roots = RootCertStore::empty();
    let seconds = u64::try_from(now.as_second()).unwrap_or(0);
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
    let added = roots.add(CertificateDer::from(ca.der.as_slice()).into_owned());
    let parsed = ParsedCertificate::try_from(leaf);
    added.is_ok()
        && parsed.is_ok_and(|leaf| {
            verify_server_cert_signed_by_trust_anchor(
                &leaf,
                &roots,
                intermediates,
                now,
                algorithms.all,
            )
            .is_ok()
        })
}

/// Most CAs in a bundle. Only rotations that are forced over and over come near it; the oldest then goes.
pub const MOST: usize = 16;

/// Whether whoever trusts `live` loses nothing when it is replaced by `wanted`: all that `live` holds
/// and that has not expired is in `wanted` as well, or has fallen out at the end of one that is full. Texts
/// that cannot be read hold nothing.
pub fn covers(wanted: &str, live: &str, now: Timestamp) -> bool {
    let of = |text: &str| read(text.as_bytes()).unwrap_or_default();
    let wanted = of(wanted);
    let live = of(live).into_iter().filter(|ca| !ca.has_expired(now));
    // To wait with a full one until it is proved would be to wait for the leaf that waits for it.
    let mut rest = live.skip_while(|ca| wanted.contains(ca)).peekable();
    let is_all_there = rest.peek().is_none();
    let has_fallen_out = wanted.len() >= MOST && rest.all(|ca| !wanted.contains(&ca));
    !wanted.is_empty() && (is_all_there || has_fallen_out)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::certs::issue::{Authority, Issued, Request};

    const DAY: Duration = Duration::from_secs(86_400);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn now() -> Timestamp {
        at("2026-03-01T12:00:00Z")
    }

    fn issue(authority: &Authority) -> Issued {
        let request = Request {
            name: "meshgate",
            dns_names: &["a.test".to_owned()],
            addresses: &[],
            lifetime: DAY,
        };
        authority.issue(&request, now()).unwrap()
    }

    #[test]
    fn only_the_cas_that_signed_it_and_are_valid_verify_a_leaf() {
        // The same name twice: it is the key that counts.
        let [one, other] = [1, 2].map(|_| Authority::new("CA", DAY * 2, now()).unwrap());
        let chain = read_chain(issue(&one).cert_pem.as_bytes()).unwrap();
        let text = one.cert_pem() + &other.cert_pem() + &one.cert_pem();
        let bundle = read(text.as_bytes()).unwrap();
        assert_eq!(bundle.len(), 2);
        assert_eq!(verifying(&chain, &bundle, now()), [&bundle[0]]);
        assert!(verifying(&chain, &bundle[1..], now()).is_empty());
        for never in ["2026-03-02T13:00:00Z", "2026-02-28T00:00:00Z"] {
            assert!(verifying(&chain, &bundle, at(never)).is_empty());
        }
        // An authority's own certificate is its own CA, as somebody's self-signed one is.
        let own = read_chain(one.cert_pem().as_bytes()).unwrap();
        assert_eq!(verifying(&own, &bundle, now()), [&bundle[0]]);
    }

    #[test]
    fn a_bundle_is_written_as_it_is_read() {
        let authority = Authority::new("CA", DAY, now()).unwrap();
        let bundle = read(authority.cert_pem().as_bytes()).unwrap();
        assert_eq!(read(pem(&bundle).as_bytes()).unwrap(), bundle);
        assert_eq!(bundle[0].not_before(), at("2026-03-01T11:00:00Z"));
        assert_eq!(bundle[0].not_after(), at("2026-03-02T12:00:00Z"));
        assert!(read(b"").is_err() && read(b"words").is_err());
    }

    #[test]
    fn a_wider_bundle_covers_and_what_has_expired_is_not_missed() {
        let [one, other] = [1, 2].map(|days| {
            let made = Authority::new("CA", DAY * days, now()).unwrap();
            made.cert_pem()
        });
        let both = format!("{other}{one}");
        let later = at("2026-03-03T00:00:00Z");
        assert!(covers(&both, &one, now()) && covers(&both, &both, now()));
        assert!(!covers(&other, &both, now()) && covers(&other, &both, later));
        assert!(covers(&one, "", now()) && covers(&one, "words", now()));
        assert!(!covers("", "", now()) && !covers("", &one, now()));
    }
    #[test]
    fn only_the_end_of_a_full_bundle_may_fall_out() {
        let made: Vec<String> = (0..=MOST)
            .map(|_| Authority::new("CA", DAY, now()).unwrap().cert_pem())
            .collect();
        let (newest, live) = made.split_first().unwrap();
        let first = |count: usize| format!("{newest}{}", live[..count].concat());
        // One in, one out: as a rotation has it that is forced once more.
        assert!(covers(&first(MOST - 1), &live.concat(), now()));
        // One that is not full has no reason to lose any.
        assert!(!covers(&first(MOST - 2), &live.concat(), now()));
        let turned: String = live.iter().rev().map(String::as_str).collect();
        assert!(!covers(&first(MOST - 1), &turned, now()));
    }
}
