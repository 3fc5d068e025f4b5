//! Keeps the labels of namespaces that mirror their annotations: those of existing namespaces at the
//! start, and all that slips past the mirror later.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PartialObjectMeta, Patch, PatchParams};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::kube_api::backoff::doubling;
use crate::kube_api::follow::{Failure, follow};
use crate::kube_api::{CallError, MANAGER, call};
use crate::metrics::gauge_of;

use self::plan::{Extent, Labelling};

/// Patches at a time: enough for thousands of namespaces, and no load for an API server.
const AT_ONCE: usize = 8;
/// Time between two reports of progress.
const PROGRESS: Duration = Duration::from_secs(2);
/// After a patch that failed.
const BACKOFF: ExponentialBuilder = doubling(Duration::from_millis(500), LONGEST);
const LONGEST: Duration = Duration::from_secs(30);
/// A patch whose labels do not stay keeps the rest waiting for so many tries: an API server takes up a
/// new mirror sooner than that.
const UNDONE: u32 = 5;

/// Runs until the token is cancelled.
pub(super) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let mut labeller = Labeller::new(context);
    stop.run_until_cancelled(labeller.keep()).await;
}

/// Changes that are to be sent.
struct Todo {
    changes: Labelling,
    failures: u32,
    pauses: ExponentialBackoff,
    /// The API server accepted the last patch, and a mutation in the same request undid it.
    is_undone: bool,
    due: Instant,
}

impl Todo {
    fn new(changes: Labelling) -> Self {
        Self {
            changes,
            failures: 0,
            pauses: BACKOFF.build(),
            is_undone: false,
            due: Instant::now(),
        }
    }

    fn failed(&mut self, is_undone: bool) {
        self.failures += 1;
        self.is_undone = is_undone;
        self.due = Instant::now() + self.pauses.next().unwrap_or(LONGEST);
    }

    /// Whether the rest need not wait for it any longer.
    fn is_tried(&self) -> bool {
        self.failures >= if self.is_undone { UNDONE } else { 1 }
    }
}

/// A patch that was sent, and the namespace after it.
struct Sent {
    name: String,
    changes: Labelling,
    result: Result<ObjectMeta, CallError>,
}

type Events = BoxStream<'static, Result<Event<PartialObjectMeta<Namespace>>, Failure>>;

struct Labeller {
    context: Arc<Context>,
    todo: BTreeMap<String, Todo>,
    sending: BTreeSet<String>,
    in_flight: FuturesUnordered<BoxFuture<'static, Sent>>,
    extent: Extent,
    has_listed: bool,
    /// Namespaces of the list that is being read.
    listed: BTreeSet<String>,
    seen: usize,
    written: u64,
    told_problem: String,
}

