//! The first process makes them; all others take what is there (case 53).

use std::sync::Arc;

use futures::future::{join_all, select};
use meshgate::certs::bundle;
use meshgate::controllers::certificates;
use meshgate::controllers::trust::Trust;
use tokio_util::sync::CancellationToken;

use super::{CA, Control, LIFETIMES, TLS, cas, lab, own, path_of};
use crate::lab::harness::within;
use crate::lab::registration::{SECONDS, version};

#[tokio::test]
async fn ten_that_start_at_once_agree_on_one_ca_and_one_leaf() {
    let lab = lab().await;
    let mut controls = Vec::new();
    for _ in 0..10 {
        controls.push(Control::new(&lab, own(LIFETIMES)).await);
    }
    let run = |control: &Control| {
        certificates::run(Arc::clone(&control.context), CancellationToken::new())
    };
    let all = join_all(controls.iter().map(run));
    let agreed = within(SECONDS, "all of them trust the same", async || {
        let leaf = lab.get(&path_of(TLS)).await?;
        let said = controls
            .iter()
            .map(|control| control.context.trust().borrow().clone());
        let said: Option<Vec<Trust>> = said.collect();
        let said = said?;
        let first = said.first()?.clone();
        said.iter()
            .all(|one| *one == first)
            .then_some((first, leaf))
    });
    let (trust, leaf) = match select(Box::pin(agreed), Box::pin(all)).await {
        futures::future::Either::Left((found, _)) => found,
        futures::future::Either::Right(_) => panic!("they ended"),
    };
    let ca = lab.get(&path_of(CA)).await.unwrap();
    let made = cas(&ca, "tls.crt");
    assert_eq!(trust, Trust::Bundle(bundle::pem(&made)));
    assert_eq!(cas(&ca, "ca.crt"), made);
    assert_eq!(cas(&leaf, "ca.crt"), made);
    assert_eq!(leaf["type"], "kubernetes.io/tls");
    let labels = &leaf["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/managed-by"], "meshgate");
    // Each was written once: the version is that of its creation.
    for secret in [ca, leaf] {
        let writers = secret["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(writers.len(), 1, "{writers:?}");
        assert!(version(&secret) > 0);
    }
}
