//! Listens to what the API server says to a watcher, bookmarks included.
//!
//! kube-runtime's watcher hides bookmarks, and on a quiet watch they are the only sign of life
//! (case 62). It waits for the head of an answer without end, and it opens a watch that ended again
//! without a pause. So its requests pass through here.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame};
use hyper::{Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
use tower::BoxError;

/// How long the API server may take to begin an answer, and how long a list may pause.
const ANSWER: Duration = Duration::from_secs(30);
/// The API server says something on every watch about once a minute, if only a bookmark. A watch that is
/// silent for this long counts as dead, although its connection is open.
const SILENCE: Duration = Duration::from_secs(90);
/// Least time between the starts of two watches without a list between them: some proxies end each
/// watch at once.
const APART: Duration = Duration::from_secs(2);

/// After so long without a word the kind is listed anew: versions may have begun anew as well.
const TOO_OLD: Duration = Duration::from_secs(600);

/// A watch is not opened again: what the watcher knows is too old.
#[derive(Debug, thiserror::Error)]
#[error("the API server said nothing for {0:?}")]
pub(super) struct TooOld(Duration);

/// What the API server did, other than what the watcher tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It sent something: events, a page, a bookmark.
    Heard,
    /// It began a watch, from the newest version that the watcher has told.
    Watching,
    /// The watch ended. The watcher opens it again.
    Ended,
}

type Listener = Box<dyn Fn(Sign) + Send + Sync>;

/// One watcher's way to the API server.
pub(super) struct Line {
    listener: Listener,
    heard: Mutex<Instant>,
    /// When a watch began, unless a list was asked for since.
    watching: Mutex<Option<Instant>>,
}

impl Line {
    pub(super) fn new(listener: impl Fn(Sign) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            listener: Box::new(listener),
            heard: Mutex::new(Instant::now()),
            watching: Mutex::new(None),
        })
    }

    /// The same client, for the requests of one watcher.
    pub(super) fn client(self: &Arc<Self>, client: &Client) -> Client {
        let (line, inner) = (Arc::clone(self), client.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            Arc::clone(&line).ask(inner.clone(), request)
        });
        Client::new(service, client.default_namespace())
    }

    async fn ask(
        self: Arc<Self>,
        client: Client,
        request: Request<Body>,
    ) -> Result<Response<Answer>, BoxError> {
        let is_watch = is_watch(&request);
        let before = self.watching.lock().take();
        if let (true, Some(before)) = (is_watch, before) {
            sleep_until(before + APART).await;
        }
        let silence = self.heard.lock().elapsed();
        if is_watch && silence > TOO_OLD {
            // Whole seconds: the same cause is told once.
            return Err(TooOld(Duration::from_secs(silence.as_secs())).into());
        }
        let answer = timeout(ANSWER, client.send(request)).await;
        let answer = answer.map_err(|_| format!("no answer within {ANSWER:?}"))??;
        let is_watch = is_watch && answer.status().is_success();
        if is_watch {
            *self.watching.lock() = Some(Instant::now());
            self.heard(Sign::Watching);
        }
        Ok(answer.map(|body| Answer::new(body, self, is_watch)))
    }

    fn heard(&self, sign: Sign) {
        *self.heard.lock() = Instant::now();
        (self.listener)(sign);
    }
}

/// Whether events are asked for, and no list.
pub(crate) fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| pair == "watch=true")
}

/// The body of an answer. That of a watch ends where the connection breaks or falls silent: the watcher
/// goes on from there, and only what fails then is told.
struct Answer {
    body: Body,
    line: Arc<Line>,
    is_watch: bool,
    patience: Duration,
    deadline: Pin<Box<Sleep>>,
}

impl Answer {
    fn new(body: Body, line: Arc<Line>, is_watch: bool) -> Self {
        let patience = if is_watch { SILENCE } else { ANSWER };
        Self {
            body,
            line,
            is_watch,
            patience,
            deadline: Box::pin(sleep(patience)),
        }
    }

    fn ended(&self, why: BoxError) -> Option<Result<Frame<Bytes>, BoxError>> {
        if !self.is_watch {
            return Some(Err(why));
        }
        tracing::debug!("opening the watch again: {why}");
        (self.line.listener)(Sign::Ended);
        None
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let frame = match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                // A page of a list has its time in all: one that drips would never end.
                if this.is_watch {
                    this.deadline.as_mut().reset(Instant::now() + this.patience);
                }
                this.line.heard(Sign::Heard);
                Some(Ok(frame))
            }
            Poll::Ready(Some(Err(error))) => this.ended(error.into()),
            Poll::Ready(None) if this.is_watch => this.ended("it ended".into()),
            Poll::Ready(None) => None,
            Poll::Pending if this.deadline.as_mut().poll(context).is_ready() => {
                this.ended(format!("no word within {:?}", this.patience).into())
            }
            Poll::Pending => return Poll::Pending,
        };
        Poll::Ready(frame)
    }
}
