//! Keeps the labels of namespaces that mirror their annotations: those of existing namespaces at
//! the start, and whatever slips past the mirror later.

pub mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PartialObjectMeta, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::api::{CallError, MANAGER, call};

use self::plan::Seen;

/// Patches at a time: enough for thousands of namespaces, and no load for an API server.
const AT_ONCE: usize = 8;
/// Progress is told after this time, and again.
const PROGRESS: Duration = Duration::from_secs(2);
/// The first pause after a patch that failed; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Runs until told to stop.
pub(super) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let mut labeller = Labeller::new(context);
    stop.run_until_cancelled(labeller.keep()).await;
}

/// A patch that is to be sent.
struct Todo {
    patch: Value,
    failures: u32,
    due: Instant,
}

/// Which namespace, what was sent, what came of it.
type Sent = (String, Value, Result<(), CallError>);

struct Labeller {
    context: Arc<Context>,
    todo: BTreeMap<String, Todo>,
    sending: BTreeSet<String>,
    in_flight: FuturesUnordered<BoxFuture<'static, Sent>>,
    has_listed: bool,
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
            has_listed: false,
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
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(self.context.client.clone());
        let events = watcher(api, Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let mut progress = tokio::time::interval(PROGRESS);
        progress.reset();
        loop {
            let wait = self.send_what_is_due();
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => self.note(event),
                    Some(Err(error)) => self.problem(&format!("cannot watch namespaces: {error}")),
                    None => return,
                },
                Some(sent) = self.in_flight.next() => self.sent(sent),
                () = tokio::time::sleep(wait) => {}
                _ = progress.tick() => self.tell_progress(),
            }
            self.tell_whether_done();
        }
    }

    fn note(&mut self, event: Event<PartialObjectMeta<Namespace>>) {
        match event {
            Event::Init => {
                self.todo.clear();
                self.seen = 0;
            }
            Event::InitApply(namespace) => {
                self.seen += 1;
                self.judge(namespace.metadata);
            }
            Event::InitDone => self.has_listed = true,
            Event::Apply(namespace) => self.judge(namespace.metadata),
            Event::Delete(namespace) => {
                self.todo
                    .remove(&namespace.metadata.name.unwrap_or_default());
            }
        }
    }

    /// What is known of a namespace is its newest state: a plan made from an older one is void.
    fn judge(&mut self, metadata: ObjectMeta) {
        let seen = Seen {
            name: metadata.name.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            is_being_deleted: metadata.deletion_timestamp.is_some(),
        };
        let Some(patch) = plan::patch(&seen, &self.context.injectors) else {
            self.todo.remove(&seen.name);
            return;
        };
        let failures = self.todo.get(&seen.name).map_or(0, |todo| todo.failures);
        let due = self.todo.get(&seen.name).map(|todo| todo.due);
        let todo = Todo {
            patch,
            failures,
            due: due.unwrap_or_else(Instant::now),
        };
        self.todo.insert(seen.name, todo);
    }

    /// Sends patches, a few at a time, one per namespace. Returns how long nothing more is due.
    fn send_what_is_due(&mut self) -> Duration {
        let now = Instant::now();
        let room = AT_ONCE.saturating_sub(self.in_flight.len());
        let is_free = |name: &&String| !self.sending.contains(*name);
        let due = self.todo.iter().filter(|(_, todo)| todo.due <= now);
        let names: Vec<String> = due
            .map(|(name, _)| name)
            .filter(is_free)
            .take(room)
            .cloned()
            .collect();
        for name in names {
            let Some(todo) = self.todo.get(&name) else {
                continue;
            };
            let sent = send(
                self.context.client.clone(),
                name.clone(),
                todo.patch.clone(),
            );
            self.in_flight.push(Box::pin(sent));
            self.sending.insert(name);
        }
        let later = self
            .todo
            .values()
            .map(|todo| todo.due)
            .filter(|due| *due > now);
        later.min().map_or(LONGEST_PAUSE, |due| due - now)
    }

    fn sent(&mut self, (name, patch, result): Sent) {
        self.sending.remove(&name);
        if let Err(error) = &result
            && !error.is_gone()
            && !error.is_conflict()
        {
            self.problem(&error.to_string());
        }
        if result.is_ok() {
            self.written += 1;
            self.context.metrics.namespace_labelled();
            tracing::debug!(namespace = name, "labels corrected");
        }
        // What was planned meanwhile, from a newer state, is due as it is.
        let Some(todo) = self.todo.get_mut(&name).filter(|todo| todo.patch == patch) else {
            return;
        };
        match result {
            Ok(()) => drop(self.todo.remove(&name)),
            Err(error) if error.is_gone() => drop(self.todo.remove(&name)),
            Err(_) => {
                let doubled = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(todo.failures));
                todo.failures += 1;
                todo.due = Instant::now() + doubled.min(LONGEST_PAUSE);
            }
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
            let left = self.todo.len();
            tracing::info!(
                written = self.written,
                left,
                "labelling existing namespaces"
            );
        }
    }

    /// Existing namespaces are done with once each was tried: one that cannot be labelled must not
    /// keep the others from being guarded.
    fn tell_whether_done(&mut self) {
        let untried = self.todo.values().any(|todo| todo.failures == 0);
        let untried = untried || !self.in_flight.is_empty();
        if !self.has_listed || untried || *self.context.labelled.borrow() {
            return;
        }
        let (seen, left) = (self.seen, self.todo.len());
        tracing::info!(
            namespaces = seen,
            corrected = self.written,
            left,
            "existing namespaces are labelled"
        );
        self.context.labelled.send_replace(true);
    }
}

async fn send(client: Client, name: String, patch: Value) -> Sent {
    let api: Api<Namespace> = Api::all(client);
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let merge = Patch::Merge(&patch);
    let what = || format!("cannot label namespace {name}");
    let sent = call(what, api.patch_metadata(&name, &params, &merge)).await;
    (name, patch, sent.map(drop))
}
