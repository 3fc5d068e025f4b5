//! One kind, followed: list, watch, list again when events were missed, for ever.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use kube::api::ListParams;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::cluster::object::{Kind, Object, ObjectId};
use crate::injector::Injectors;

use super::Failure;
use super::pace::Pace;
use super::source::{Lines, Source};
use super::wire::{Event, Item, Reader};

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

/// Follows one kind.
pub struct Feed {
    source: Source,
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
            source: Source { client, kind },
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
            Ok(Next::AtOnce) => return,
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

    /// How long the API server is asked to keep a watch open.
    fn length(&self) -> Duration {
        self.pace.between(WATCH.0, WATCH.1)
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
        match self.source.watch("", self.length(), true).await {
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
            let json = self.source.page(&asked).await?;
            self.heard();
            let page = self.reader().page(&json).map_err(|problem| {
                Failure::server(format!("the list cannot be read: {problem}"))
            })?;
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

    async fn watch(&mut self, version: &str) -> Result<Next, Failure> {
        let opened = self.source.watch(version, self.length(), false).await;
        let stream = opened.inspect_err(|failure| {
            // The version itself may be what is wrong with the question.
            if failure.is_unknown {
                self.version = None;
            }
        })?;
        self.caught_up();
        self.consume(stream, None).await
    }

    /// Reads events until the watch ends. `initial` is what its list begins with, if it begins
    /// with one.
    async fn consume(
        &mut self,
        mut lines: Lines,
        mut initial: Option<Collected>,
    ) -> Result<Next, Failure> {
        let opened = Instant::now();
        let why = loop {
            let line = match timeout(SILENCE, lines.next()).await {
                Ok(Some(Ok(line))) => line,
                Ok(Some(Err(error))) => break error.to_string(),
                Ok(None) => break "the watch ended".to_owned(),
                Err(_) => break format!("no word within {SILENCE:?}"),
            };
            let event = match self.reader().event(&line) {
                Ok(event) => event,
                // The last line is cut where the connection was.
                Err(error) if error.is_eof() => break "the watch was cut".to_owned(),
                Err(error) => {
                    self.version = None;
                    let problem = format!("an event cannot be read: {error}");
                    return Err(Failure::server(problem));
                }
            };
            self.heard();
            if opened.elapsed() >= BRIEF {
                self.pace.reset();
            }
            self.take(event, &mut initial)?;
        };
        if initial.is_some() {
            // A server that never ends the list may not know how.
            self.streams &= opened.elapsed() < SILENCE;
            let problem = format!("the list broke off before its end: {why}");
            return Err(Failure::server(problem));
        }
        Ok(self.ended(opened, &why))
    }

    fn take(&mut self, event: Event, initial: &mut Option<Collected>) -> Result<(), Failure> {
        match event {
            Event::Failed(status) => return Err(Failure::status(&status)),
            Event::Bookmark {
                version,
                is_end_of_list,
            } => match initial.take() {
                Some(collected) if is_end_of_list => {
                    self.relist(collected, version);
                    self.caught_up();
                }
                Some(collected) => *initial = Some(collected),
                None => self.version = Some(version),
            },
            Event::Applied(item) => {
                self.advance(&item, initial);
                match initial {
                    Some(collected) => collected.0.extend(self.read(item)),
                    None => self.apply(item),
                }
            }
            Event::Deleted(item) => {
                self.advance(&item, initial);
                self.delete(item.id);
            }
        }
        Ok(())
    }

    /// A watch that was fine is over: it is opened again at once, and if that works, nothing
    /// was lost and nobody need know.
    fn ended(&mut self, opened: Instant, why: &str) -> Next {
        tracing::debug!(kind = self.kind.as_str(), "opening the watch again: {why}");
        self.cluster.freshness().behind(self.kind);
        if opened.elapsed() < BRIEF {
            return Next::AfterPause;
        }
        self.pace.reset();
        Next::AtOnce
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
