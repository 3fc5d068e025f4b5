//! The socket side of a connection: sees bytes arrive, and closes without cutting answers off.

use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{io, net};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;

use super::activity::Activity;

/// How long, and for how many bytes, the server reads on after an answer that came before the end of
/// the request.
pub(super) const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// A stream that tells the connection's [`Activity`] of what it reads.
pub(super) struct Watched {
    stream: TlsStream<TcpStream>,
    activity: Arc<Activity>,
    closing: Closing,
}

enum Closing {
    /// Our side of the stream is still open.
    No,
    /// Our side is closed, and what the client still sends is thrown away.
    Lingering {
        until: Pin<Box<Sleep>>,
        bytes_left: usize,
    },
    Done,
}

impl Watched {
    pub(super) fn new(stream: TlsStream<TcpStream>, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            activity,
            closing: Closing::No,
        }
    }

    /// Whether the kernel holds bytes that we have not read. tokio remembers that a socket was empty
    /// until its next turn of looking at all sockets, which on a busy machine can come too late: the
    /// connection would be closed although a request has arrived.
    fn bytes_wait(&self) -> bool {
        // tokio offers no read that bypasses that memory, so the socket is asked through a second
        // descriptor, which is closed again at once.
        let Ok(descriptor) = self.stream.get_ref().0.as_fd().try_clone_to_owned() else {
            return false;
        };
        let seen = net::TcpStream::from(descriptor).peek(&mut [0]);
        seen.is_ok_and(|count| count > 0)
    }

    /// Reads on after the end. Closing a socket with unread bytes resets it, and a reset makes
    /// the client lose the answer that is on its way, the 413 that says what was wrong.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Closing::Lingering { until, bytes_left } = &mut self.closing else {
            return Poll::Ready(());
        };
        let mut scratch = [0; 4096];
        while *bytes_left > 0 {
            if until.as_mut().poll(cx).is_ready() {
                break;
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(pin!(&mut self.stream).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
            *bytes_left = bytes_left.saturating_sub(buffer.filled().len());
        }
        self.closing = Closing::Done;
        Poll::Ready(())
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let more = buffer.filled().len() > before;
        if more || self.activity.takes_last_look() && read.is_pending() && self.bytes_wait() {
            self.activity.bytes_read();
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.closing, Closing::No) {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.closing = if self.activity.has_more_to_come() {
                Closing::Lingering {
                    until: Box::pin(sleep(LINGER)),
                    bytes_left: LINGER_BYTES,
                }
            } else {
                Closing::Done
            };
        }
        ready!(self.poll_linger(cx));
        Poll::Ready(Ok(()))
    }
}
