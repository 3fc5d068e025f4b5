//! The view fed by an API server: one [`Feed`] per watch, events in, [`super::store::Store`] out.
//! [`run`] follows what decisions read. [`crate::kube_api::follow`] lists, watches and tries again.

mod feeds;
mod items;
mod once;
#[cfg(test)]
mod tests;
mod workloads;
mod written;

pub use self::feeds::run;
pub use self::once::{fetch, namespaces, snapshot};
pub use self::workloads::{Following, Noted, owners};

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt;
use kube::api::ListParams;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::kube_api::follow::{Failure, follow};
use crate::kube_api::listen::Sign;
use meshgate_core::injector::Injectors;

use super::Cluster;
use super::freshness::{Scope, Trouble};
use super::object::{Kind, Object, ObjectId, SERVICE_NAME, Watched};
use super::store::Store;

use self::written::Written;

/// Objects per page of a list: what an API server holds of it at once. Lists are not streamed, since API
/// servers before 1.34 may not.
const PAGE: u32 = 100;
/// Names of unreadable objects that are remembered, so that each is told once.
const MOST_UNREADABLE: usize = 1_000;

impl Watched {
    /// The calls for it. Another namespace's Services of the same name are not asked for: any tenant may
    /// create one.
    fn api(&self, client: Client) -> Api<Written> {
        match &self.service {
            None => Api::all_with(client, &self.kind),
            Some(service) => Api::namespaced_with(client, &service.namespace, &self.kind),
        }
    }

    /// The same of what is there: a page at a time.
    fn selector(&self) -> ListParams {
        let all = ListParams::default().limit(PAGE);
        match &self.service {
            None => all,
            Some(service) if self.kind == Kind::EndpointSlice => {
                all.labels(&format!("{SERVICE_NAME}={}", service.name))
            }
            Some(service) => all.fields(&format!("metadata.name={}", service.name)),
        }
    }
}

/// One watch.
pub struct Feed {
    client: Client,
    cluster: Arc<Cluster>,
    injectors: Arc<Injectors>,
    watched: Watched,
    /// The list that is being read. It counts once it is complete.
    listed: Store,
    told_unreadable: HashSet<ObjectId>,
}

impl Feed {
    /// Follows what the view does not hold yet.
    pub fn new(client: &Client, cluster: Arc<Cluster>, watched: impl Into<Watched>) -> Self {
        let watched = watched.into();
        cluster.freshness.follow(watched.clone());
        let injectors = Arc::clone(cluster.read().injectors());
        let (kind, keys) = (watched.kind, Arc::clone(&injectors));
        let shrink = move |item: &str| {
            let object = Object::from_json(kind, item).ok()?.pruned(keys.keys());
            serde_json::to_string(&object).ok()
        };
        Self {
            client: items::client(client, shrink),
            cluster,
            listed: Store::new(Arc::clone(&injectors)),
            injectors,
            watched,
            told_unreadable: HashSet::new(),
        }
    }

