//! Keeps the labels of namespaces that mirror their annotations: those of existing namespaces at
//! the start, and whatever slips past the mirror later.

pub mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PartialObjectMeta, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::kube_api::backoff::Backoff;
use crate::kube_api::{CallError, MANAGER, call};

use self::plan::{Extent, Seen};

/// Patches at a time: enough for thousands of namespaces, and no load for an API server.
const AT_ONCE: usize = 8;
/// Progress is told after this time, and again.
const PROGRESS: Duration = Duration::from_secs(2);
/// The first pause after a patch that failed; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// All namespaces are listed anew this often, whatever the watch says: one whose connection is dead
/// says nothing.
const RESYNC: Duration = Duration::from_secs(240);
/// So many times a patch whose labels do not stay keeps the rest waiting: an API server has a new
/// mirror sooner than that.
const UNDONE: u32 = 5;

/// Runs until told to stop.
pub(super) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let mut labeller = Labeller::new(context);
    stop.run_until_cancelled(labeller.keep()).await;
}

/// A patch that is to be sent.
struct Todo {
    patch: Value,
    failures: u32,
    /// The last patch was taken, and undone in the same request.
    is_undone: bool,
    due: Instant,
}

impl Todo {
    /// To be sent at once.
    fn new(patch: Value) -> Self {
        Self {
            patch,
            failures: 0,
            is_undone: false,
            due: Instant::now(),
        }
    }

    /// Notes that it has to be tried again, after a pause.
    fn failed(&mut self, is_undone: bool) {
        let pause = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE).pause(self.failures + 1);
        self.failures += 1;
        self.is_undone = is_undone;
        self.due = Instant::now() + pause;
    }

    /// Whether nobody need wait for it any longer.
    fn is_tried(&self) -> bool {
        self.failures >= if self.is_undone { UNDONE } else { 1 }
    }
}

/// Which namespace, what was sent, what it is like after that.
type Sent = (String, Value, Result<ObjectMeta, CallError>);
type Events = BoxStream<'static, Result<Event<PartialObjectMeta<Namespace>>, Error>>;

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
        let mut resync = tokio::time::interval(RESYNC);
        resync.reset();
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
                // The sender is ours, so that it is never gone.
                Ok(_) = in_force.wait_for(|is| *is), if self.extent == Extent::Added => {
                    self.extent = Extent::Exact;
                    events = self.events();
                }
                _ = resync.tick() => events = self.events(),
                _ = progress.tick() => self.tell_progress(),
            }
            self.tell_whether_done();
        }
    }

    /// All namespaces as they are, and what becomes of them.
    fn events(&self) -> Events {
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(self.context.client.clone());
        watcher(api, Config::default()).default_backoff().boxed()
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

    /// What is known of a namespace is its newest state: a plan made from an older one is void.
    fn judge(&mut self, metadata: ObjectMeta) {
        let seen = seen(metadata);
        match plan::patch(&seen, &self.context.injectors, self.extent) {
            None => drop(self.todo.remove(&seen.name)),
            Some(patch) => match self.todo.get_mut(&seen.name) {
                Some(todo) => todo.patch = patch,
                None => drop(self.todo.insert(seen.name, Todo::new(patch))),
            },
        }
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
        match result {
            Ok(metadata) => self.answered(&name, &patch, metadata),
            Err(error) => {
                if !error.is_gone() && !error.is_conflict() {
                    self.problem(&error.to_string());
                }
                // What was planned meanwhile, from a newer state, is due as it is.
                match self.todo.get_mut(&name).filter(|todo| todo.patch == patch) {
                    Some(_) if error.is_gone() => drop(self.todo.remove(&name)),
                    Some(todo) => todo.failed(false),
                    None => {}
                }
            }
        }
    }

    /// What a patch has come to is seen in its answer alone: an API server that still has an older
    /// mirror in its cache undoes it in the same request, and then there is no event.
    fn answered(&mut self, name: &str, sent: &Value, metadata: ObjectMeta) {
        let again = plan::patch(&seen(metadata), &self.context.injectors, self.extent);
        if again.is_none() {
            self.written += 1;
            self.context.metrics.namespace_labelled();
            tracing::debug!(namespace = name, "labels corrected");
        }
        let Some(todo) = self.todo.get_mut(name) else {
            return;
        };
        let is_newest = todo.patch == *sent;
        match again {
            None if is_newest => drop(self.todo.remove(name)),
            None => {}
            Some(again) => {
                if is_newest {
                    todo.patch = again;
                }
                todo.failed(true);
                if todo.is_tried() {
                    self.problem(&format!(
                        "what is written to namespace {name} is undone in the same request"
                    ));
                }
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

    fn tell_lacking(&self, lacking: usize) {
        let is_news = |told: &mut usize| std::mem::replace(told, lacking) != lacking;
        if self.context.unlabelled.send_if_modified(is_news) {
            self.context.metrics.namespaces_unlabelled(lacking);
        }
    }

    /// Existing namespaces are done with once each was tried: one that cannot be labelled must not
    /// keep the others from being guarded.
    fn tell_whether_done(&mut self) {
        let lacking = self.todo.values();
        let lacking = lacking.filter(|todo| todo.failures > 0 && plan::adds(&todo.patch));
        self.tell_lacking(lacking.count());
        let untried = self.todo.values().any(|todo| !todo.is_tried());
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

fn seen(metadata: ObjectMeta) -> Seen {
    Seen {
        name: metadata.name.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        is_being_deleted: metadata.deletion_timestamp.is_some(),
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
    (name, patch, sent.map(|answer| answer.metadata))
}
