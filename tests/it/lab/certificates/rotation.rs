//! CA and leaf are replaced under calls, and none fails.

use std::time::Duration;

use meshgate::certs::bundle;
use meshgate::certs::rotation::Lifetimes;
use serde_json::Value;
use tokio::time::Instant;

use super::calls::{Calls, service};
use super::replica::{Replica, balanced};
use super::{CA, Control, LIFETIMES, TLS, cas, key, lab, own, path_of, secret};
use crate::lab::harness::{Lab, within};
use crate::lab::registration::SECONDS;
use crate::support::figures;

/// Waits until all replicas show the leaf that the Secret holds, and it is another than before.
async fn all_show(lab: &Lab, replicas: &[Replica<'_>], before: &Value) -> Value {
    let limit = SECONDS * 2;
    within(limit, "all serve the new leaf", async || {
        let leaf = lab.get(&path_of(TLS)).await?;
        if key(&leaf, "tls.crt") == key(before, "tls.crt") {
            return None;
        }
        for replica in replicas {
            let shown = replica.shows().await?;
            let chain = bundle::read(&key(&leaf, "tls.crt")).ok()?;
            (chain[0].der == shown).then_some(())?;
        }
        Some(leaf)
    })
    .await
}

#[tokio::test]
async fn no_call_fails_while_leaf_and_ca_are_replaced() {
    let lab = lab().await;
    let replicas = [Replica::start(&lab).await, Replica::start(&lab).await];
    let (port, _way) = balanced(&replicas).await;
    service(&lab, port).await;
    // Nothing to serve with yet: not ready, and it says why.
    let said = replicas[0].readiness();
    assert!(
        said.contains("Secret meshgate-system/meshgate-tls is missing"),
        "{said}"
    );
    assert_eq!(replicas[0].shows().await, None);

    let _control = Control::start(&lab, own(LIFETIMES), port).await;
    for replica in &replicas {
        replica.is_ready().await;
    }
    lab.is_closed().await;
    let calls = Calls::new(&lab).await;
    let answered = calls
        .none_fails_while(async {
            calls.goes_on(20).await;
            let first = lab.get(&path_of(TLS)).await.unwrap();
            lab.delete(&path_of(TLS)).await;
            let second = all_show(&lab, &replicas, &first).await;
            assert_eq!(cas(&first, "ca.crt"), cas(&second, "ca.crt"));
            calls.goes_on(20).await;
            lab.delete(&path_of(CA)).await;
            let third = all_show(&lab, &replicas, &second).await;
            assert_eq!(cas(&third, "ca.crt").len(), 2);
            calls.goes_on(20).await;
        })
        .await;
    figures(&format!(
        "certificates: {answered} calls while leaf and CA were replaced, 0 failed"
    ));
}

/// A day in the life of certificates, in a minute and a half.
#[tokio::test]
async fn no_call_fails_while_they_are_renewed_by_age() {
    let lab = lab().await;
    let replicas = [Replica::start(&lab).await];
    let (port, _way) = balanced(&replicas).await;
    service(&lab, port).await;
    let lifetimes = Lifetimes {
        ca: Duration::from_secs(75),
        leaf: Duration::from_secs(45),
    };
    let _control = Control::start(&lab, own(lifetimes), port).await;
    replicas[0].is_ready().await;
    lab.is_closed().await;
    let calls = Calls::new(&lab).await;
    let begin = Instant::now();
    let answered = calls
        .none_fails_while(async {
            let first = lab.get(&path_of(TLS)).await.unwrap();
            let second = all_show(&lab, &replicas, &first).await;
            assert_eq!(cas(&first, "ca.crt"), cas(&second, "ca.crt"));
            // By another CA, with the first one beside it.
            let both = |leaf: &Value| cas(leaf, "ca.crt").len() == 2;
            secret(&lab, TLS, "the CA is renewed", both).await;
            all_show(&lab, &replicas, &second).await;
            // Until the first CA has ended, and is gone.
            let first = cas(&first, "ca.crt");
            let gone = |leaf: &Value| !cas(leaf, "ca.crt").contains(&first[0]);
            within(SECONDS * 2, "the old CA is gone", async || {
                lab.get(&path_of(TLS)).await.filter(gone)
            })
            .await;
            calls.goes_on(20).await;
        })
        .await;
    let took = begin.elapsed();
    figures(&format!(
        "certificates: {answered} calls in {took:?} of renewals, 0 failed"
    ));
}
