//! The few HTTP requests that tell whether a component is up.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A component that does not answer within this time is not up.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Trusts the lab's CA alone.
pub(crate) fn trusting(ca_pem: &str) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes())?)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Asks a loopback port, with TLS if there is a CA to trust.
///
/// # Errors
///
/// When there is no whole answer within a few seconds, or its status is not 200: the error has
/// its body.
pub(crate) fn ask(
    port: u16,
    trusted: Option<&Arc<ClientConfig>>,
    request: &Request<'_>,
) -> io::Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let answer = match trusted {
        None => exchange(&mut stream, request),
        Some(config) => {
            let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
            let session = ClientConnection::new(Arc::clone(config), name);
            let session = session.map_err(io::Error::other)?;
            exchange(&mut StreamOwned::new(session, stream), request)
        }
    }?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.split(' ').nth(1) == Some("200") {
        Ok(body.to_owned())
    } else {
        let status = head.lines().next().unwrap_or("no answer");
        Err(io::Error::other(format!("{status}: {}", body.trim())))
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    Get { path: &'a str },
    PostJson { path: &'a str, body: &'a str },
}

/// HTTP/1.0, so that the answer ends with the connection and has no chunks.
fn exchange(stream: &mut (impl Read + Write), request: &Request<'_>) -> io::Result<String> {
    let request = match request {
        Request::Get { path } => format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"),
        Request::PostJson { path, body } => {
            let length = body.len();
            let kind = "Content-Type: application/json";
            format!(
                "POST {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{body}"
            )
        }
    };
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
