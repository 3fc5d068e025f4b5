//! A small HTTPS client that behaves as the API server does: one connection, kept alive, HTTP/1.1,
//! a body of known length.

#[path = "../../lab/kubelet/unverified.rs"]
mod unverified;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{eventually, in_time};

/// One open connection. Closed when dropped.
#[derive(Debug)]
pub(crate) struct Client {
    sender: http1::SendRequest<Full<Bytes>>,
    /// The certificate that the server showed.
    pub(crate) server_certificate: Vec<u8>,
    /// Drives the connection.
    _driver: JoinSet<()>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// A header's value, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

impl Client {
    /// Connects and trusts the CA given alone. The certificate must be for `localhost`.
    pub(crate) async fn connect(addr: SocketAddr, ca_pem: &str) -> Self {
        // Boxed, because the connection's state is large and this is awaited everywhere.
        let connected = Box::pin(Self::try_connect(addr, ca_pem));
        in_time("a connection", connected).await.unwrap()
    }

    pub(crate) async fn try_connect(addr: SocketAddr, ca_pem: &str) -> io::Result<Self> {
        let stream = tls(addr, ca_pem, rustls::DEFAULT_VERSIONS).await?;
        Self::over(stream).await
    }

    /// Speaks over a TLS connection that was made by [`tls`].
    pub(crate) async fn over(stream: TlsStream<TcpStream>) -> io::Result<Self> {
        let shown = stream.get_ref().1.peer_certificates().unwrap();
        let server_certificate = shown[0].to_vec();
        let io = TokioIo::new(stream);
        let mut driver = JoinSet::new();
        let made = http1::handshake(io).await;
        let (sender, connection) = made.map_err(io::Error::other)?;
        driver.spawn(async move { drop(connection.await) });
        Ok(Self {
            sender,
            server_certificate,
            _driver: driver,
        })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.try_get(path).await.unwrap()
    }

    /// As [`Client::get`], for those who expect failures.
    pub(crate) async fn try_get(&mut self, path: &str) -> hyper::Result<Answer> {
        let request = request(Method::GET, path, None, Bytes::new());
        self.send(request).await
    }

    pub(crate) async fn post(
        &mut self,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Answer {
        let request = request(Method::POST, path, Some(content_type), body.into());
        self.send(request).await.unwrap()
    }

    /// As [`Client::post`], for those who count failures.
    pub(crate) async fn try_post(&mut self, path: &str, body: &str) -> hyper::Result<Answer> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let request = request(Method::POST, path, Some("application/json"), body);
        self.send(request).await
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Answer> {
        let exchange = async {
            self.sender.ready().await?;
            let answer = self.sender.send_request(request).await?;
            let (head, body) = answer.into_parts();
            Ok(Answer {
                status: head.status,
                headers: head.headers,
                body: body.collect().await?.to_bytes(),
            })
        };
        in_time("an answer", exchange).await
    }

    /// Whether the server has closed the connection, or told us not to use it again.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    pub(crate) async fn closed(&self) {
        eventually("closed by the server", async || self.is_closed()).await;
    }
}

fn request(
    method: Method,
    path: &str,
    content_type: Option<&str>,
    body: Bytes,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .header(HOST, "localhost");
    if let Some(content_type) = content_type {
        request = request.header(CONTENT_TYPE, content_type);
    }
    request.body(Full::new(body)).unwrap()
}

/// Only the TLS connection, for tests that misbehave on it.
pub(crate) async fn tls(
    addr: SocketAddr,
    ca_pem: &str,
    versions: &[&'static SupportedProtocolVersion],
) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(addr).await?;
    // As Go does for every connection.
    stream.set_nodelay(true)?;
    tls_over(stream, ca_pem, versions).await
}

/// The same over a connection that is there already.
pub(crate) async fn tls_over(
    stream: TcpStream,
    ca_pem: &str,
    versions: &[&'static SupportedProtocolVersion],
) -> io::Result<TlsStream<TcpStream>> {
    let config = trusting(ca_pem, &[b"http/1.1"], versions);
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").unwrap();
    connector.connect(name, stream).await
}

/// The same for a client that offers these protocols in the handshake.
pub(crate) async fn tls_offering(
    addr: SocketAddr,
    ca_pem: &str,
    protocols: &[&[u8]],
) -> io::Result<TlsStream<TcpStream>> {
    let config = trusting(ca_pem, protocols, rustls::DEFAULT_VERSIONS);
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").unwrap();
    connector
        .connect(name, TcpStream::connect(addr).await?)
        .await
}

/// As an API server calls a Service: by a name of its own, over HTTP/1.1.
pub(crate) async fn tls_by(
    addr: SocketAddr,
    ca_pem: &str,
    name: &'static str,
) -> io::Result<TlsStream<TcpStream>> {
    let config = trusting(ca_pem, &[b"http/1.1"], &[&rustls::version::TLS13]);
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from(name).unwrap();
    connector
        .connect(name, TcpStream::connect(addr).await?)
        .await
}

fn trusting(
    ca_pem: &str,
    protocols: &[&[u8]],
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap();
    roots.add(ca).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
    config
}

/// The certificate that a server shows, from any CA; it must have the key to it.
pub(crate) async fn shown(addr: SocketAddr) -> io::Result<Vec<u8>> {
    let stream = unverified::connect(TcpStream::connect(addr).await?).await?;
    let chain = stream.get_ref().1.peer_certificates().unwrap();
    Ok(chain[0].to_vec())
}