    /// Follows it until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(self.follow()).await;
    }

    async fn follow(&mut self) {
        let (cluster, watched) = (Arc::clone(&self.cluster), self.watched.clone());
        let (asked, selector) = (self.watched.clone(), self.watched.selector());
        let config = Config {
            label_selector: selector.label_selector,
            field_selector: selector.field_selector,
            page_size: selector.limit,
            ..Config::default()
        };
        let mut events = follow(
            &self.client,
            move |client| asked.api(client),
            config,
            move |sign| heard(&cluster, &watched, sign),
        );
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event),
                Err(failure) => self.failed(failure),
            }
        }
    }

    fn take(&mut self, event: Event<Written>) {
        match event {
            Event::Init => self.listed = Store::new(Arc::clone(&self.injectors)),
            Event::InitApply(written) => {
                if let Some(object) = self.read(&written) {
                    self.listed.apply(object);
                }
            }
            Event::InitDone => self.relist(),
            Event::Apply(written) => match self.read(&written) {
                Some(object) => drop(self.cluster.update(|store| store.apply(object))),
                // What it was before is no longer true.
                None => self.delete(&written),
            },
            Event::Delete(written) => self.delete(&written),
        }
    }

    fn relist(&mut self) {
        let empty = Store::new(Arc::clone(&self.injectors));
        let list = std::mem::replace(&mut self.listed, empty);
        let before = self.cluster.update(|store| {
            let before = store.relist(&self.watched, list);
            self.cluster.freshness.listed(self.watched.clone());
            before
        });
        drop(before);
        tracing::debug!(kind = self.watched.kind.as_str(), "listed");
    }

    fn delete(&self, written: &Written) {
        let id = written.id(self.watched.kind);
        let deleted = self.cluster.update(|store| match &self.watched.service {
            Some(service) if id.kind == Kind::EndpointSlice => {
                store.delete_slice(&id.namespace, &id.name, Some(service))
            }
            Some(_) | None => store.delete(id),
        });
        drop(deleted);
    }

    /// The object. One that cannot be read is logged once, and counts as if it were not there.
    fn read(&mut self, written: &Written) -> Option<Object> {
        let problem = match written.object(self.watched.kind, self.injectors.keys()) {
            Ok(object) => {
                if !self.told_unreadable.is_empty() {
                    self.told_unreadable.remove(&written.id(self.watched.kind));
                }
                return Some(object);
            }
            Err(problem) => problem,
        };
        self.cluster.freshness.unreadable(self.watched.kind);
        let id = written.id(self.watched.kind);
        let has_room = self.told_unreadable.len() < MOST_UNREADABLE;
        if has_room && self.told_unreadable.insert(id.clone()) {
            tracing::warn!(
                kind = self.watched.kind.as_str(),
                namespace = id.namespace,
                name = id.name,
                "this object cannot be read, and counts as if it were not there: {problem}"
            );
        }
        None
    }

    /// Notes a failure, and logs it if it is news.
    fn failed(&self, failure: Failure) {
        let (kind, freshness) = (self.watched.kind.as_str(), &self.cluster.freshness);
        let text = failure.text.clone();
        if failure.is_expired {
            freshness.behind(self.watched.clone());
            tracing::debug!(kind, "listing again: {text}");
            return;
        }
        let now = Instant::now().into_std();
        let age = freshness.oldest(now).map(|age| age.as_secs());
        if !freshness.lost(self.watched.clone(), trouble(failure), now) {
            tracing::debug!(kind, "cannot be followed: {text}");
        } else if self.cluster.is_synced() {
            tracing::warn!(
                kind,
                view_age_seconds = age,
                "cannot follow the cluster: {text}; answers go on from what was known"
            );
        } else {
            tracing::warn!(
                kind,
                "cannot list the cluster: {text}; not ready until it was listed, trying again"
            );
        }
    }
}

/// A missing permission is one kind's trouble; all kinds suffer from an overloaded API server, or one
/// that cannot be reached.
fn trouble(failure: Failure) -> Trouble {
    let is_of_server = failure.code.is_none_or(|code| code == 429 || code >= 500);
    Trouble {
        scope: if is_of_server {
            Scope::Server
        } else {
            Scope::Kind
        },
        text: failure.text,
    }
}

fn heard(cluster: &Cluster, watched: &Watched, sign: Sign) {
    let (freshness, now) = (&cluster.freshness, Instant::now().into_std());
    match sign {
        Sign::Heard => freshness.heard(watched.clone(), now),
        // It is opened again at once. If that works, nothing was lost.
        Sign::Ended => freshness.behind(watched.clone()),
        Sign::Watching => {
            if let Some(lost) = freshness.caught_up(watched.clone(), now) {
                let (kind, seconds) = (watched.kind.as_str(), lost.as_secs());
                tracing::info!(kind, seconds, "following the cluster again");
            }
        }
    }
}
