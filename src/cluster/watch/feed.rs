//! One kind, followed: list, watch, list again when events were missed, for ever.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use kube::core::watch::Bookmark;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::cluster::object::{Kind, Object, ObjectId};
use crate::injector::Injectors;

use super::Failure;
use super::pace::Pace;
use super::wire::{Item, Page, Reader};

/// How long the API server may take to begin an answer, or to give a page of a list.
const ANSWER: Duration = Duration::from_secs(30);
/// The API server says something on every watch about once a minute, if only a bookmark. A watch
/// on which nothing comes for this long is taken for dead, although nobody closed it (case 62).
const SILENCE: Duration = Duration::from_secs(90);
/// How long the API server is asked to keep a watch open: below what load balancers allow.
const WATCH: (Duration, Duration) = (Duration::from_secs(150), Duration::from_secs(180));
/// A watch that ended sooner is no success: it is opened again after a pause.
const BRIEF: Duration = Duration::from_secs(1);
/// Objects per page of a list: some megabytes of large ones.
const PAGE: u32 = 100;
/// After so long without a word the view is listed anew and not continued.
const TOO_OLD: Duration = Duration::from_secs(600);
/// Names of unreadable objects that are remembered, so that each is told once.
const MOST_UNREADABLE: usize = 1_000;
/// The annotation of the bookmark that ends the initial events of a streaming list.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// Follows one kind.
pub struct Feed {
    client: Client,
    cluster: Arc<Cluster>,
    injectors: Arc<Injectors>,
    kind: Kind,
    /// What the view holds; `None` before the first list and after events were missed.
    version: Option<String>,
    /// Whether the server can stream lists, as far as we know.
    streams: bool,
    /// When events were last seen, for [`TOO_OLD`].
    heard: Instant,
    told_unreadable: HashSet<ObjectId>,
    pace: Pace,
}

/// The events of a watch, their objects not read yet.
type Events = BoxStream<'static, kube::Result<WatchEvent<Box<RawValue>>>>;

/// When to go on.
#[derive(Debug)]
enum Next {
    AtOnce,
    AfterPause,
}

/// A list that is being collected.
#[derive(Default)]
struct Collected(Vec<Object>);

impl Feed {
    /// Follows `kind`, which the view does not hold yet.
    pub fn new(client: Client, cluster: Arc<Cluster>, kind: Kind) -> Self {
        cluster.freshness().follow(kind);
        let injectors = Arc::clone(cluster.read().injectors());
        Self {
            client,
            cluster,
            injectors,
            kind,
            version: None,
            streams: true,
            heard: Instant::now(),
            told_unreadable: HashSet::new(),
            pace: Pace::new(),
        }
    }

