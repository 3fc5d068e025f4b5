//! A server with all presets and the example cluster, for targets that ask it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use meshgate::admission::Admission;
use meshgate::cluster::Cluster;
use meshgate::cluster::manifest::{self, Item};
use meshgate::cluster::namespace_lookup::NamespaceLookup;
use meshgate::cluster::store::Store;
use meshgate::metrics::Metrics;
use meshgate_core::injector::Injectors;

/// The namespace of the real review among the samples.
const PEERS: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: peers, annotations: {linkerd.io/inject: enabled}}\n";

const FILES: [&str; 7] = [
    PEERS,
    include_str!("../../examples/cluster/namespaces.yaml"),
    include_str!("../../examples/cluster/nodes.yaml"),
    include_str!("../../examples/cluster/services.yaml"),
    include_str!("../../examples/cluster/linkerd.yaml"),
    include_str!("../../examples/cluster/istio.yaml"),
    include_str!("../../examples/cluster/vault.yaml"),
];

/// A server that answers from the example cluster.
pub fn admission() -> Admission {
    let injectors = Injectors::all_presets().expect("the presets parse");
    let mut store = Store::new(Arc::new(injectors));
    for file in FILES {
        for item in manifest::items("example.yaml", file.as_bytes()).expect("the examples parse") {
            if let Item::Object(object) = item {
                store.apply(object);
            }
        }
    }
    store.settle();
    let cluster = Cluster::new(store);
    cluster.mark_synced();
    let live = NamespaceLookup::new(
        Arc::new(|_| async { Ok(None) }.boxed()),
        Duration::from_secs(1),
    );
    Admission::new(Arc::new(cluster), live, Arc::new(Metrics::default()))
}