impl Labeller {
    fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            todo: BTreeMap::new(),
            sending: BTreeSet::new(),
            in_flight: FuturesUnordered::new(),
            extent: Extent::Added,
            has_listed: false,
            listed: BTreeSet::new(),
            seen: 0,
            written: 0,
            told_problem: String::new(),
        }
    }

    async fn keep(&mut self) {
        // The mirror first: what is annotated from now on is labelled by it.
        let mut mirrored = self.context.mirrored.subscribe();
        if mirrored.wait_for(|mirrored| *mirrored).await.is_err() {
            return;
        }
        let mut in_force = self.context.in_force.subscribe();
        let mut events = self.events();
        let mut progress = tokio::time::interval(PROGRESS);
        progress.reset();
        loop {
            let next = self.send_what_is_due();
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => self.note(event),
                    Some(Err(error)) => self.problem(&format!("cannot watch namespaces: {error}")),
                    None => return,
                },
                Some(sent) = self.in_flight.next() => self.sent(&sent),
                () = sleep_until(next.unwrap_or_else(Instant::now).into()), if next.is_some() => {}
                // The sender is in the context, so it is never gone.
                Ok(_) = in_force.wait_for(|is| *is), if self.extent == Extent::Added => {
                    self.extent = Extent::Exact;
                    events = self.events();
                }
                _ = progress.tick() => self.tell_progress(),
            }
            self.tell_whether_done();
        }
    }

    /// A list of all namespaces, and then their changes.
    fn events(&self) -> Events {
        follow(&self.context.client, Api::all, Config::default(), drop)
    }

    fn note(&mut self, event: Event<PartialObjectMeta<Namespace>>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(namespace) => {
                let name = namespace.metadata.name.clone();
                self.listed.extend(name);
                self.judge(namespace.metadata);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.todo.retain(|name, _| listed.contains(name));
                self.seen = listed.len();
                self.has_listed = true;
            }
            Event::Apply(namespace) => self.judge(namespace.metadata),
            Event::Delete(namespace) => {
                self.todo
                    .remove(&namespace.metadata.name.unwrap_or_default());
            }
        }
    }

    fn changes(&self, seen: &ObjectMeta) -> Option<Labelling> {
        Labelling::of(seen, &self.context.injectors, self.extent)
    }

    /// The newest state of a namespace counts: changes that were planned from an older one are void.
    fn judge(&mut self, seen: ObjectMeta) {
        let changes = self.changes(&seen);
        let name = seen.name.unwrap_or_default();
        match (changes, self.todo.get_mut(&name)) {
            (None, _) => drop(self.todo.remove(&name)),
            (Some(changes), Some(todo)) => todo.changes = changes,
            (Some(changes), None) => drop(self.todo.insert(name, Todo::new(changes))),
        }
    }

    /// Sends patches, a few at a time, one per namespace. Returns when the next one is due, if any is.
    fn send_what_is_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let room = AT_ONCE.saturating_sub(self.in_flight.len());
        let is_due = |name: &String, todo: &Todo| todo.due <= now && !self.sending.contains(name);
        let due = self.todo.iter().filter(|(name, todo)| is_due(name, todo));
        let due = due.take(room);
        let due: Vec<(String, Labelling)> = due
            .map(|(name, todo)| (name.clone(), todo.changes.clone()))
            .collect();
        for (name, changes) in due {
            let sent = send(self.context.client.clone(), name.clone(), changes);
            self.in_flight.push(Box::pin(sent));
            self.sending.insert(name);
        }
        let later = self.todo.values().map(|todo| todo.due);
        later.filter(|due| *due > now).min()
    }

    fn sent(&mut self, sent: &Sent) {
        self.sending.remove(&sent.name);
        let error = match &sent.result {
            Ok(metadata) => return self.answered(&sent.name, &sent.changes, metadata),
            Err(error) => error,
        };
        if !error.is_gone() && !error.is_conflict() {
            self.problem(&error.to_string());
        }
        // What was planned meanwhile, from a newer state, is due as it is.
        let todo = self.todo.get_mut(&sent.name);
        match todo.filter(|todo| todo.changes == sent.changes) {
            Some(_) if error.is_gone() => drop(self.todo.remove(&sent.name)),
            Some(todo) => todo.failed(false),
            None => {}
        }
    }

    /// Only the answer tells what a patch has come to: an API server that still has an older mirror in
    /// its cache undoes it in the same request, and then there is no event.
    fn answered(&mut self, name: &str, sent: &Labelling, metadata: &ObjectMeta) {
        let again = self.changes(metadata);
        if again.is_none() {
            self.written += 1;
            self.context.metrics.registration.namespaces_labelled.inc();
            tracing::debug!(namespace = name, "labels corrected");
        }
        let Some(todo) = self.todo.get_mut(name) else {
            return;
        };
        let is_newest = todo.changes == *sent;
        let Some(again) = again else {
            if is_newest {
                self.todo.remove(name);
            }
            return;
        };
        if is_newest {
            todo.changes = again;
        }
        todo.failed(true);
        if todo.is_tried() {
            self.problem(&format!(
                "what is written to namespace {name} is undone in the same request"
            ));
        }
    }

    fn problem(&mut self, problem: &str) {
        if self.told_problem != problem {
            tracing::warn!("labels of namespaces: {problem}; trying again");
            problem.clone_into(&mut self.told_problem);
        }
    }

    fn tell_progress(&self) {
        if !*self.context.labelled.borrow() && self.has_listed {
            let (written, left) = (self.written, self.todo.len());
            tracing::info!(written, left, "labelling existing namespaces");
        }
    }

    /// Existing namespaces are done with once each was tried: one that cannot be labelled must not
    /// keep pods in the others unguarded.
    fn tell_whether_done(&mut self) {
        let all = self.todo.values();
        let lacking = all.filter(|todo| todo.failures > 0 && todo.changes.adds());
        let lacking = lacking.count();
        let is_news = |told: &mut usize| std::mem::replace(told, lacking) != lacking;
        if self.context.unlabelled.send_if_modified(is_news) {
            let metrics = &self.context.metrics.registration;
            metrics.namespaces_unlabelled.set(gauge_of(lacking));
        }
        let is_tried = self.in_flight.is_empty() && self.todo.values().all(Todo::is_tried);
        if !self.has_listed || !is_tried || *self.context.labelled.borrow() {
            return;
        }
        tracing::info!(
            namespaces = self.seen,
            corrected = self.written,
            left = self.todo.len(),
            "existing namespaces are labelled"
        );
        self.context.labelled.send_replace(true);
    }
}

async fn send(client: Client, name: String, changes: Labelling) -> Sent {
    let api: Api<Namespace> = Api::all(client);
    let params = PatchParams::apply(MANAGER);
    let patch = Patch::Merge(changes.patch());
    let what = || format!("cannot label namespace {name}");
    let sent = call(what, api.patch_metadata(&name, &params, &patch)).await;
    Sent {
        result: sent.map(|answer| answer.metadata),
        name,
        changes,
    }
}
