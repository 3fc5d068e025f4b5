//! What makes meshgate look again: an object of the registration, its namespace or a serving replica has changed.

use std::collections::BTreeSet;
use std::fmt::Debug;

use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::kube_api::kind::Kind;
use crate::kube_api::objects;
use meshgate_core::render::OURS;
use meshgate_core::render::OWNER;

use super::observed::SERVING;

pub(super) struct Triggers {
    served: BTreeSet<Kind>,
    changes: SelectAll<BoxStream<'static, ()>>,
}

impl Triggers {
    /// Watches our objects of the kinds that are served, our namespace, and, if they are looked at, the
    /// replicas in it.
    pub(super) fn new(
        client: &Client,
        served: &BTreeSet<Kind>,
        namespace: &str,
        has_fleet: bool,
    ) -> Self {
        let mut streams = Vec::new();
        for kind in served.iter().copied() {
            let config = if kind == Kind::ClusterRole {
                Config::default().fields(&format!("metadata.name={OWNER}"))
            } else {
                Config::default().labels(OURS)
            };
            streams.push(changes(objects(client, kind), config));
        }
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
        let config = Config::default().fields(&format!("metadata.name={namespace}"));
        streams.push(changes(api, config));
        if has_fleet {
            let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), namespace);
            streams.push(changes(api, Config::default().labels(SERVING)));
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

fn changes<K>(api: Api<K>, config: Config) -> BoxStream<'static, ()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    // An error is followed by a pause and a new list, which is a change as well.
    watcher(api, config).default_backoff().map(drop).boxed()
}
