//! Sockets and TLS: an HTTPS server that keeps its promises to the API server as a client.
//!
//! Owns listening, handshakes, the limits on clients, the life of a connection and the drain. It
//! must not know Kubernetes nor what the router does; it serves whatever `Router` it is given, and each
//! request carries the client's address as an extension of type `IpAddr`.
//!
//! What the caller does, in order: [`bind::bind`] both addresses, [`admin::start`], make a
//! [`tls::LivePair`], [`Server::new`], and run [`Server::run`] as a task.

pub mod admin;
pub mod args;
pub mod bind;
pub mod descriptors;
pub mod probe;
pub mod tls;

mod accept;
mod connection;

use std::io;
use std::net::{self, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use self::accept::Acceptor;
use self::args::Limits;
use self::connection::{Connections, Orders, Stage};
use self::tls::{LivePair, LiveTls, TlsError};
use crate::lifecycle::{Group, HealthCheck, Shutdown};
use crate::telemetry::with_causes;

/// How long to wait before the server asks itself again whether it answers.
const PROBE_PAUSE: Duration = Duration::from_millis(200);

/// An HTTPS server, ready to run.
pub struct Server {
    listener: TcpListener,
    /// Where it listens; the real port when 0 was asked for.
    pub address: SocketAddr,
    connections: Arc<Connections>,
    pair: LivePair,
    limits: Limits,
    ready: HealthCheck,
}

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot use the listening socket")]
    Listener(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Server {
    /// Takes a bound listener and everything that is needed to serve on it.
    ///
    /// `ready` passes once the server has answered a TLS handshake to itself, and fails when
    /// the drain begins.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn new(
        listener: net::TcpListener,
        router: Router,
        pair: LivePair,
        limits: Limits,
        ready: HealthCheck,
    ) -> Result<Self, ServerError> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let tls = LiveTls::new(&pair, limits.client_ca.as_deref())?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            connections: Arc::new(Connections::new(tls, router, limits.clone())),
            pair,
            limits,
            ready,
        })
    }

    /// Serves until the shutdown, then drains:
    ///
    /// 1. From the first moment on every answer says `Connection: close`, while new connections are
    ///    still accepted for the delay.
    /// 2. After the delay nothing new is accepted, idle connections are closed, open requests are
    ///    finished.
    /// 3. At the drain deadline, or at once on an abort, whatever is left is dropped.
    pub async fn run(self, shutdown: Shutdown) {
        let group = Group::new("connection");
        let (orders, _) = watch::channel(Orders::default());
        let acceptor = Acceptor {
            listener: &self.listener,
            connections: Arc::clone(&self.connections),
            orders: orders.clone(),
            group: group.clone(),
            room: Arc::new(Semaphore::new(self.limits.max_connections as usize)),
        };

        tokio::select! {
            biased;
            () = shutdown.aborted() => return,
            () = self.delay_over(&shutdown, &orders) => {}
            () = acceptor.run() => {}
            () = self.connections.tls.follow() => {}
            () = self.prove_ready() => {}
        }
        // tokio's IO driver has its turn first: it would miss connections that came since its last one.
        tokio::task::yield_now().await;
        acceptor.take_what_waits();
        drop(acceptor);
        drop(self.listener);

        orders.send_modify(|now| now.stage = Stage::Stopping);
        tokio::select! {
            () = shutdown.aborted() => {}
            end = timeout(self.limits.drain_deadline, group.finished()) => {
                if end.is_err() {
                    let open = group.len();
                    tracing::warn!(open, "drain deadline reached: dropping what is still open");
                }
            }
        }
        // The connections see that the orders have ended, and end as well.
        drop(orders);
    }

    async fn delay_over(&self, shutdown: &Shutdown, orders: &watch::Sender<Orders>) {
        shutdown.draining().await;
        self.ready.fail("shutting down");
        orders.send_modify(|now| now.stage = Stage::Draining);
        sleep(self.limits.shutdown_delay).await;
    }

    /// Lets the check pass when the listener answers, and then waits for ever.
    async fn prove_ready(&self) {
        while self.pair.current().is_none() {
            self.ready.fail("waits for a certificate");
            sleep(PROBE_PAUSE).await;
        }
        while let Err(error) = probe::probe_own_listener(self.address, &self.pair).await {
            tracing::warn!(
                error = with_causes(&error),
                "the server does not answer itself"
            );
            self.ready.fail(error.to_string());
            sleep(PROBE_PAUSE).await;
        }
        self.ready.pass();
        std::future::pending().await
    }
}
