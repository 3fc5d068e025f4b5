//! Certificates that another party makes, CA and leaf in one write.

use std::time::Duration;

use meshgate::certs::issue::Authority;
use meshgate::controllers::certificates::Source;
use meshgate::controllers::certificates::args::names;
use serde_json::{Value, json};

use super::calls::{Calls, service};
use super::replica::{Replica, balanced};
use super::{Control, DAY, HOME, TLS, data, lab, now, path_of};
use crate::lab::harness::{Lab, within};
use crate::lab::registration::SECONDS;

/// What cert-manager would write.
fn made() -> Value {
    let authority = Authority::new("theirs", Duration::from_secs(99 * DAY), now()).unwrap();
    let leaf = authority
        .issue(
            &names(HOME, "meshgate"),
            Duration::from_secs(30 * DAY),
            now(),
        )
        .unwrap();
    data(&leaf.cert_pem, &leaf.key_pem, Some(&authority.cert_pem()))
}

async fn writes(lab: &Lab, data: &Value) {
    let secret = json!({"metadata": {"name": TLS}, "type": "kubernetes.io/tls", "data": data});
    let secrets = format!("/api/v1/namespaces/{HOME}/secrets");
    lab.create(&secrets, &secret).await.unwrap();
}

async fn shows_another(replica: &Replica<'_>, before: &[u8]) -> Vec<u8> {
    within(SECONDS, "the new leaf is served", async || {
        replica.shows().await.filter(|shown| shown != before)
    })
    .await
}

#[tokio::test]
async fn no_call_fails_while_ca_and_leaf_are_replaced_in_one_write() {
    let lab = lab().await;
    let replicas = [Replica::start(&lab).await, Replica::start(&lab).await];
    let (port, _way) = balanced(&replicas).await;
    service(&lab, port).await;
    writes(&lab, &made()).await;
    let source = Source::Secret(TLS.to_owned());
    let _control = Control::start(&lab, source, port).await;
    for replica in &replicas {
        replica.is_ready().await;
    }
    lab.is_closed().await;
    let calls = Calls::new(&lab).await;
    calls
        .none_fails_while(async {
            for _ in 0..2 {
                calls.goes_on(10).await;
                let before = replicas[0].shows().await.unwrap();
                let patch = json!({"data": made()});
                lab.merge(&path_of(TLS), &patch).await.unwrap();
                for replica in &replicas {
                    shows_another(replica, &before).await;
                }
                calls.goes_on(10).await;
            }
        })
        .await;
    // Never written by us.
    let secret = lab.get(&path_of(TLS)).await.unwrap();
    let fields = secret["metadata"]["managedFields"].to_string();
    assert!(!fields.contains("\"meshgate\""), "{fields}");
}
