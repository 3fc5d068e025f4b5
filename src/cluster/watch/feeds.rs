//! Which watches run: one of each kind that is read as a whole, and two of each Service that an injector may be
//! behind. If the set of Services changes, the watches of the others go on.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use meshgate_core::injector::profile::ServiceName;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::cluster::object::{Kind, Watched};

use super::Feed;

/// Follows all that decisions read, until `stop`.
pub async fn run(client: Client, cluster: Arc<Cluster>, stop: CancellationToken) {
    let both = async { tokio::join!(count(&cluster), follow(&client, &cluster)) };
    stop.run_until_cancelled(both).await;
}

/// Counts endpoints when they or nodes have changed, away from the threads that answer.
pub(super) async fn count(cluster: &Arc<Cluster>) {
    let mut changes = cluster.changes();
    loop {
        let own = Arc::clone(cluster);
        let counted = tokio::task::spawn_blocking(move || own.settle()).await;
        if let Err(ended) = counted
            && let Ok(panic) = ended.try_into_panic()
        {
            resume_unwind(panic);
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn follow(client: &Client, cluster: &Arc<Cluster>) {
    let mut feeds = FuturesUnordered::new();
    let feed = |watched: Watched, stop| {
        let feed = Feed::new(client, Arc::clone(cluster), watched);
        Box::pin(feed.run(stop))
    };
    for kind in [Kind::Namespace, Kind::Node, Kind::Webhooks] {
        feeds.push(feed(kind.into(), CancellationToken::new()));
    }
    let mut named = BTreeMap::<ServiceName, CancellationToken>::new();
    let mut changes = cluster.changes();
    loop {
        let wanted = cluster.read().wanted();
        named.retain(|service, stop| {
            let stays = wanted.contains(service);
            if !stays {
                stop.cancel();
                cluster.freshness.forget(service);
                drop(cluster.update(|store| store.forget(service)));
            }
            stays
        });
        for service in wanted {
            named.entry(service).or_insert_with_key(|service| {
                let (stop, service) = (CancellationToken::new(), Arc::new(service.clone()));
                for kind in [Kind::Service, Kind::EndpointSlice] {
                    let service = Some(Arc::clone(&service));
                    feeds.push(feed(Watched { kind, service }, stop.clone()));
                }
                stop
            });
        }
        // In one task with the feeds: one that was stopped takes no event any more.
        tokio::select! {
            Some(()) = feeds.next() => {}
            _ = changes.changed() => {}
        }
    }
}
