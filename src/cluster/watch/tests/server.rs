//! An API server of Namespaces that can be made to fail in every way.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::stream::{self, BoxStream, StreamExt};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

/// How one request is answered.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    /// As it should be.
    Right,
    /// As it should be, but cut off after so many lines; a page in its middle.
    Cut(usize),
    /// As it should be, and after so many lines nothing any more, for ever; a page in its middle.
    Silent(usize),
    /// A status, with what the server wants us to wait.
    Status(u16, u32),
    /// Not at all.
    Never,
    /// The connection breaks.
    Broken,
    /// Exactly this, and the end.
    Lines(Vec<String>),
    /// Exactly this page.
    Page(Value),
}

type Chunks = BoxStream<'static, io::Result<Frame<Bytes>>>;

#[derive(Default)]
pub(super) struct State {
    pub(super) objects: BTreeMap<String, Value>,
    log: Vec<(u64, String)>,
    version: u64,
    pub(super) compacted: u64,
    pub(super) script: VecDeque<Reply>,
    asked: Vec<(Duration, String)>,
    watchers: Vec<UnboundedSender<String>>,
    since: Option<Instant>,
}

/// An API server of Namespaces.
#[derive(Clone, Default)]
pub(super) struct Server(pub(super) Arc<Mutex<State>>);

pub(super) fn namespace(name: &str, version: u64, inject: Option<&str>) -> Value {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "resourceVersion": version.to_string(),
            "labels": {"kubernetes.io/metadata.name": name},
            "annotations": {"not/read": "this"},
            "managedFields": [{"fieldsV1": {"f:metadata": {}}}],
        },
    });
    if let Some(value) = inject {
        object["metadata"]["annotations"]["linkerd.io/inject"] = json!(value);
    }
    object
}

pub(super) fn bookmark(version: &str) -> Value {
    let metadata = json!({"resourceVersion": version});
    json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata})
}

/// A line of a watch, `type` first, as every API server writes it.
pub(super) fn event(kind: &str, object: &Value) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

pub(super) fn status(code: u16, wait: u32) -> Value {
    let message = format!("the script says {code}");
    let details = json!({"retryAfterSeconds": wait});
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "Scripted", "code": code, "details": details,
    })
}

impl Server {
    pub(super) fn new(script: impl IntoIterator<Item = Reply>) -> Self {
        let server = Self::default();
        {
            let mut state = server.0.lock();
            state.version = 1;
            state.script = script.into_iter().collect();
        }
        server
    }

    pub(super) fn set(&self, name: &str, inject: Option<&str>) {
        let mut state = self.0.lock();
        state.version += 1;
        let object = namespace(name, state.version, inject);
        let is_new = state.objects.insert(name.to_owned(), object.clone());
        let kind = if is_new.is_none() {
            "ADDED"
        } else {
            "MODIFIED"
        };
        state.happened(kind, &object);
    }

    pub(super) fn delete(&self, name: &str) {
        let mut state = self.0.lock();
        if state.objects.remove(name).is_some() {
            state.version += 1;
            let object = namespace(name, state.version, None);
            state.happened("DELETED", &object);
        }
    }

    /// Says this on every open watch, and changes nothing.
    pub(super) fn say(&self, kind: &str, object: &Value) {
        let line = event(kind, object);
        self.0
            .lock()
            .watchers
            .retain(|watcher| watcher.unbounded_send(line.clone()).is_ok());
    }

    /// Ends all watches.
    pub(super) fn hang_up(&self) {
        self.0.lock().watchers.clear();
    }

    pub(super) fn compact(&self) {
        let mut state = self.0.lock();
        state.compacted = state.version;
    }

    /// The requests so far.
    pub(super) fn asked(&self) -> Vec<String> {
        let state = self.0.lock();
        state.asked.iter().map(|(_, uri)| uri.clone()).collect()
    }

    /// When they came.
    pub(super) fn times(&self) -> Vec<Duration> {
        self.0.lock().asked.iter().map(|(at, _)| *at).collect()
    }