    /// Follows it until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            loop {
                self.step().await;
            }
        })
        .await;
    }

    /// One list or one watch, and the pause after it if there has to be one.
    async fn step(&mut self) {
        let opened = Instant::now();
        if self.version.is_some() && opened.duration_since(self.heard) > TOO_OLD {
            self.version = None;
        }
        let done = match self.version.clone() {
            None if self.streams => self.list_by_stream().await,
            None => self.list_by_pages().await,
            Some(version) => self.watch(&version).await,
        };
        let wait = match done {
            Ok(Next::AtOnce) => {
                self.pace.reset();
                return;
            }
            Ok(Next::AfterPause) => None,
            Err(failure) => {
                let wait = failure.wait;
                self.failed(failure);
                wait
            }
        };
        sleep(self.pace.pause(wait)).await;
    }

    /// Notes a failure, and tells of it if it is news.
    fn failed(&mut self, failure: Failure) {
        let (kind, freshness) = (self.kind.as_str(), self.cluster.freshness());
        if failure.is_expired {
            self.version = None;
            freshness.behind(self.kind);
            tracing::debug!(kind, "listing again: {}", failure.trouble.text);
            return;
        }
        let text = failure.trouble.text.clone();
        let now = Instant::now().into_std();
        let age = freshness.oldest(now).map(|age| age.as_secs());
        if !freshness.lost(self.kind, failure.trouble, now) {
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

    fn heard(&mut self) {
        self.heard = Instant::now();
        self.cluster
            .freshness()
            .heard(self.kind, self.heard.into_std());
    }

    /// Nothing is missing any more.
    fn caught_up(&mut self) {
        self.heard = Instant::now();
        let freshness = self.cluster.freshness();
        if let Some(lost) = freshness.caught_up(self.kind, self.heard.into_std()) {
            let (kind, seconds) = (self.kind.as_str(), lost.as_secs());
            tracing::info!(kind, seconds, "following the cluster again");
        }
    }

    /// Collects the list from a watch that begins with it, and goes on watching.
    async fn list_by_stream(&mut self) -> Result<Next, Failure> {
        match self.open("", true).await {
            Ok(stream) => {
                self.heard();
                self.consume(stream, Some(Collected::default())).await
            }
            Err(failure) if failure.is_unknown => {
                let (kind, answer) = (self.kind.as_str(), failure.trouble.text);
                tracing::debug!(kind, "no streaming lists here: {answer}");
                self.streams = false;
                self.list_by_pages().await
            }
            Err(failure) => Err(failure),
        }
    }

    async fn list_by_pages(&mut self) -> Result<Next, Failure> {
        let mut collected = Collected::default();
        let mut asked = ListParams::default().limit(PAGE);
        loop {
            let page = self.page(&asked).await?;
            self.heard();
            for item in page.items {
                collected.0.extend(self.read(item));
            }
            if page.next.is_none() {
                self.relist(collected, page.version);
                // Current once the watch from here is open.
                return Ok(Next::AtOnce);
            }
            asked.continue_token = page.next;
        }
    }

    async fn page(&self, asked: &ListParams) -> Result<Page, Failure> {
        let request = Request::new(path(self.kind)).list(asked);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let json = in_time(self.client.request_text(request)).await?;
        self.reader()
            .page(&json)
            .map_err(|problem| Failure::server(format!("the list cannot be read: {problem}")))
    }

    async fn watch(&mut self, version: &str) -> Result<Next, Failure> {
        let stream = self.open(version, false).await?;
        self.caught_up();
        self.consume(stream, None).await
    }

    async fn open(&self, version: &str, initial: bool) -> Result<Events, Failure> {
        let length = self.pace.between(WATCH.0, WATCH.1).as_secs();
        let asked = WatchParams {
            timeout: u32::try_from(length).ok(),
            bookmarks: true,
            send_initial_events: initial,
            ..WatchParams::default()
        };
        let request = Request::new(path(self.kind)).watch(&asked, version);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let stream = in_time(self.client.request_events(request)).await?;
        Ok(stream.boxed())
    }

    /// Reads events until the watch ends. `initial` is what its list begins with, if it begins
    /// with one.
    async fn consume(
        &mut self,
        mut stream: Events,
        mut initial: Option<Collected>,
    ) -> Result<Next, Failure> {
        let opened = Instant::now();
        loop {
            let next = timeout(SILENCE, stream.try_next()).await;
            let event = match next {
                Ok(Ok(Some(event))) => event,
                Ok(Ok(None)) if initial.is_none() => return self.ended(opened, "the watch ended"),
                Ok(Ok(None)) => {
                    return Err(Failure::server("the list ended before its last object"));
                }
                Ok(Err(error)) if initial.is_none() => {
                    return self.ended(opened, &error.to_string());
                }
                Ok(Err(error)) => return Err(error.into()),
                Err(_) if initial.is_none() => return self.ended(opened, "nothing was heard"),
                Err(_) => return Err(Failure::server(format!("no word within {SILENCE:?}"))),
            };
            self.heard();
            match event {
                WatchEvent::Error(status) => return Err(Failure::status(&status)),
                WatchEvent::Bookmark(bookmark) => self.bookmark(bookmark, &mut initial),
                WatchEvent::Added(json) | WatchEvent::Modified(json) => {
                    let item = self.reader().item(&json);
                    self.advance(&item, &initial);
                    match &mut initial {
                        Some(collected) => collected.0.extend(self.read(item)),
                        None => self.apply(item),
                    }
                }
                WatchEvent::Deleted(json) => {
                    let item = self.reader().item(&json);
                    self.advance(&item, &initial);
                    self.delete(item.id);
                }
            }
        }
    }

    /// A watch that was fine is over: it is opened again at once, and if that works, nothing
    /// was lost and nobody need know.
    fn ended(&self, opened: Instant, why: &str) -> Result<Next, Failure> {
        tracing::debug!(kind = self.kind.as_str(), "opening the watch again: {why}");
        self.cluster.freshness().behind(self.kind);
        let was_brief = opened.elapsed() < BRIEF;
        Ok(if was_brief {
            Next::AfterPause
        } else {
            Next::AtOnce
        })
    }

    fn bookmark(&mut self, bookmark: Bookmark, initial: &mut Option<Collected>) {
        let metadata = bookmark.metadata;
        match initial.take() {
            Some(collected) if metadata.annotations.contains_key(INITIAL_END) => {
                self.relist(collected, metadata.resource_version);
                self.caught_up();
            }
            Some(collected) => *initial = Some(collected),
            None => self.version = Some(metadata.resource_version),
        }
    }

    /// Goes on from here if the watch breaks; not in the middle of a list.
    fn advance(&mut self, item: &Item, initial: &Option<Collected>) {
        if let (Some(version), None) = (&item.version, initial) {
            self.version = Some(version.clone());
        }
    }

    fn relist(&mut self, collected: Collected, version: String) {
        let objects = collected.0;
        tracing::debug!(kind = self.kind.as_str(), objects = objects.len(), "listed");
        self.cluster
            .update(|store| store.relist(self.kind, objects));
        self.version = Some(version);
        let freshness = self.cluster.freshness();
        freshness.listed(self.kind);
        if freshness.all_listed() {
            self.cluster.mark_synced();
        }
    }

    fn apply(&mut self, item: Item) {
        let id = item.id.clone();
        match self.read(item) {
            Some(object) => self.cluster.update(|store| store.apply(object)),
            // What it was before is no longer true.
            None => self.delete(id),
        }
    }

    fn delete(&self, id: Option<ObjectId>) {
        if let Some(id) = id {
            self.cluster.update(|store| store.delete(id));
        }
    }

    /// The object, or nothing and a word about it, once.
    fn read(&mut self, item: Item) -> Option<Object> {
        let problem = match item.object {
            Ok(object) => {
                if let Some(id) = item.id.filter(|_| !self.told_unreadable.is_empty()) {
                    self.told_unreadable.remove(&id);
                }
                return Some(object);
            }
            Err(problem) => problem,
        };
        self.cluster.freshness().unreadable(self.kind);
        let id = item.id.unwrap_or((self.kind, String::new(), String::new()));
        let (_, namespace, name) = id.clone();
        let has_room = self.told_unreadable.len() < MOST_UNREADABLE;
        if has_room && self.told_unreadable.insert(id) {
            let kind = self.kind.as_str();
            tracing::warn!(
                kind,
                namespace,
                name,
                "this object cannot be read, and counts as if it were not there: {problem}"
            );
        }
        None
    }

    fn reader(&self) -> Reader<'_> {
        Reader {
            kind: self.kind,
            keys: self.injectors.keys(),
        }
    }
}

/// An answer of the API server, if it comes in time.
async fn in_time<T>(answer: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match timeout(ANSWER, answer).await {
        Ok(answer) => answer.map_err(Failure::from),
        Err(_) => Err(Failure::server(format!("no answer within {ANSWER:?}"))),
    }
}

/// Where the objects of a kind are.
pub(super) fn path(kind: Kind) -> String {
    let group = match kind {
        Kind::Namespace | Kind::Service | Kind::Node => "/api/v1",
        Kind::EndpointSlice => "/apis/discovery.k8s.io/v1",
        Kind::Webhooks => "/apis/admissionregistration.k8s.io/v1",
    };
    format!("{group}/{}", kind.plural())
}
