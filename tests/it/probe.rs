//! Injectors that are probed: behind a URL or an ExternalName, which have no slices (case 48).

use std::sync::Arc;

use meshgate::cluster::object::Object;
use meshgate::cluster::store::Store;
use meshgate::cluster::{Cluster, probe};
use meshgate_core::injector::Injectors;
use meshgate_core::readiness::{Looked, Readiness};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::hooks::objects;
use crate::support::{eventually, in_time};

fn linkerd(fields: &str) -> Arc<Injectors> {
    let text = format!(
        "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n- {{preset: linkerd{fields}}}\n"
    );
    Arc::new(Injectors::from_yaml("test", text.as_bytes()).unwrap())
}

/// Linkerd's webhook, called by this URL.
fn by_url(url: &str) -> Object {
    objects::object(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "linkerd"},
        "webhooks": [{"name": "linkerd-proxy-injector.linkerd.io", "clientConfig": {"url": url}}],
    }))
}

/// What is wrong with the target; `None` if nothing is.
fn problem(cluster: &Cluster) -> Option<String> {
    let store = cluster.read();
    let readiness = store.readiness(0, None);
    let (Readiness::Usable(looked) | Readiness::NotUsable(looked)) = &readiness else {
        panic!("{readiness:?}");
    };
    let Looked::Probe { problem, .. } = looked else {
        panic!("{looked:?}");
    };
    let is_usable = matches!(readiness, Readiness::Usable(_));
    assert_eq!(is_usable, problem.is_none());
    problem.map(str::to_owned)
}

#[tokio::test]
async fn a_target_is_usable_while_a_server_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/inject?x=y", listener.local_addr().unwrap());
    let probed = linkerd(", readiness: probe");
    let cluster = Arc::new(Cluster::new(Store::with(probed, [by_url(&url)])));
    assert_eq!(problem(&cluster).as_deref(), Some("it was not tried yet"));
    let stop = CancellationToken::new();
    let mut rounds = JoinSet::new();
    rounds.spawn(probe::run(Arc::clone(&cluster), stop.clone()));
    eventually("usable", async || problem(&cluster).is_none()).await;
    drop(listener);
    eventually("refused", async || {
        problem(&cluster).is_some_and(|problem| problem.contains("refused"))
    })
    .await;
    stop.cancel();
    in_time("the end", rounds.join_all()).await;
}

#[test]
fn what_a_probe_found_stays_while_the_target_is_probed_and_no_longer() {
    let url = "https://mesh.example.test";
    let state = |fields: &str| Store::with(linkerd(fields), [by_url(url)]);
    let cluster = Cluster::new(state(", readiness: probe"));
    cluster.update(|store| store.probed("mesh.example.test:443", Ok(())));
    cluster.replace(state(", readiness: probe, mode: warn"));
    assert_eq!(problem(&cluster), None);
    cluster.replace(state(""));
    cluster.replace(state(", readiness: probe"));
    assert_eq!(problem(&cluster).as_deref(), Some("it was not tried yet"));
}
