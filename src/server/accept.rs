//! The accept loop: takes connections as long as there is room, and starts a task for each.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::connection::{Connections, Orders};
use crate::lifecycle::Group;
use crate::telemetry::with_causes;

/// After an error that will not go away by asking again at once, as when there are no more file
/// descriptors. Without it the loop would take a whole core just when that core is needed.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// How often, while there is no room, idle connections are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Accepts for one server.
pub(super) struct Acceptor<'a> {
    pub(super) listener: &'a TcpListener,
    pub(super) connections: Arc<Connections>,
    pub(super) orders: watch::Sender<Orders>,
    pub(super) group: Group,
    /// As many permits as there may be connections.
    pub(super) room: Arc<Semaphore>,
}

impl Acceptor<'_> {
    /// Accepts for ever.
    pub(super) async fn run(&self) {
        loop {
            // Room first: a caller that has to wait then waits in the kernel's queue and costs nothing.
            let room = self.wait_for_room().await;
            match self.listener.accept().await {
                Ok((stream, peer)) => self.start(stream, peer, room),
                Err(error) if is_of_one_caller(&error) => {}
                Err(error) => {
                    tracing::error!(
                        error = with_causes(&error),
                        "cannot accept connections; trying again"
                    );
                    // Most likely out of descriptors, and the idle connections hold some.
                    self.set_pressed(true);
                    self.connections.peers.make_room();
                    sleep(ERROR_PAUSE).await;
                }
            }
        }
    }

    /// Takes the connections that the kernel has completed already: closing the listener would
    /// reset them under callers who may have sent.
    pub(super) fn take_what_waits(&self) {
        let mut context = Context::from_waker(Waker::noop());
        while let Ok(room) = Arc::clone(&self.room).try_acquire_owned() {
            match self.listener.poll_accept(&mut context) {
                Poll::Ready(Ok((stream, peer))) => self.start(stream, peer, room),
                // One caller that has gone away again is not the end of those that wait.
                Poll::Ready(Err(error)) if error.kind() == ErrorKind::ConnectionAborted => {}
                Poll::Ready(Err(_)) | Poll::Pending => return,
            }
        }
    }

    fn start(&self, stream: TcpStream, peer: SocketAddr, room: OwnedSemaphorePermit) {
        let Some(place) = self.connections.peers.enter(peer.ip()) else {
            return tracing::debug!(%peer, "closed: the peer uses --connections-per-peer connections");
        };
        let orders = self.orders.subscribe();
        let serve = Arc::clone(&self.connections).serve(stream, place, orders);
        // The place is free again when, and only when, the connection's task is over.
        self.group.spawn(async move {
            serve.await;
            drop(room);
        });
    }

    async fn wait_for_room(&self) -> OwnedSemaphorePermit {
        let enough = self.connections.limit() / 8;
        if self.orders.borrow().pressed && self.room.available_permits() > enough {
            self.set_pressed(false);
        }
        // Begun before the last place is taken, so that the next caller need not wait for it.
        if self.room.available_permits() <= self.connections.limit() / 16 {
            self.connections.peers.make_room();
        }
        if let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() {
            return permit;
        }
        self.set_pressed(true);
        loop {
            self.connections.peers.make_room();
            let permit = Arc::clone(&self.room).acquire_owned();
            if let Ok(Ok(permit)) = timeout(LOOK, permit).await {
                return permit;
            }
        }
    }

    fn set_pressed(&self, pressed: bool) {
        let changed = self.orders.send_if_modified(|now| {
            let differs = now.pressed != pressed;
            now.pressed = pressed;
            differs
        });
        if changed && pressed {
            let limit = self.connections.limit();
            tracing::warn!(
                limit,
                "no room for more connections: callers wait, and meshgate closes the longest idle connections"
            );
        }
    }
}

fn is_of_one_caller(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}
