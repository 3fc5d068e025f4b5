use std::time::Duration;

use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};

use super::*;
use crate::certs::issue::{Authority, Issued};

const DAY: Duration = Duration::from_secs(86_400);

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn issued() -> (Authority, Issued) {
    let authority = Authority::new("test CA", DAY * 10, now()).unwrap();
    let issued = authority
        .issue(&["localhost".to_owned()], DAY, now())
        .unwrap();
    (authority, issued)
}

fn read(cert: &str, key: &str) -> Result<ServingPair, PairError> {
    ServingPair::from_pem(cert.as_bytes(), key.as_bytes(), now())
}

/// Wraps DER as PEM.
fn block(label: &str, der: &[u8]) -> String {
    use base64::Engine;
    let base64 = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
}

/// The DER inside a PEM block.
fn der(pem: &str) -> Vec<u8> {
    pem::blocks(pem.as_bytes()).unwrap().remove(0).der
}

#[test]
fn a_chain_is_kept_whole_and_in_order() {
    let (authority, issued) = issued();
    let chain = format!("{}{}", issued.cert_pem, authority.cert_pem());
    let pair = read(&chain, &issued.key_pem).unwrap();
    let sent: Vec<_> = pair.chain().iter().map(|cert| cert.to_vec()).collect();
    assert_eq!(sent, [der(&issued.cert_pem), der(&authority.cert_pem())]);
    assert_eq!(pair.leaf().subject, "CN=meshgate");
    assert_eq!(pair.leaf().not_after.to_string(), "2026-03-02T12:00:00Z");
}

#[test]
fn text_around_the_blocks_and_foreign_line_ends_are_fine() {
    let (_, issued) = issued();
    let cert = format!(
        "\u{feff}Bag Attributes\r\n    friendlyName: leaf\r\nsubject=CN = leaf\r\n{}trailing words",
        issued.cert_pem.replace('\n', "\r\n")
    );
    let key = format!("# the key\n\n{}", issued.key_pem.trim_end());
    assert!(read(&cert, &key).is_ok());
}

#[test]
fn one_combined_file_serves_as_both() {
    let (_, issued) = issued();
    let both = format!("{}{}", issued.key_pem, issued.cert_pem);
    assert!(read(&both, &both).is_ok());
}

#[test]
fn every_kind_of_key_that_tls_uses_is_read() {
    for algorithm in [&PKCS_ECDSA_P384_SHA384, &PKCS_ED25519, &PKCS_RSA_SHA256] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let cert = params.self_signed(&key).unwrap();
        let pair = read(&cert.pem(), &key.serialize_pem());
        assert!(pair.is_ok(), "{algorithm:?}: {pair:?}");
    }
}

/// As `openssl ecparam -genkey` writes it: parameters first, then SEC1.
#[test]
fn a_sec1_key_after_its_parameters_is_read() {
    let (cert, key) = openssl_ec();
    let parameters = block("EC PARAMETERS", &[6, 8, 42, 134, 72, 206, 61, 3, 1, 7]);
    let pair = read(&cert, &format!("{parameters}{key}"));
    assert!(pair.is_ok(), "{pair:?}");
}

#[test]
fn a_pkcs1_key_is_read() {
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.not_after = rcgen::date_time_ymd(2027, 1, 1);
    let cert = params.self_signed(&key).unwrap().pem();
    // PKCS#8 wraps PKCS#1: version and algorithm (22 bytes after a 4-byte head), then an octet
    // string with a 4-byte head.
    let pkcs8 = key.serialize_der();
    let pkcs1 = block("RSA PRIVATE KEY", &pkcs8[26..]);
    let pair = read(&cert, &pkcs1);
    assert!(pair.is_ok(), "{pair:?}");
}

#[test]
fn trust_data_of_openssl_is_cut_off() {
    let (_, issued) = issued();
    let mut trusted = der(&issued.cert_pem);
    let length = trusted.len();
    trusted.extend([0x30, 0x03, 0x0c, 0x01, b'x']);
    let pair = read(&block("TRUSTED CERTIFICATE", &trusted), &issued.key_pem).unwrap();
    assert_eq!(pair.chain()[0].len(), length);
}

#[test]
fn the_ca_before_the_leaf_is_refused() {
    let (authority, issued) = issued();
    let chain = format!("{}{}", authority.cert_pem(), issued.cert_pem);
    assert_eq!(
        read(&chain, &issued.key_pem).unwrap_err().to_string(),
        "the chain is in the wrong order: the key belongs to certificate 2 (CN=meshgate), which must come first, followed by its issuers"
    );
}

#[test]
fn the_key_of_another_certificate_is_refused() {
    let (_, one) = issued();
    let (_, other) = issued();
    assert_eq!(
        read(&one.cert_pem, &other.key_pem).unwrap_err(),
        PairError::OtherKey {
            subject: "CN=meshgate".to_owned()
        }
    );
}

