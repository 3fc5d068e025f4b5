//! Every replica follows the Secret by itself, with or without a leader (case 54), and what is
//! broken changes nothing of what is served (case 52).

use serde_json::{Value, json};

use super::replica::Replica;
use super::{Control, LIFETIMES, TLS, cas, key, lab, own, path_of, secret};
use crate::lab::harness::within;
use crate::lab::registration::SECONDS;

#[tokio::test]
async fn replicas_reload_without_control_and_keep_the_last_good_pair() {
    let lab = lab().await;
    let control = Control::new(&lab, own(LIFETIMES)).await;
    let made = async || {
        let is_whole = |leaf: &Value| !cas(leaf, "ca.crt").is_empty();
        secret(&lab, TLS, "a leaf is made", is_whole).await
    };
    let first = Box::pin(control.keeps(made())).await;
    lab.delete(&path_of(TLS)).await;
    let second = Box::pin(control.keeps(made())).await;
    assert_ne!(key(&first, "tls.crt"), key(&second, "tls.crt"));

    // From here on no control runs.
    let replicas = [Replica::start(&lab).await, Replica::start(&lab).await];
    for replica in &replicas {
        replica.is_ready().await;
    }
    let before = replicas[0].shows().await.unwrap();
    let patch = json!({"data": first["data"]});
    lab.merge(&path_of(TLS), &patch).await.unwrap();
    for replica in &replicas {
        within(SECONDS, "the other leaf is served", async || {
            replica.shows().await.filter(|shown| *shown != before)
        })
        .await;
    }
    let served = replicas[0].shows().await;

    // The key of one generation with the certificate of the other.
    let half = json!({"data": {"tls.key": second["data"]["tls.key"]}});
    lab.merge(&path_of(TLS), &half).await.unwrap();
    let refused = "meshgate_certificate_refusals_total";
    for replica in &replicas {
        within(SECONDS, "it is refused", async || {
            (replica.metric(refused) == 1).then_some(())
        })
        .await;
        assert_eq!(replica.shows().await, served);
        let said = replica.readiness();
        assert!(
            said.contains("cannot be served with") && said.contains("check passed"),
            "{said}"
        );
    }
    lab.delete(&path_of(TLS)).await;
    for replica in &replicas {
        within(SECONDS, "it is missed", async || {
            replica.readiness().contains("is missing").then_some(())
        })
        .await;
        assert_eq!(replica.shows().await, served);
        assert_eq!(replica.metric(refused), 1);
        let lines = replica
            .log()
            .matches("the last good pair stays in use")
            .count();
        assert_eq!(lines, 1, "{}", replica.log());
    }
}
