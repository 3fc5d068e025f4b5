//! Files beside a meshgate that registers itself: a CA that is renewed there is registered without
//! a restart, with the one before.

use std::fs;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meshgate::certs::bundle::{self, Ca};
use meshgate::certs::issue::Authority;

use super::calls::Calls;
use super::{DAY, lab, now};
use crate::lab::harness::{Lab, Meshgate, within};
use crate::lab::registration::{CONFIG, SECONDS, check, gate};
use crate::support::client::shown;

/// The CAs of every entry.
async fn registered(lab: &Lab) -> Vec<Vec<Ca>> {
    let mut all = Vec::new();
    for path in [gate(), check()] {
        let object = lab.get(&path).await.unwrap();
        let entries = object["webhooks"].as_array().unwrap().iter();
        let text = entries.map(|entry| entry["clientConfig"]["caBundle"].as_str().unwrap());
        let pem = text.map(|text| STANDARD.decode(text).unwrap());
        all.extend(pem.map(|pem| bundle::read(&pem).unwrap()));
    }
    all
}

#[tokio::test]
async fn a_ca_file_that_is_renewed_is_registered_beside_the_old_one() {
    let lab = lab().await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    let authority = Authority::new("renewed", Duration::from_secs(99 * DAY), now()).unwrap();
    let leaf = authority
        .issue(
            &[meshgate.address.ip().to_string()],
            Duration::from_secs(30 * DAY),
            now(),
        )
        .unwrap();
    let new = bundle::read(authority.cert_pem().as_bytes()).unwrap();
    let calls = Calls::new(&lab).await;
    let renewed = async {
        calls.goes_on(10).await;
        let folder = meshgate.certs();
        let before = shown(meshgate.address).await.unwrap();
        fs::write(folder.join("ca.crt"), authority.cert_pem()).unwrap();
        within(SECONDS, "both CAs are registered everywhere", async || {
            let all = registered(&lab).await;
            let has_both = |bundle: &Vec<Ca>| bundle.len() == 2 && bundle.starts_with(&new);
            all.iter().all(has_both).then_some(())
        })
        .await;
        calls.goes_on(10).await;
        fs::write(folder.join("tls.crt"), &leaf.cert_pem).unwrap();
        fs::write(folder.join("tls.key"), &leaf.key_pem).unwrap();
        within(SECONDS, "the new leaf is served", async || {
            shown(meshgate.address)
                .await
                .ok()
                .filter(|shown| *shown != before)
        })
        .await;
        calls.goes_on(10).await;
    };
    calls.none_fails_while(renewed).await;
    meshgate.uninstall().await;
}
