//! Whatever becomes of the Secrets is put right, and nothing that callers may still need is
//! forgotten.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use meshgate::certs::issue::{Authority, Issued};
use meshgate::certs::pair::ServingPair;
use meshgate::controllers::certificates::args::names;
use serde_json::{Value, json};

use super::{
    CA, Control, DAY, HOME, LIFETIMES, TLS, cas, data, key, lab, now, own, path_of, secret,
};
use crate::lab::harness::{Lab, within};
use crate::lab::registration::SECONDS;

fn issued(authority: &Authority, names: &[String], at: Timestamp) -> Issued {
    authority
        .issue(names, Duration::from_secs(30 * DAY), at)
        .unwrap()
}

/// Ways to damage the Secret of the leaf: what is merged into it.
fn damages(leaf: &Value) -> Vec<(&'static str, Value)> {
    let text = |name: &str| String::from_utf8(key(leaf, name)).unwrap();
    let (cert, own_key, ca) = (text("tls.crt"), text("tls.key"), text("ca.crt"));
    let theirs = Authority::new("theirs", Duration::from_secs(99 * DAY), now()).unwrap();
    let whole = names(HOME, "meshgate");
    let foreign = issued(&theirs, &whole, now());
    let unnamed = issued(&theirs, &["else.test".to_owned()], now());
    let ended = issued(&theirs, &whole, now() - SignedDuration::from_hours(24 * 31));
    let their_ca = theirs.cert_pem();
    vec![
        ("an empty key", data(&cert, "", Some(&ca))),
        ("no certificate", data("words", &own_key, Some(&ca))),
        (
            "a certificate that is cut off",
            data(cert.get(..200).unwrap(), &own_key, Some(&ca)),
        ),
        ("another's key", data(&cert, &foreign.key_pem, Some(&ca))),
        (
            "of an unknown CA",
            data(&foreign.cert_pem, &foreign.key_pem, Some(&ca)),
        ),
        (
            "other names",
            data(&unnamed.cert_pem, &unnamed.key_pem, Some(&their_ca)),
        ),
        (
            "expired",
            data(&ended.cert_pem, &ended.key_pem, Some(&their_ca)),
        ),
        (
            "another CA's, and that CA beside it",
            data(&foreign.cert_pem, &foreign.key_pem, Some(&their_ca)),
        ),
        (
            "no CAs",
            json!({"tls.crt": leaf["data"]["tls.crt"], "tls.key": leaf["data"]["tls.key"], "ca.crt": null}),
        ),
    ]
}

/// Whether a leaf is one of the CA that its Secret names first, and good to serve with.
fn is_good(ca: &Value, leaf: &Value) -> bool {
    let pair = ServingPair::from_pem(&key(leaf, "tls.crt"), &key(leaf, "tls.key"), now());
    let bundle = cas(leaf, "ca.crt");
    let first = bundle.get(..1).unwrap_or_default();
    cas(ca, "tls.crt") == first
        && cas(ca, "ca.crt") == bundle
        && pair.is_ok_and(|pair| {
            !meshgate::certs::verify::verifying(pair.chain(), first, now()).is_empty()
        })
}

async fn both_good(lab: &Lab, what: &str) -> (Value, Value) {
    within(SECONDS, what, async || {
        let ca = lab.get(&path_of(CA)).await?;
        let leaf = lab.get(&path_of(TLS)).await?;
        is_good(&ca, &leaf).then_some((ca, leaf))
    })
    .await
}

#[tokio::test]
async fn whatever_is_damaged_is_written_anew() {
    let lab = lab().await;
    let control = Control::new(&lab, own(LIFETIMES)).await;
    let check = async {
        let (ca, leaf) = both_good(&lab, "both are made").await;
        for (what, data) in damages(&leaf) {
            let patch = json!({"data": data});
            lab.merge(&path_of(TLS), &patch).await.unwrap();
            both_good(&lab, what).await;
        }
        let (_, leaf) = both_good(&lab, "both are good").await;
        // Another party's Secret of that name, which is immutable.
        lab.delete(&path_of(TLS)).await;
        let theirs = json!({"metadata": {"name": TLS}, "immutable": true, "data": {"a": "YQ=="}});
        let secrets = format!("/api/v1/namespaces/{HOME}/secrets");
        drop(lab.create(&secrets, &theirs).await);
        both_good(&lab, "another party's is replaced").await;

        // The CA: the one that callers trust stays trusted, in whichever way it is lost.
        let before = cas(&leaf, "ca.crt")[0].clone();
        assert_eq!(cas(&ca, "tls.crt")[0], before);
        let swapped = json!({"data": {"tls.key": leaf["data"]["tls.key"]}});
        lab.merge(&path_of(CA), &swapped).await.unwrap();
        let is_another = |new: &Value| cas(new, "tls.crt")[0] != before;
        let ca = secret(&lab, CA, "a CA with another's key", is_another).await;
        assert!(cas(&ca, "ca.crt").contains(&before));
        both_good(&lab, "and a leaf of it").await;
        lab.delete(&path_of(CA)).await;
        let made = cas(&ca, "ca.crt").len();
        let is_new = |new: &Value| cas(new, "ca.crt").len() == made + 1;
        let ca = secret(&lab, CA, "a CA that was deleted", is_new).await;
        assert!(cas(&ca, "ca.crt").contains(&before));
    };
    Box::pin(control.keeps(check)).await;
    let metrics = control.metrics.encode();
    let repairs = metrics
        .lines()
        .find_map(|line| line.strip_prefix("meshgate_certificate_repairs_total "));
    assert!(repairs.unwrap().parse::<u64>().unwrap() >= 11, "{metrics}");
    assert!(
        metrics.contains("meshgate_certificate_expiration_timestamp_seconds{certificate=\"ca\"}")
    );
}
