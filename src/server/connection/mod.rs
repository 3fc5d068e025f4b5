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
mod orders;
mod peers;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use self::activity::{Activity, Expiry, Rules, UNUSED_UNDER_PRESSURE};
use self::budget::Pool;
use self::handler::Handler;
use self::io::{LINGER, Watched};
pub(super) use self::orders::{Orders, Stage};
pub(super) use self::peers::{Peers, Place};
use super::args::Limits;
use super::tls::{LiveTls, is_for};

/// What all connections of a server have in common.
pub(super) struct Connections {
    pub(super) tls: LiveTls,
    router: Router,
    limits: Limits,
    pool: Pool,
    pub(super) peers: Arc<Peers>,
    http: http1::Builder,
}

/// A connection as hyper serves it.
type Served = http1::Connection<TokioIo<Watched>, Handler>;

/// The answer to a client that speaks HTTP/2 without having asked whether we do.
const NO_HTTP2: &[u8] =
    b"HTTP/1.1 505 HTTP Version Not Supported\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// How a connection ended, for the log.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("closed in order")]
    Closed,
    #[error("broken, or no HTTP/1.1: {0}")]
    Broken(hyper::Error),
    #[error("dropped, the client took too long: {0:?}")]
    Expired(Expiry),
    #[error("dropped with the server")]
    Abandoned,
}

impl Connections {
    pub(super) fn new(tls: LiveTls, router: Router, limits: Limits) -> Self {
        let header_size = limits.header_size as usize;
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_header_size(header_size)
            .max_buf_size(header_size);
        Self {
            tls,
            router,
            pool: Pool::new(limits.body_memory),
            peers: Arc::new(Peers::new(
                limits.connections_per_peer,
                &limits.api_server_peers,
            )),
            limits,
            http,
        }
    }

    /// How many there may be at once.
    pub(super) fn limit(&self) -> usize {
        self.limits.max_connections as usize
    }

    /// Serves one connection until it ends.
    pub(super) async fn serve(
        self: Arc<Self>,
        stream: TcpStream,
        place: Place,
        mut orders: watch::Receiver<Orders>,
    ) {
        // Answers are small and written at once: waiting to fill a packet only costs time.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let tls = TlsAcceptor::from(self.tls.config.load_full());
        let stream = tokio::select! {
            handshake = tls.accept(stream) => match handshake {
                Ok(stream) => stream,
                Err(error) => return tracing::debug!(%error, "TLS handshake failed"),
            },
            () = too_long(&mut orders, self.limits.handshake_time) => {
                return tracing::debug!("TLS handshake took too long");
            }
        };
        // In a box, so that a handshake, of which there may be many that never end well, does not
        // hold the room that serving takes.
        Box::pin(self.speak(stream, &place, orders)).await;
    }

    async fn speak(
        &self,
        stream: TlsStream<TcpStream>,
        place: &Place,
        orders: watch::Receiver<Orders>,
    ) {
        let (opened, activity) = (Instant::now(), Arc::clone(&place.activity));
        let chain = stream.get_ref().1.peer_certificates();
        let is_caller = self.limits.client_ca.is_none() || is_for(chain, &self.limits.client_names);
        let io = TokioIo::new(Watched::new(stream, Arc::clone(&activity)));
        let handler = Handler {
            is_caller,
            router: self.router.clone(),
            activity: Arc::clone(&activity),
            pool: self.pool.clone(),
            peer: place.peer,
        };
        let mut served = self.http.serve_connection(io, handler);
        let mut life = Life {
            activity,
            rules: Rules::new(&self.limits, opened),
            orders,
        };
        let end = life.drive(&mut served).await;
        tracing::debug!(%end, "connection ended");
        if matches!(&end, End::Broken(error) if error.is_parse_version_h2()) {
            let stream = served.into_parts().io.into_inner();
            // The client is gone, or gets the answer; there is nothing else to do for it.
            drop(timeout(2 * LINGER, refuse_http2(stream)).await);
        }
    }
}

async fn refuse_http2(mut stream: Watched) -> std::io::Result<()> {
    stream.write_all(NO_HTTP2).await?;
    stream.flush().await?;
    stream.shutdown().await
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
    /// Its place is wanted: what is due has changed.
    Asked,
    Served(Result<(), hyper::Error>),
    Overdue(Expiry),
}

/// Watches over one connection while hyper serves it.
struct Life<'a> {
    activity: Arc<Activity>,
    rules: Rules<'a>,
    orders: watch::Receiver<Orders>,
}

impl Life<'_> {
    async fn drive(&mut self, served: &mut Served) -> End {
        // An order that was given during the handshake is news to this connection.
        self.orders.mark_changed();
        let mut timer = pin!(sleep_until(Instant::now()));
        loop {
            let event = tokio::select! {
                // Orders first, so that an answer made after the signal already says so; then
                // hyper, so that bytes which have arrived count before any deadline does.
                biased;
                changed = self.orders.changed() => Event::Ordered(changed.is_ok()),
                end = &mut *served => Event::Served(end),
                () = self.activity.asked.notified() => Event::Asked,
                expiry = poll_fn(|cx| {
                    poll_expiry(&self.rules, &self.activity, cx, timer.as_mut())
                }) => Event::Overdue(expiry),
            };
            match event {
                Event::Ordered(true) => self.obey(),
                Event::Ordered(false) => return End::Abandoned,
                Event::Asked => {}
                Event::Served(Ok(())) => return End::Closed,
                Event::Served(Err(error)) => return End::Broken(error),
                Event::Overdue(expiry @ (Expiry::Idle | Expiry::Unused)) => {
                    if let Poll::Ready(end) = self.look_once_more(served).await {
                        return end.map_or_else(End::Broken, |()| End::Closed);
                    }
                    let still = self.rules.due(&self.activity.now()).1 == expiry;
                    if still && expiry == Expiry::Unused {
                        return End::Expired(expiry);
                    }
                    if still {
                        self.close_gently(served);
                    }
                }
                Event::Overdue(Expiry::Old) => self.retire(),
                Event::Overdue(expiry @ (Expiry::Headers | Expiry::Stuck)) => {
                    return End::Expired(expiry);
                }
            }
        }
    }

    fn obey(&mut self) {
        self.rules.orders = *self.orders.borrow_and_update();
        if self.rules.orders.stage != Stage::Serving {
            self.retire();
        }
    }

    /// No request after the next, whose answer says so. hyper would close an idle connection right
    /// away, and the client may be sending.
    fn retire(&mut self) {
        self.rules.retired = true;
        self.activity.make_next_answer_the_last();
    }

    /// A request may have arrived that hyper has not seen yet: to close now would lose it.
    async fn look_once_more(&self, served: &mut Served) -> Poll<Result<(), hyper::Error>> {
        self.activity.look_once_more();
        poll_fn(|cx| Poll::Ready(Pin::new(&mut *served).poll(cx))).await
    }

    fn close_gently(&mut self, served: &mut Served) {
        self.rules.retired = true;
        self.rules.closing.get_or_insert_with(Instant::now);
        Pin::new(served).graceful_shutdown();
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
