use std::time::Duration;

use super::*;
use crate::certs::issue::Issued;

const DAY: Duration = Duration::from_secs(86_400);

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn issued(authority: &Authority) -> Issued {
    authority.issue(&["a.test".to_owned()], DAY, now()).unwrap()
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
fn a_leaf_of_another_maker_with_its_ca_beside_it_is_theirs() {
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
    let leaf = ServingPair::from_pem(leaf.cert_pem.as_bytes(), leaf.key_pem.as_bytes(), now());
    assert_eq!(
        verifying(leaf.unwrap().chain(), &held.bundle, now()).len(),
        1
    );
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
