//! Clients that must show a certificate: `--client-ca` and `--client-name`.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::echo;
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::server::TestServer;

/// A CA that signs clients' certificates.
pub(crate) struct ClientCa {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl ClientCa {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// Certificate and key of a client with this common name and these DNS names, PEM.
    pub(crate) fn client(&self, common: &str, dns: &[&str]) -> [String; 2] {
        let dns: Vec<String> = dns.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(dns).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        [cert.pem(), key.serialize_pem()]
    }
}

async fn connect(addr: SocketAddr, server_ca: &str, own: &[String; 2]) -> io::Result<Client> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(server_ca.as_bytes()).unwrap())
        .unwrap();
    let chain = vec![CertificateDer::from_pem_slice(own[0].as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(own[1].as_bytes()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(addr).await?;
    let name = ServerName::try_from("localhost").unwrap();
    Client::over(connector.connect(name, stream).await?).await
}

/// What a client with this certificate is told; `None` if TLS does not take it.
async fn status(server: &TestServer, own: &[String; 2]) -> Option<StatusCode> {
    let mut client = connect(server.addr, &server.ca_pem, own).await.ok()?;
    Some(client.try_get("/hello").await.ok()?.status)
}

async fn server(file: &std::path::Path, names: &[&str]) -> TestServer {
    TestServer::start_with(echo(), |limits| {
        limits.client_ca = Some(file.to_owned());
        limits.client_names = names.iter().map(|&name| name.to_owned()).collect();
    })
    .await
}

#[tokio::test]
async fn only_a_client_with_a_certificate_of_the_ca_and_a_name_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    let (ca, other) = (ClientCa::new(), ClientCa::new());
    fs::write(&file, &ca.pem).unwrap();
    // It is ready: the server asks itself without a certificate.
    let named = server(&file, &["api-server", "api.example.test"]).await;
    let ok = Some(StatusCode::OK);
    let forbidden = Some(StatusCode::FORBIDDEN);
    let table = [
        (ca.client("api-server", &[]), ok),
        (ca.client("x", &["api.example.test"]), ok),
        (ca.client("kubelet", &["node.example.test"]), forbidden),
        (ca.client("", &[]), forbidden),
        (other.client("api-server", &[]), None),
    ];
    for (own, expected) in &table {
        assert_eq!(status(&named, own).await, *expected);
    }
    for (path, body) in [("/echo", "{}"), ("/hello", ""), ("/nothing", "")] {
        let mut client = named.client().await;
        let answer = client.post(path, "application/json", body).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
        assert!(
            answer.text().contains("expected a client certificate"),
            "{path}"
        );
        assert_eq!(answer.header("connection"), "close");
    }
    let any = server(&file, &[]).await;
    assert_eq!(status(&any, &ca.client("kubelet", &[])).await, ok);
    assert_eq!(status(&any, &other.client("kubelet", &[])).await, None);
}

#[tokio::test]
async fn another_ca_in_the_file_counts_without_a_restart_and_a_damaged_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    let (before, after) = (ClientCa::new(), ClientCa::new());
    fs::write(&file, &before.pem).unwrap();
    let server = server(&file, &[]).await;
    let (old, new) = (before.client("a", &[]), after.client("a", &[]));
    assert_eq!(status(&server, &new).await, None);
    fs::write(&file, "damaged").unwrap();
    fs::write(&file, format!("{}{}", before.pem, after.pem)).unwrap();
    eventually("the new CA", async || {
        status(&server, &new).await == Some(StatusCode::OK)
    })
    .await;
    assert_eq!(status(&server, &old).await, Some(StatusCode::OK));
    fs::write(&file, "damaged").unwrap();
    // Nothing tells that the server has looked; it must not matter when it does.
    for _ in 0..20 {
        assert_eq!(status(&server, &old).await, Some(StatusCode::OK));
    }
}
