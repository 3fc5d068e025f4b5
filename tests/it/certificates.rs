//! What may lie in `--certs-dir`, put there while the real program serves: every form that tools
//! write is taken, everything that cannot be served with is refused with its reason, and what was
//! served before stays. All keys are made for the moment.

use std::fs;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meshgate::certs::issue::Authority;
use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256,
    SignatureAlgorithm, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::{Instant, sleep};

use crate::support::client::shown;
use crate::support::process::{Process, authority, get, issue};
use crate::support::server::now;
use crate::support::{PATIENCE, eventually, in_time};

/// A self-signed certificate for localhost, PEM, and its key as PKCS#8.
fn self_signed(algorithm: &'static SignatureAlgorithm) -> (String, Vec<u8>) {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = date_time_ymd(2100, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_der())
}

/// PEM in lines of 64, as all tools write it.
fn pem(label: &str, der: &[u8]) -> String {
    let base64 = STANDARD.encode(der);
    let lines = base64.as_bytes().chunks(64);
    let lines: Vec<_> = lines
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

/// The key inside PKCS#8: what stands after its version, its algorithm and the octet string's head.
fn inner(pkcs8: &[u8], start: &[u8]) -> Vec<u8> {
    let at = pkcs8.windows(start.len()).rposition(|bytes| bytes == start);
    pkcs8[at.unwrap()..].to_vec()
}

/// SEC1 with the curve named in it, as `openssl ecparam -genkey` and Go write it.
fn sec1(pkcs8: &[u8], secret: usize, curve: &[u8]) -> Vec<u8> {
    let size = u8::try_from(secret).unwrap();
    let start = [2, 1, 1, 4, size];
    let at = pkcs8.windows(5).position(|bytes| bytes == start).unwrap() + 5;
    let mut content = start.to_vec();
    content.extend(&pkcs8[at..at + secret]);
    content.extend([0xa0, u8::try_from(curve.len()).unwrap()]);
    content.extend(curve);
    let mut der = vec![0x30, u8::try_from(content.len()).unwrap()];
    der.extend(content);
    der
}

const P256: [u8; 10] = [6, 8, 42, 134, 72, 206, 61, 3, 1, 7];
const P384: [u8; 7] = [6, 5, 43, 129, 4, 0, 34];

/// Name, the certificate to be served, certificate file, key file.
type Form = (&'static str, String, String, String);

fn same(name: &'static str, certificate: &str, key: String) -> Form {
    (name, certificate.to_owned(), certificate.to_owned(), key)
}

/// No two in a row have the same certificate, so that each has to be taken anew.
fn forms() -> Vec<Form> {
    let (rsa, rsa_key) = self_signed(&PKCS_RSA_SHA256);
    let (p256, p256_key) = self_signed(&PKCS_ECDSA_P256_SHA256);
    let (p384, p384_key) = self_signed(&PKCS_ECDSA_P384_SHA384);
    let (ed25519, ed25519_key) = self_signed(&PKCS_ED25519);
    let pkcs8 = |key: &[u8]| pem("PRIVATE KEY", key);
    // Version 0, three numbers follow: the modulus begins after its head of four bytes.
    let pkcs1 = pem("RSA PRIVATE KEY", &rsa_key[26..]);
    // openssl writes the first version of PKCS#8, without the public key.
    let secret = inner(&ed25519_key, &[4, 34, 4, 32]);
    let mut short = vec![48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112];
    short.extend(&secret[..36]);
    let (chain, chain_key) = {
        let (authority, other) = (authority(), issue(&authority()));
        let issued = issue(&authority);
        let chain = [issued.cert_pem, authority.cert_pem(), other.cert_pem].concat();
        (chain, issued.key_pem)
    };
    let edited = |text: &str| {
        let spaced = text.replace('\n', "  \t\r\n");
        format!("\u{feff}subject=CN = x\r\n\r\n{spaced}\r\nBag Attributes\r\n  friendlyName: x\r\n")
    };
    let combined = format!("{}{p256}", pkcs8(&p256_key));
    let parameters = pem("EC PARAMETERS", &P256);
    let p256_sec1 = pem("EC PRIVATE KEY", &sec1(&p256_key, 32, &P256));
    let p384_sec1 = pem("EC PRIVATE KEY", &sec1(&p384_key, 48, &P384));
    vec![
        same("RSA, PKCS#8", &rsa, pkcs8(&rsa_key)),
        same(
            "chain, leaf first, with more than is needed",
            &chain,
            chain_key,
        ),
        same("RSA, PKCS#1", &rsa, pkcs1.clone()),
        same("P-256, PKCS#8", &p256, pkcs8(&p256_key)),
        same("P-384, PKCS#8", &p384, pkcs8(&p384_key)),
        same(
            "P-256, SEC1 after its parameters",
            &p256,
            format!("{parameters}{p256_sec1}"),
        ),
        same(
            "Ed25519, PKCS#8 with the public key",
            &ed25519,
            pkcs8(&ed25519_key),
        ),
        same("P-384, SEC1", &p384, p384_sec1),
        same("Ed25519 of openssl", &ed25519, pkcs8(&short)),
        (
            "edited elsewhere",
            rsa.clone(),
            edited(&rsa),
            edited(&pkcs1),
        ),
        ("one file for both", p256, combined.clone(), combined),
    ]
}

/// Name, files, and what the log must say.
type Refusal = (&'static str, String, Vec<u8>, &'static str);

fn refusals() -> Vec<Refusal> {
    let (one, key) = self_signed(&PKCS_ECDSA_P256_SHA256);
    let (other, _) = self_signed(&PKCS_ECDSA_P256_SHA256);
    let key = pem("PRIVATE KEY", &key);
    let authority = authority();
    let issued = issue(&authority);
    let reversed = format!("{}{}", authority.cert_pem(), issued.cert_pem);
    let hour = Duration::from_secs(3600);
    let (expired, expired_key) = dated(-3, hour);
    let (early, early_key) = dated(3, hour);
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\naGVsbG8=\n-----END RSA PRIVATE KEY-----\n";
    let cut = one.chars().take(200).collect();
    let bytes = |text: &str| text.as_bytes().to_vec();
    vec![
        (
            "of another pair",
            other,
            bytes(&key),
            "does not belong to the certificate",
        ),
        ("CA first", reversed, bytes(&issued.key_pem), "wrong order"),
        ("expired", expired, bytes(&expired_key), "expired at"),
        (
            "not valid yet",
            early,
            bytes(&early_key),
            "is not valid before",
        ),
        (
            "encrypted",
            one.clone(),
            bytes(&pem("ENCRYPTED PRIVATE KEY", b"x")),
            "the key is encrypted; decrypt it with",
        ),
        (
            "encrypted, old form",
            one.clone(),
            bytes(old),
            "the key is encrypted",
        ),
        ("cut off", cut, bytes(&key), "does not end"),
        (
            "binary",
            one.clone(),
            vec![0x30, 0x82, 0xff, 0],
            "is binary",
        ),
        ("empty", one.clone(), Vec::new(), "the key is empty"),
        ("no key", one.clone(), bytes(&one), "no private key block"),
    ]
}

/// A pair that began so many hours from now.
fn dated(hours: i64, lifetime: Duration) -> (String, String) {
    let then = now() + jiff::SignedDuration::from_hours(hours);
    let authority = Authority::new("test CA", lifetime, then).unwrap();
    let issued = authority
        .issue(&["localhost".to_owned()], lifetime, then)
        .unwrap();
    (issued.cert_pem, issued.key_pem)
}

/// Puts both files there in one step each, the key first.
fn put(process: &Process, certificate: &str, key: &[u8]) {
    for (name, content) in [("tls.key", key), ("tls.crt", certificate.as_bytes())] {
        let new = process.certs().join("new");
        fs::write(&new, content).unwrap();
        fs::rename(&new, process.certs().join(name)).unwrap();
    }
}

/// What is shown to the next caller.
async fn served(process: &Process) -> Vec<u8> {
    in_time("a handshake", shown(process.gate)).await.unwrap()
}

#[tokio::test]
async fn every_form_that_tools_and_editors_write_is_served() {
    let process = Process::start(&[]).await;
    for (name, leaf, certificate, key) in forms() {
        put(&process, &certificate, key.as_bytes());
        let leaf = CertificateDer::from_pem_slice(leaf.as_bytes()).unwrap();
        let begin = Instant::now();
        while served(&process).await != *leaf {
            assert!(begin.elapsed() < PATIENCE, "{name}: {}", process.log());
            sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_with_the_reason_and_the_old_pair_stays() {
    let process = Process::start(&[]).await;
    let good = served(&process).await;
    let end = process.metric("meshgate_serving_cert_expiration_timestamp_seconds");
    for (name, certificate, key, reason) in refusals() {
        let (said, refused) = (process.log().len(), refusals_so_far(&process));
        put(&process, &certificate, &key);
        eventually(name, async || process.log_since(said).contains(reason)).await;
        eventually(name, async || refusals_so_far(&process) > refused).await;
        assert_eq!(served(&process).await, good, "{name}");
    }
    let said = process.log().len();
    fs::remove_file(process.certs().join("tls.key")).unwrap();
    let is_told = async || process.log_since(said).contains("cannot read");
    eventually("a file that is gone", is_told).await;
    assert_eq!(served(&process).await, good);
    assert_eq!(
        process.metric("meshgate_serving_cert_expiration_timestamp_seconds"),
        end
    );
    assert!(get(process.probes, "/readyz").ends_with("ok"));

    // Each is told once, however often the files are looked at.
    let expired = process.log().matches("expired at").count();
    assert_eq!(expired, 1, "{}", process.log());
}

fn refusals_so_far(process: &Process) -> u64 {
    process.metric("meshgate_certificate_refusals_total")
}
