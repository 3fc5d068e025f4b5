//! Between hyper and the router: what is being answered, and whether it is the last answer.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse;
use axum::{BoxError, Router};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tower::Service;

use super::activity::Activity;
use super::budget::{Permit, Pool, Share};

/// The answer to a client that shows no certificate of an API server: it learns nothing else.
const NO_CALLER: &str = "meshgate answers API servers: expected a client certificate that --client-ca signed for a \
                         --client-name\n";

/// Answers the requests of one connection, one after the other.
pub(super) struct Handler {
    /// Whether the client is one that may ask.
    pub(super) is_caller: bool,
    pub(super) router: Router,
    pub(super) activity: Arc<Activity>,
    pub(super) pool: Pool,
    /// The client's address, which each request carries as an extension.
    pub(super) peer: IpAddr,
}

impl hyper::service::Service<Request<Incoming>> for Handler {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let activity = Arc::clone(&self.activity);
        activity.begin_request(!request.body().is_end_stream());
        if !self.is_caller {
            let mut answer = (StatusCode::FORBIDDEN, NO_CALLER).into_response();
            let close = HeaderValue::from_static("close");
            answer.headers_mut().insert(CONNECTION, close);
            activity.end_request();
            return Box::pin(std::future::ready(Ok(answer)));
        }
        let permit = Permit::default();
        let mut request = request.map(|body| {
            Body::new(WatchedBody {
                body,
                activity: Arc::clone(&activity),
                share: Share::new(self.pool.clone(), Arc::clone(&permit)),
            })
        });
        request.extensions_mut().insert(self.peer);
        // A router is ready at any time, and a clone of it is one pointer.
        let answer = self.router.clone().call(request);
        Box::pin(async move {
            let mut answer = answer.await?;
            drop(permit);
            // What the router leaves of a body stands between this answer and the next request.
            // Waiting for 100 MB only to keep the connection would help no client.
            if activity.is_last_answer() || activity.body_left() {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, close);
            }
            activity.end_request();
            Ok(answer)
        })
    }
}

/// A request's body that waits for room, and tells when it has been read to its end.
struct WatchedBody {
    body: Incoming,
    activity: Arc<Activity>,
    share: Share,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Err(problem) = ready!(self.share.poll_room(cx)) {
            return Poll::Ready(Some(Err(problem.into())));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let frame = frame.map(|frame| frame.map(|frame| frame.map_data(compact)));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.share.add(data.len());
        }
        if frame.is_none() || self.is_end_stream() {
            self.activity.body_complete();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
