//! Of what is issued here: verifying, and what the bundle of the core crate makes of it.

use super::*;
use crate::certs::bundle::{MOST, covers, pem, read};
use crate::certs::issue::{Authority, Issued};

const DAY: Duration = Duration::from_secs(86_400);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-03-01T12:00:00Z")
}

fn issue(authority: &Authority) -> Issued {
    authority.issue(&["a.test".to_owned()], DAY, now()).unwrap()
}

fn chain_of(pem: &str) -> Vec<CertificateDer<'static>> {
    let chain = read(pem.as_bytes()).unwrap();
    let der = |one: &Ca| CertificateDer::from(one.der.clone());
    chain.iter().map(der).collect()
}

#[test]
fn only_the_cas_that_signed_it_and_are_valid_verify_a_leaf() {
    // The same name twice: it is the key that counts.
    let [one, other] = [1, 2].map(|_| Authority::new("CA", DAY * 2, now()).unwrap());
    let chain = chain_of(&issue(&one).cert_pem);
    let text = one.cert_pem() + &other.cert_pem() + &one.cert_pem();
    let bundle = read(text.as_bytes()).unwrap();
    assert_eq!(bundle.len(), 2);
    assert_eq!(verifying(&chain, &bundle, now()), [&bundle[0]]);
    assert!(verifying(&chain, &bundle[1..], now()).is_empty());
    for never in ["2026-03-02T13:00:00Z", "2026-02-28T00:00:00Z"] {
        assert!(verifying(&chain, &bundle, at(never)).is_empty());
    }
    // A self-signed certificate is its own CA.
    let own = chain_of(&one.cert_pem());
    assert_eq!(verifying(&own, &bundle, now()), [&bundle[0]]);
}

#[test]
fn a_bundle_is_written_as_it_is_read() {
    let authority = Authority::new("CA", DAY, now()).unwrap();
    let bundle = read(authority.cert_pem().as_bytes()).unwrap();
    assert_eq!(read(pem(&bundle).as_bytes()).unwrap(), bundle);
    assert_eq!(bundle[0].not_before, at("2026-03-01T11:00:00Z"));
    assert_eq!(bundle[0].not_after, at("2026-03-02T12:00:00Z"));
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
