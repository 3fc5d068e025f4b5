//! The life of one connection: handshake, requests, and the reasons for which it ends.
//!
//! hyper's own header timer also runs while a kept-alive connection waits for its next request
//! and so would close it under the API server. It stays off; what is timed here is what really
//! goes on, seen from both sides of hyper: bytes that arrive ([`io`]) and requests that are
//! answered ([`handler`]), brought together in [`activity`].

mod activity;
mod budget;
mod handler;
mod io;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use self::activity::{Activity, Expiry, Protocol, Rules, UNUSED_UNDER_PRESSURE};
pub(super) use self::budget::SMALLEST_POOL;
use self::budget::{Budget, Pool};
use self::handler::Handler;
use self::io::Watched;
use super::Server;
use super::args::Limits;
use super::tls::H2;
use crate::lifecycle::Group;

/// The window of an HTTP/2 connection and of each of its streams, the smallest that all clients
/// begin with anyway. Large enough for the full speed of a local network.
const WINDOW: u32 = 65_535;

/// What the server as a whole wants of its connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Orders {
    pub(super) stage: Stage,
    /// There is no room for more connections.
    pub(super) pressed: bool,
}

/// How far the server is on its way to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Nobody has asked it to stop.
    #[default]
    Serving,
    /// It was asked to stop and still accepts: answers tell clients to go elsewhere.
    Draining,
    /// It accepts no more: idle connections end, the others with their answer.
    Stopping,
}

/// What all connections of a server have in common.
pub(super) struct Connections {
    tls: TlsAcceptor,
    router: Router,
    limits: Limits,
    bodies: Pool,
    http1: http1::Builder,
    http2: http2::Builder<Streams>,
}

/// Starts the tasks of HTTP/2 requests.
#[derive(Clone)]
struct Streams(Group);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.0.spawn(stream);
    }
}

/// How a connection ended, for the log.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("closed in order")]
    Closed,
    #[error("broken, or no HTTP: {0}")]
    Broken(hyper::Error),
    #[error("dropped, the client took too long: {0:?}")]
    Expired(Expiry),
    #[error("dropped with the server")]
    Abandoned,
}

impl Connections {
    pub(super) fn new(server: &Server) -> Self {
        let limits = &server.limits;
        let header_size = limits.header_size as usize;
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_header_size(header_size)
            .max_buf_size(header_size);
        let mut http2 = http2::Builder::new(Streams(Group::new("stream")));
        http2
            .timer(TokioTimer::new())
            .max_header_list_size(limits.header_size)
            .max_concurrent_streams(limits.max_streams)
            // What a connection can make us hold before any body is read.
            .initial_connection_window_size(WINDOW)
            .initial_stream_window_size(WINDOW)
            // Asks a silent peer whether it is still there; a lost node says nothing at all.
            .keep_alive_interval(limits.idle_time / 4)
            .max_send_buf_size(64 * 1024);
        Self {
            tls: TlsAcceptor::from(Arc::clone(&server.tls)),
            router: server.router.clone(),
            limits: limits.clone(),
            bodies: Pool::new(limits.body_memory as usize),
            http1,
            http2,
        }
    }

    /// Serves one connection until it ends.
    pub(super) async fn serve(
        self: Arc<Self>,
        stream: TcpStream,
        mut orders: watch::Receiver<Orders>,
    ) {
        // Answers are small and written at once: waiting to fill a packet only costs time.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let stream = tokio::select! {
            handshake = self.tls.accept(stream) => match handshake {
                Ok(stream) => stream,
                Err(error) => return tracing::debug!(%error, "TLS handshake failed"),
            },
            () = too_long(&mut orders, self.limits.handshake_time) => {
                return tracing::debug!("TLS handshake took too long");
            }
        };
        // In a box, so that a handshake, of which there may be many that never end well, does not
        // hold the room that serving takes.
        Box::pin(self.speak(stream, orders)).await;
    }

    async fn speak(&self, stream: TlsStream<TcpStream>, orders: watch::Receiver<Orders>) {
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(H2) => Protocol::H2,
            Some(_) | None => Protocol::H1,
        };
        let activity = Arc::new(Activity::new(protocol, Instant::now()));
        let io = TokioIo::new(Watched::new(stream, Arc::clone(&activity)));
        let budget = Budget::new(self.bodies.clone(), protocol);
        let handler = Handler::new(self.router.clone(), Arc::clone(&activity), budget, protocol);
        let mut life = Life::new(activity, protocol, &self.limits, orders);
        let end = match protocol {
            Protocol::H1 => {
                let served = self.http1.serve_connection(io, handler);
                life.drive(pin!(served)).await
            }
            Protocol::H2 => {
                let served = self.http2.serve_connection(io, handler);
                life.drive(Box::pin(served).as_mut()).await
            }
        };
        tracing::debug!(%end, ?protocol, "connection ended");
    }
}