    pub(super) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = server.answer(&request.uri().to_string());
            async move {
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, uri: &str) -> Option<io::Result<Response<StreamBody<Chunks>>>> {
        let mut state = self.0.lock();
        let since = *state.since.get_or_insert_with(Instant::now);
        state.asked.push((since.elapsed(), uri.to_owned()));
        let reply = state.script.pop_front().unwrap_or(Reply::Right);
        let whole = |code: u16, body: &Value| response(code, vec![body.to_string()], None);
        Some(Ok(match reply {
            Reply::Right => state.right(uri, usize::MAX, End::Stays),
            Reply::Cut(lines) => state.right(uri, lines, End::Breaks),
            Reply::Silent(lines) => state.right(uri, lines, End::Hangs),
            Reply::Status(code, wait) => whole(code, &status(code, wait)),
            Reply::Never => return None,
            Reply::Broken => return Some(Err(io::ErrorKind::ConnectionRefused.into())),
            Reply::Lines(lines) => response(200, lines, None),
            Reply::Page(page) => whole(200, &page),
        }))
    }
}

#[derive(Clone, Copy)]
enum End {
    Stays,
    Breaks,
    Hangs,
}

fn response(code: u16, lines: Vec<String>, more: Option<Chunks>) -> Response<StreamBody<Chunks>> {
    let lines = stream::iter(lines.into_iter().map(|line| Ok(Frame::data(line.into()))));
    let body: Chunks = match more {
        Some(more) => lines.chain(more).boxed(),
        None => lines.boxed(),
    };
    let mut response = Response::new(StreamBody::new(body));
    *response.status_mut() = code.try_into().unwrap();
    response
}

fn broken() -> Chunks {
    let broken = io::Error::from(io::ErrorKind::ConnectionReset);
    stream::iter([Err(broken)]).boxed()
}

impl State {
    fn happened(&mut self, kind: &str, object: &Value) {
        let line = event(kind, object);
        self.log.push((self.version, line.clone()));
        self.watchers
            .retain(|watcher| watcher.unbounded_send(line.clone()).is_ok());
    }

    /// What a real one answers, as far as `most` lines of it.
    fn right(&mut self, uri: &str, most: usize, end: End) -> Response<StreamBody<Chunks>> {
        let query = uri.split_once('?').unwrap().1;
        let given = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(own, _)| *own == name).map(|(_, value)| value)
        };
        if given("watch").is_none() {
            let (page, next) = self.page(given("limit"), given("continue"));
            let metadata = json!({"resourceVersion": self.version.to_string(), "continue": next});
            let list = json!({"kind": "NamespaceList", "metadata": metadata, "items": page});
            let mut text = list.to_string();
            let more = match end {
                End::Stays => return response(200, vec![text], None),
                End::Breaks => broken(),
                End::Hangs => stream::pending().boxed(),
            };
            text.truncate(text.len() / 2);
            return response(200, vec![text], Some(more));
        }
        let from: u64 = given("resourceVersion").unwrap().parse().unwrap();
        if from < self.compacted {
            return response(200, vec![event("ERROR", &status(410, 0))], None);
        }
        let later = self.log.iter().filter(|(version, _)| *version > from);
        let lines = later.map(|(_, line)| line.clone());
        let lines = lines.take(most).collect();
        let more: Chunks = match end {
            End::Stays => {
                let (sender, receiver) = unbounded();
                self.watchers.push(sender);
                receiver.map(|line| Ok(Frame::data(line.into()))).boxed()
            }
            End::Breaks => broken(),
            End::Hangs => stream::pending().boxed(),
        };
        response(200, lines, Some(more))
    }

    /// Two objects a page, whatever the limit: pages are what is to be tested.
    fn page(&self, limit: Option<&str>, from: Option<&str>) -> (Vec<&Value>, String) {
        assert!(limit.is_some(), "a list without a limit");
        let from: usize = from.map_or(0, |from| from.parse().unwrap());
        let page: Vec<&Value> = self.objects.values().skip(from).take(2).collect();
        let next = from + page.len();
        let is_last = next >= self.objects.len();
        (
            page,
            if is_last {
                String::new()
            } else {
                next.to_string()
            },
        )
    }
}

/// One that has Namespaces a, b and c.
pub(super) fn three(script: impl IntoIterator<Item = Reply>) -> Server {
    let server = Server::new(script);
    for name in ["a", "b", "c"] {
        server.set(name, Some("enabled"));
    }
    server
}
