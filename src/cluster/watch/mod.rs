//! The view fed by an API server: one [`Feed`] per kind, events in, [`super::store::Store`] out.
//! [`crate::kube_api::follow`] lists, watches and tries again.

mod once;
#[cfg(test)]
mod tests;
mod written;

pub use self::once::{fetch, snapshot};

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::kube_api::follow::{Failure, follow};
use crate::kube_api::listen::Sign;
use meshgate_core::injector::Injectors;

use super::Cluster;
use super::freshness::{Scope, Trouble};
use super::object::{Kind, Object, ObjectId};

use self::written::Written;

/// Objects per page of a list. The client holds a page twice, and an object may have 1.5 MiB: a tenant's
/// large ones must fit into a replica's memory. Lists are not streamed, since API servers before 1.34 may
/// not.
const PAGE: u32 = 25;
/// Names of unreadable objects that are remembered, so that each is told once.
const MOST_UNREADABLE: usize = 1_000;

/// Follows one kind.
pub struct Feed {
    client: Client,
    cluster: Arc<Cluster>,
    injectors: Arc<Injectors>,
    kind: Kind,
    /// The list that is being read. It counts once it is complete.
    listed: Vec<Object>,
    told_unreadable: HashSet<ObjectId>,
}

impl Feed {
    /// Follows `kind`, which the view does not hold yet.
    pub fn new(client: Client, cluster: Arc<Cluster>, kind: Kind) -> Self {
        cluster.freshness.follow(kind);
        let injectors = Arc::clone(cluster.read().injectors());
        Self {
            client,
            cluster,
            injectors,
            kind,
            listed: Vec::new(),
            told_unreadable: HashSet::new(),
        }
    }

    /// Follows it until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(self.follow()).await;
    }

    async fn follow(&mut self) {
        let (cluster, kind) = (Arc::clone(&self.cluster), self.kind);
        let mut events = follow(
            &self.client,
            move |client| Api::<Written>::all_with(client, &kind),
            Config::default().page_size(PAGE),
            move |sign| heard(&cluster, kind, sign),
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
            Event::Init => self.listed.clear(),
            Event::InitApply(written) => {
                let read = self.read(&written);
                self.listed.extend(read);
            }
            Event::InitDone => self.relist(),
            Event::Apply(written) => match self.read(&written) {
                Some(object) => self.cluster.update(|store| store.apply(object)),
                // What it was before is no longer true.
                None => self.delete(&written),
            },
            Event::Delete(written) => self.delete(&written),
        }
    }

    fn relist(&mut self) {
        let objects = std::mem::take(&mut self.listed);
        tracing::debug!(kind = self.kind.as_str(), objects = objects.len(), "listed");
        self.cluster
            .update(|store| store.relist(self.kind, objects));
        let freshness = &self.cluster.freshness;
        freshness.listed(self.kind);
        if freshness.all_listed() {
            self.cluster.mark_synced();
        }
    }

    fn delete(&self, written: &Written) {
        let id = written.id(self.kind);
        self.cluster.update(|store| store.delete(id));
    }

    /// The object. One that cannot be read is logged once, and counts as if it were not there.
    fn read(&mut self, written: &Written) -> Option<Object> {
        let problem = match written.object(self.kind, self.injectors.keys()) {
            Ok(object) => {
                if !self.told_unreadable.is_empty() {
                    self.told_unreadable.remove(&written.id(self.kind));
                }
                return Some(object);
            }
            Err(problem) => problem,
        };
        self.cluster.freshness.unreadable(self.kind);
        let id = written.id(self.kind);
        let has_room = self.told_unreadable.len() < MOST_UNREADABLE;
        if has_room && self.told_unreadable.insert(id.clone()) {
            tracing::warn!(
                kind = self.kind.as_str(),
                namespace = id.namespace,
                name = id.name,
                "this object cannot be read, and counts as if it were not there: {problem}"
            );
        }
        None
    }

    /// Notes a failure, and logs it if it is news.
    fn failed(&self, failure: Failure) {
        let (kind, freshness) = (self.kind.as_str(), &self.cluster.freshness);
        let text = failure.text.clone();
        if failure.is_expired {
            freshness.behind(self.kind);
            tracing::debug!(kind, "listing again: {text}");
            return;
        }
        let now = Instant::now().into_std();
        let age = freshness.oldest(now).map(|age| age.as_secs());
        if !freshness.lost(self.kind, trouble(failure), now) {
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

fn heard(cluster: &Cluster, kind: Kind, sign: Sign) {
    let (freshness, now) = (&cluster.freshness, Instant::now().into_std());
    match sign {
        Sign::Heard => freshness.heard(kind, now),
        // It is opened again at once. If that works, nothing was lost.
        Sign::Ended => freshness.behind(kind),
        Sign::Watching => {
            if let Some(lost) = freshness.caught_up(kind, now) {
                let (kind, seconds) = (kind.as_str(), lost.as_secs());
                tracing::info!(kind, seconds, "following the cluster again");
            }
        }
    }
}
