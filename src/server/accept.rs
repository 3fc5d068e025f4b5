//! The accept loop: takes connections as long as there is room, and starts a task for each.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use super::connection::{Connections, Orders};
use crate::lifecycle::Group;
use crate::telemetry::with_causes;

/// After an error that will not go away by asking again at once, as when there are no more file
/// descriptors. Without it the loop would take a whole core just when that core is needed.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

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
                Ok((stream, _)) => self.start(stream, room),
                Err(error) if is_of_one_caller(&error) => {}
                Err(error) => {
                    tracing::error!(
                        error = with_causes(&error),
                        "cannot accept connections; trying again"
                    );
                    // Most likely out of descriptors, and the unused connections hold some.
                    self.set_pressed(true);
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
                Poll::Ready(Ok((stream, _))) => self.start(stream, room),
                // One caller that has gone away again is not the end of those that wait.
                Poll::Ready(Err(error)) if error.kind() == ErrorKind::ConnectionAborted => {}
                Poll::Ready(Err(_)) | Poll::Pending => return,
            }
        }
    }

    fn start(&self, stream: TcpStream, room: OwnedSemaphorePermit) {
        let serve = Arc::clone(&self.connections).serve(stream, self.orders.subscribe());
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
        let room = Arc::clone(&self.room);
        if let Ok(permit) = room.try_acquire_owned() {
            return permit;
        }
        self.set_pressed(true);
        match Arc::clone(&self.room).acquire_owned().await {
            Ok(permit) => permit,
            // Never closed; if it were, there would be no more room.
            Err(_) => std::future::pending().await,
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
                "no room for more connections: callers wait, and connections that were never used are closed"
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
