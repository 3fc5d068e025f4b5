//! Between hyper and the router: what is being answered, and whether it is the last answer.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Request, Response};
use axum::{BoxError, Router};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::Service;

use super::activity::{Activity, Protocol};
use super::budget::{Budget, Held};
use super::io::{LINGER, LINGER_BYTES};
use crate::lifecycle::Group;

/// A body whose connection has a place must bring so much in so much time. The API server sends the
/// largest in a few milliseconds.
const PLACE_PACE: usize = 256 * 1024;
const PLACE_TIME: Duration = Duration::from_secs(3);

/// Answers the requests of one connection.
pub(super) struct Handler {
    router: Router,
    activity: Arc<Activity>,
    budget: Arc<Budget>,
    protocol: Protocol,
}

impl Handler {
    pub(super) fn new(
        router: Router,
        activity: Arc<Activity>,
        budget: Budget,
        protocol: Protocol,
    ) -> Self {
        Self {
            router,
            activity,
            budget: Arc::new(budget),
            protocol,
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Handler {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let activity = Arc::clone(&self.activity);
        let protocol = self.protocol;
        let has_body = !request.body().is_end_stream();
        let in_flight = activity.begin_request(has_body && protocol == Protocol::H1);
        let held = Arc::new(self.budget.request());
        let left = Left::default();
        let request = request.map(|body| {
            Body::new(WatchedBody {
                body: Some(body),
                left: left.clone(),
                activity: Arc::clone(&activity),
                held: Arc::clone(&held),
                waiting: None,
                hurry: None,
                paid: 0,
            })
        });
        // A router is ready at any time, and a clone of it is one pointer.
        let answer = self.router.clone().call(request);
        Box::pin(async move {
            let mut answer = answer.await?;
            drop(held);
            if let Some(body) = left.0.lock().take().filter(|_| protocol == Protocol::H2) {
                // Beside the answer, which must not be late for it.
                Group::new("unread body").spawn(async move {
                    read_on(body).await;
                    drop(in_flight);
                });
                return Ok(answer);
            }
            // A body that nobody reads stands between this answer and the next request; to wait
            // for 100 MB only in order to keep the connection would serve nobody.
            if protocol == Protocol::H1 && (activity.is_last_answer() || activity.body_left()) {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, close);
            }
            drop(in_flight);
            Ok(answer)
        })
    }
}

/// A piece of a body is a window into the buffer that it was read into, and keeps all of that in
/// memory: a client that sends byte by byte would cost us thousands of times what it sends.
fn compact(data: Bytes) -> Bytes {
    const SMALL: usize = 4096;
    if data.len() < SMALL {
        Bytes::copy_from_slice(&data)
    } else {
        data
    }
}

/// What a router left unread of a body.
#[derive(Clone, Default)]
struct Left(Arc<Mutex<Option<Incoming>>>);

/// Reads on for a while and throws away what comes. Over HTTP/2 a body that nobody reads ends with
/// a reset, and clients (curl, for one) then lose an answer that came before it. Over HTTP/1.1 the
/// connection lingers after the answer.
async fn read_on(mut body: Incoming) {
    let mut room = LINGER_BYTES;
    let all = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match room.checked_sub(length) {
                Some(less) => room = less,
                None => return,
            }
        }
    };
    timeout(LINGER, all).await.ok();
}

/// A request's body that waits for room, and tells when it has been read to its end.
struct WatchedBody {
    /// Always there, until it is dropped.
    body: Option<Incoming>,
    left: Left,
    activity: Arc<Activity>,
    held: Arc<Held>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Ends the time of a large body.
    hurry: Option<Pin<Box<Sleep>>>,
    /// How much had come when that time was last made longer.
    paid: usize,
}

impl WatchedBody {
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_none() && self.held.has_room() {
            return Poll::Ready(());
        }
        let held = &self.held;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(Arc::clone(held).room()));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(())
    }

    /// Whether a large body has had its time: whoever keeps a place and sends nothing keeps it from
    /// others.
    fn is_too_slow(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.held.is_on_a_place() {
            return false;
        }
        let bytes = self.held.bytes();
        let hurry = self
            .hurry
            .get_or_insert_with(|| Box::pin(sleep(PLACE_TIME)));
        if bytes >= self.paid + PLACE_PACE {
            self.paid = bytes;
            hurry.as_mut().reset(Instant::now() + PLACE_TIME);
        }
        hurry.as_mut().poll(cx).is_ready()
    }
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        ready!(self.poll_room(cx));
        if self.is_too_slow(cx) {
            let problem = io::Error::from(io::ErrorKind::TimedOut);
            return Poll::Ready(Some(Err(problem.into())));
        }
        let Some(body) = self.body.as_mut() else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        let frame = frame.map(|frame| frame.map(|frame| frame.map_data(compact)));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.held.add(data.len());
        }
        if frame.is_none() || self.is_end_stream() {
            self.activity.body_complete();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.left.0.lock() = Some(body);
        }
    }
}
