//! What makes meshgate look again: an object of the registration, its namespace or a serving replica has changed.

use std::collections::BTreeSet;

use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client};

use crate::kube_api::follow::changes;
use crate::kube_api::kind::Kind;
use crate::kube_api::objects;
use meshgate_core::render::{OURS, OWNER};

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
        let of_registration = |kind: &Kind| {
            let kind = *kind;
            let config = if kind == Kind::ClusterRole {
                Config::default().fields(&format!("metadata.name={OWNER}"))
            } else {
                Config::default().labels(OURS)
            };
            changes(client, move |client| objects(&client, kind), config)
        };
        let mut streams: Vec<_> = served.iter().map(of_registration).collect();
        let config = Config::default().fields(&format!("metadata.name={namespace}"));
        let namespaces = Api::<PartialObjectMeta<Namespace>>::all;
        streams.push(changes(client, namespaces, config));
        if has_fleet {
            let namespace = namespace.to_owned();
            let pods = move |client| Api::<PartialObjectMeta<Pod>>::namespaced(client, &namespace);
            streams.push(changes(client, pods, Config::default().labels(SERVING)));
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
