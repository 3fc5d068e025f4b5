//! The client: kube's parts without its retries and its log lines per failure, and with keep-alive on
//! the connection, so that a connection that is cut without a word is noticed within 30 s.

use std::time::Duration;

use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

/// How long a TCP connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// The kernel asks the peer after so much silence, so often, and so many times. Load balancers between
/// then do not forget the connection.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// A client for the API server that `config` names. It does not connect yet.
///
/// # Errors
/// The credentials or the CA cannot be used.
pub fn connect(config: &Config) -> Result<Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(KEEPALIVE + KEEPALIVE_INTERVAL * KEEPALIVE_RETRIES));
    let https = config.rustls_https_connector_with_connector(tcp)?;
    let http = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(https);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}