#[test]
fn time_is_judged_by_the_clock_given() {
    let (_, issued) = issued();
    let at = |time: &str| {
        let (cert, key) = (issued.cert_pem.as_bytes(), issued.key_pem.as_bytes());
        ServingPair::from_pem(cert, key, time.parse().unwrap())
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(at("2026-03-02T12:00:00Z"), Ok(()));
    assert_eq!(
        at("2026-03-02T12:00:01Z").unwrap_err(),
        "the certificate (CN=meshgate) expired at 2026-03-02T12:00:00Z, it is now 2026-03-02T12:00:01Z; renew it"
    );
    assert_eq!(
        at("2026-03-01T10:59:59Z").unwrap_err(),
        "the certificate (CN=meshgate) is not valid before 2026-03-01T11:00:00Z, it is now 2026-03-01T10:59:59Z; check the clocks"
    );
}

#[test]
fn encrypted_keys_of_both_forms_are_refused() {
    let (_, issued) = issued();
    let pkcs8 = block("ENCRYPTED PRIVATE KEY", b"whatever");
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\naGVsbG8=\n-----END RSA PRIVATE KEY-----\n";
    for key in [pkcs8.as_str(), old] {
        let refused = read(&issued.cert_pem, key).unwrap_err();
        assert_eq!(refused, PairError::EncryptedKey);
    }
}

#[test]
fn what_is_missing_or_too_much_is_named_with_what_was_found() {
    let (_, issued) = issued();
    let swapped = read(&issued.key_pem, &issued.cert_pem).unwrap_err();
    assert_eq!(
        swapped.to_string(),
        "the certificate has no CERTIFICATE block (found: PRIVATE KEY)"
    );
    let no_key = read(&issued.cert_pem, "words").unwrap_err();
    assert!(no_key.to_string().contains("(found: nothing)"), "{no_key}");
    let two = format!("{0}{0}", issued.key_pem);
    assert_eq!(
        read(&issued.cert_pem, &two).unwrap_err(),
        PairError::SeveralKeys { count: 2 }
    );
}

#[test]
fn what_cannot_be_parsed_says_which_part() {
    let (_, issued) = issued();
    let garbage = block("CERTIFICATE", b"not a certificate");
    let position = |cert: &str| {
        let error = read(cert, &issued.key_pem).unwrap_err();
        let PairError::Chain(ChainError::BadCertificate { position, .. }) = error else {
            panic!("{error}");
        };
        position
    };
    assert_eq!(position(&garbage), 1);
    assert_eq!(position(&format!("{}{garbage}", issued.cert_pem)), 2);

    let bad_key = read(&issued.cert_pem, &block("PRIVATE KEY", b"no key")).unwrap_err();
    assert!(matches!(bad_key, PairError::BadKey { .. }), "{bad_key}");
    let dsa = read(&issued.cert_pem, &block("DSA PRIVATE KEY", b"dsa")).unwrap_err();
    assert!(dsa.to_string().contains("DSA PRIVATE KEY"), "{dsa}");

    let cut: String = issued.cert_pem.chars().take(200).collect();
    assert!(matches!(
        read(&cut, &issued.key_pem).unwrap_err(),
        PairError::Chain(ChainError::NotPem(NotPem::Unfinished { .. }))
    ));
    let binary = ServingPair::from_pem(&der(&issued.cert_pem), b"", now()).unwrap_err();
    assert_eq!(binary, PairError::Chain(ChainError::NotPem(NotPem::Binary)));
}

#[test]
fn the_key_is_not_shown() {
    let (_, issued) = issued();
    let pair = read(&issued.cert_pem, &issued.key_pem).unwrap();
    assert_eq!(
        format!("{pair:?}"),
        "ServingPair { subject: \"CN=meshgate\", not_before: 2026-03-01T11:00:00Z, not_after: 2026-03-02T12:00:00Z, .. }"
    );
}

/// A P-256 key in SEC1 form: the private key structure inside PKCS#8, with its curve added.
fn openssl_ec() -> (String, String) {
    let (_, issued) = issued();
    let pkcs8 = der(&issued.key_pem);
    // Find the 32 secret bytes: `04 20` after the inner version.
    let at = pkcs8
        .windows(5)
        .position(|window| window == [0x02, 0x01, 0x01, 0x04, 0x20])
        .unwrap();
    let secret = &pkcs8[at + 5..at + 37];
    let curve = [0xa0, 0x0a, 6, 8, 42, 134, 72, 206, 61, 3, 1, 7];
    let mut sec1 = vec![0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20];
    sec1.extend(secret);
    sec1.extend(curve);
    (issued.cert_pem, block("EC PRIVATE KEY", &sec1))
}
