//! Probes and metrics: plain HTTP on a listener, a thread and a runtime of their own.
//!
//! Owns the answers to `/livez`, `/readyz`, `/healthz` and `/metrics`. Its own thread, so that a
//! probe is answered while every worker is busy with admission: a server that is merely busy must
//! not be restarted for it. It must not know what the conditions and metrics are about.

mod health;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{self, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use axum::body::{Body, Bytes};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use self::health::Health;

/// A probe is small and near; what takes longer is no probe.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
const HEADER_TIME: Duration = Duration::from_secs(5);
const MAX_CONNECTIONS: usize = 256;
const ERROR_PAUSE: Duration = Duration::from_millis(100);
const TEXT: &str = "text/plain; charset=utf-8";

/// The metrics at the moment of a scrape.
#[derive(Clone, Debug)]
pub struct Exposition {
    /// What the body is written in, with version and charset.
    pub content_type: &'static str,
    /// The metrics.
    pub body: String,
}

/// Makes the metrics; called on the admin thread at each scrape, so it must not block for long.
pub type Scrape = Arc<dyn Fn() -> Exposition + Send + Sync>;

/// The running admin server. Dropping it ends it.
#[derive(Debug)]
pub struct Admin {
    /// Where it listens; the real port when 0 was asked for.
    pub address: SocketAddr,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// Serves probes and metrics on `listener` until the handle is dropped. To be dropped last, so
/// that probes are answered while the program drains.
///
/// # Errors
///
/// When the listener cannot be used, or the thread not be started.
pub fn start(listener: net::TcpListener, health: Health, scrape: Scrape) -> io::Result<Admin> {
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let listener = {
        let _inside = runtime.enter();
        TcpListener::from_std(listener)?
    };
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let thread = thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || {
            let serving = serve(listener, Arc::new(Answers { health, scrape }));
            runtime.block_on(stopped.run_until_cancelled_owned(serving));
        })?;
    Ok(Admin {
        address,
        stop,
        thread: Some(thread),
    })
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the admin thread panicked");
        }
    }
}

async fn serve(listener: TcpListener, answers: Arc<Answers>) {
    let mut connections = JoinSet::new();
    let mut by_age = VecDeque::new();
    loop {
        while connections.try_join_next().is_some() {}
        by_age.retain(|connection: &AbortHandle| !connection.is_finished());
        match listener.accept().await {
            Ok((stream, _)) => {
                // The kubelet must not wait: a probe that works is over in no time, so the oldest
                // connection is the one that does nothing.
                if by_age.len() >= MAX_CONNECTIONS
                    && let Some(oldest) = by_age.pop_front()
                {
                    oldest.abort();
                }
                by_age.push_back(connections.spawn(serve_one(stream, Arc::clone(&answers))));
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept probes; trying again");
                sleep(ERROR_PAUSE).await;
            }
        }
    }
}

async fn serve_one(stream: TcpStream, answers: Arc<Answers>) {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = answers.answer(&request);
        async move { Ok::<_, Infallible>(answer) }
    });
    // One request per connection, so that none is closed under a client that is just sending.
    let served = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(CONNECTION_TIME, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a probe's connection broke"),
        Err(_) => tracing::debug!("a probe's connection took too long"),
    }
}

struct Answers {
    health: Health,
    scrape: Scrape,
}

impl Answers {
    fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let refused = answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "use GET\n");
            return ([(ALLOW, "GET, HEAD")], refused).into_response();
        }
        let path = request.uri().path();
        if path == "/metrics" {
            let Exposition { content_type, body } = (self.scrape)();
            return answer(StatusCode::OK, content_type, body);
        }
        let query = request.uri().query().unwrap_or_default();
        match self.health.answer(path, query) {
            Some((status, text)) => answer(status, TEXT, text),
            None => answer(StatusCode::NOT_FOUND, TEXT, "404 page not found\n"),
        }
    }
}

fn answer(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-cache, private"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, body.into()).into_response()
}
