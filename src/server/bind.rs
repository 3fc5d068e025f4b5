//! Taking a listening address.

use std::io::{self, ErrorKind};
use std::net::{self, Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// Connections that the kernel holds until they are accepted. A burst of creations comes on up to
/// 50 connections from each API server at once; there is no reason to be stingy.
const BACKLOG: u32 = 4096;

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}{hint}; choose another address with {flag}")]
pub struct BindError {
    pub address: SocketAddr,
    pub flag: &'static str,
    hint: &'static str,
    source: io::Error,
}

/// Listens on `address`; `flag` is what an error tells the reader to change.
///
/// `[::]` takes IPv4 callers too, and where there is no IPv6 at all `0.0.0.0` is taken in its
/// place; the listener's own address says which it became.
///
/// # Errors
///
/// When the address is taken, not of this machine, or a port that only root may use.
///
/// # Panics
///
/// Outside a tokio runtime.
pub fn bind(address: SocketAddr, flag: &'static str) -> Result<net::TcpListener, BindError> {
    bind_by(listen, address, flag)
}

fn bind_by(
    listen: impl Fn(SocketAddr) -> io::Result<net::TcpListener>,
    address: SocketAddr,
    flag: &'static str,
) -> Result<net::TcpListener, BindError> {
    let mut bound = listen(address);
    if let Err(error) = &bound
        && address.ip().is_unspecified()
        && address.is_ipv6()
        && no_ipv6(error)
    {
        tracing::info!("no IPv6 here, listening on IPv4 only");
        bound = listen(SocketAddr::new(
            Ipv4Addr::UNSPECIFIED.into(),
            address.port(),
        ));
    }
    bound.map_err(|source| BindError {
        address,
        flag,
        hint: hint(source.kind()),
        source,
    })
}

fn hint(kind: ErrorKind) -> &'static str {
    let known = [
        (ErrorKind::AddrInUse, ": another program listens there"),
        (
            ErrorKind::PermissionDenied,
            ": ports below 1024 take special rights",
        ),
        (
            ErrorKind::AddrNotAvailable,
            ": not an address of this machine",
        ),
    ];
    let found = known.iter().find(|(one, _)| *one == kind);
    found.map_or("", |(_, hint)| hint)
}

fn listen(address: SocketAddr) -> io::Result<net::TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // So that a restart does not have to wait for the old connections' TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

fn no_ipv6(error: &io::Error) -> bool {
    const EAFNOSUPPORT: i32 = 97;
    error.raw_os_error() == Some(EAFNOSUPPORT) || error.kind() == ErrorKind::AddrNotAvailable
}

#[cfg(test)]
#[path = "bind_tests.rs"]
mod tests;
