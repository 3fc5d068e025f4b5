//! Says when it is time to look: one of our objects, our namespace, or a serving replica has changed.

use std::collections::BTreeSet;

use futures::stream::{SelectAll, StreamExt, select_all};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client};

use crate::kube_api::kind::Kind;
use crate::kube_api::objects;
use crate::render::OURS;
use crate::render::OWNER;

use super::fleet::SERVING;

/// The watches.
pub(super) struct Wake {
    served: BTreeSet<Kind>,
    changes: SelectAll<futures::stream::BoxStream<'static, ()>>,
}

impl Wake {
    /// Watches our objects of the kinds that are served, our namespace, and, if they are looked at, the
    /// replicas in it.
    pub(super) fn new(
        client: &Client,
        (namespace, has_fleet): (&str, bool),
        served: &BTreeSet<Kind>,
    ) -> Self {
        let mut streams = Vec::new();
        for kind in served.iter().copied() {
            let config = if kind == Kind::ClusterRole {
                Config::default().fields(&format!("metadata.name={OWNER}"))
            } else {
                Config::default().labels(OURS)
            };
            let api: Api<DynamicObject> = objects(client, kind);
            // An error is followed by a pause and a new list, which wakes as well.
            let stream = watcher(api, config).default_backoff();
            streams.push(stream.map(drop).boxed());
        }
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
        let config = Config::default().fields(&format!("metadata.name={namespace}"));
        let stream = watcher(api, config).default_backoff();
        streams.push(stream.map(drop).boxed());
        if has_fleet {
            let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), namespace);
            let stream = watcher(api, Config::default().labels(SERVING)).default_backoff();
            streams.push(stream.map(drop).boxed());
        }
        Self {
            served: served.clone(),
            changes: select_all(streams),
        }
    }

    /// Whether these kinds are watched.
    pub(super) fn is_for(&self, served: &BTreeSet<Kind>) -> bool {
        self.served == *served
    }

    /// Returns when something has changed.
    pub(super) async fn next(&mut self) {
        if self.changes.next().await.is_none() {
            std::future::pending::<()>().await;
        }
        // All that has come by now is one change.
        while let Some(Some(())) = futures::FutureExt::now_or_never(self.changes.next()) {}
    }
}
