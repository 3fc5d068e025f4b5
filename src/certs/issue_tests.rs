use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::*;
use crate::certs::pair::ServingPair;

#[test]
fn a_leaf_has_the_names_given_and_begins_an_hour_ago() {
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let day = Duration::from_secs(86_400);
    let authority = Authority::new("test CA", day * 10, now).unwrap();
    let names = ["meshgate.mesh.svc", "127.0.0.1", "::1"].map(str::to_owned);
    let issued = authority.issue(&names, day, now).unwrap();
    let pair =
        ServingPair::from_pem(issued.cert_pem.as_bytes(), issued.key_pem.as_bytes(), now).unwrap();
    assert_eq!(pair.leaf().not_before.to_string(), "2026-03-01T11:00:00Z");
    assert_eq!(pair.leaf().not_after.to_string(), "2026-03-02T12:00:00Z");
    assert_eq!(pair.leaf().subject, "CN=meshgate");

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