/// Completes when a handshake has had its time, which is short while others wait for the place,
/// and when the server no longer exists.
async fn too_long(orders: &mut watch::Receiver<Orders>, limit: Duration) {
    let begin = Instant::now();
    loop {
        let time = if orders.borrow_and_update().pressed {
            limit.min(UNUSED_UNDER_PRESSURE)
        } else {
            limit
        };
        tokio::select! {
            () = sleep_until(begin + time) => return,
            changed = orders.changed() => if changed.is_err() { return },
        }
    }
}

/// What a connection's guard wakes up for.
enum Event {
    /// The server wants something else (`true`), or is gone (`false`).
    Ordered(bool),
    /// hyper is done with it.
    Served(Result<(), hyper::Error>),
    /// The client took too long with something.
    Overdue(Expiry),
}

/// Watches over one connection while hyper serves it.
struct Life<'a> {
    activity: Arc<Activity>,
    rules: Rules<'a>,
    orders: watch::Receiver<Orders>,
}

impl<'a> Life<'a> {
    fn new(
        activity: Arc<Activity>,
        protocol: Protocol,
        limits: &'a Limits,
        orders: watch::Receiver<Orders>,
    ) -> Self {
        let rules = Rules::new(protocol, limits, Instant::now());
        Self {
            activity,
            rules,
            orders,
        }
    }

    async fn drive<C>(&mut self, mut served: Pin<&mut C>) -> End
    where
        C: GracefulConnection<Error = hyper::Error>,
    {
        // An order that was given during the handshake is news to this connection.
        self.orders.mark_changed();
        let mut timer = pin!(sleep_until(Instant::now()));
        loop {
            let event = tokio::select! {
                // Orders first, so that an answer made after the signal already says so; then
                // hyper, so that bytes which have arrived count before any deadline does.
                biased;
                changed = self.orders.changed() => Event::Ordered(changed.is_ok()),
                end = served.as_mut() => Event::Served(end),
                expiry = poll_fn(|cx| {
                    poll_expiry(&self.rules, &self.activity, cx, timer.as_mut())
                }) => Event::Overdue(expiry),
            };
            match event {
                Event::Ordered(true) => self.obey(served.as_mut()),
                Event::Ordered(false) => return End::Abandoned,
                Event::Served(Ok(())) => return End::Closed,
                Event::Served(Err(error)) => return End::Broken(error),
                Event::Overdue(expiry @ (Expiry::Idle | Expiry::Unused)) => {
                    if let Poll::Ready(end) = self.look_once_more(served.as_mut()).await {
                        return end.map_or_else(End::Broken, |()| End::Closed);
                    }
                    let still = self.rules.due(&self.activity.now()).1 == expiry;
                    if still && expiry == Expiry::Unused {
                        return End::Expired(expiry);
                    }
                    if still {
                        self.close_gently(served.as_mut());
                    }
                }
                Event::Overdue(Expiry::Old) => self.retire(served.as_mut()),
                Event::Overdue(expiry) => return End::Expired(expiry),
            }
        }
    }

    fn obey<C: GracefulConnection>(&mut self, served: Pin<&mut C>) {
        self.rules.orders = *self.orders.borrow_and_update();
        if self.rules.must_retire(&self.activity.now()) {
            self.retire(served);
        }
    }

    /// No request after the next: HTTP/1.1 says so in that answer, HTTP/2 at once by GOAWAY.
    fn retire<C: GracefulConnection>(&mut self, served: Pin<&mut C>) {
        if self.rules.retired {
            return;
        }
        self.rules.retired = true;
        match self.rules.protocol {
            // hyper would close an idle connection right away, and the client may be sending.
            Protocol::H1 => self.activity.make_next_answer_the_last(),
            Protocol::H2 => self.close_gently(served),
        }
    }

    /// A request may have arrived that nobody has told us of yet: to close now would lose it.
    async fn look_once_more<C>(&self, mut served: Pin<&mut C>) -> Poll<Result<(), hyper::Error>>
    where
        C: GracefulConnection<Error = hyper::Error>,
    {
        self.activity.look_once_more();
        poll_fn(|cx| Poll::Ready(served.as_mut().poll(cx))).await
    }

    fn close_gently<C: GracefulConnection>(&mut self, served: Pin<&mut C>) {
        self.rules.retired = true;
        self.rules.closing.get_or_insert_with(Instant::now);
        served.graceful_shutdown();
    }
}

/// Ready when something is overdue. The timer is only moved when it would go off too late, and
/// otherwise left to go off early and be set again: requests come far more often than limits.
fn poll_expiry(
    rules: &Rules<'_>,
    activity: &Activity,
    cx: &mut Context<'_>,
    mut timer: Pin<&mut Sleep>,
) -> Poll<Expiry> {
    loop {
        let (due, expiry) = rules.due(&activity.now());
        if due < timer.deadline() {
            timer.as_mut().reset(due);
        }
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        if due <= timer.deadline() {
            return Poll::Ready(expiry);
        }
        timer.as_mut().reset(due);
    }
}
