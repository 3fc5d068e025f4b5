//! Flags of the server, and the limits they set.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::value_parser;
use ipnet::IpNet;
use jiff::SignedDuration;

/// The API server drops its idle connections after 90 s. To close one earlier would race the call
/// that it is just sending on it, and such a call fails; so there is a floor.
pub const IDLE_TIME_FLOOR: Duration = Duration::from_secs(120);

/// Bytes that one large body may hold in memory: 8 MiB, and what keeping its pieces costs.
pub(super) const LARGE_BODY: usize = 10 * 1024 * 1024;

/// Where the server runs: the defaults differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On a person's own machine: listens on loopback, ends without delay.
    Standalone,
    /// In a cluster: listens on all addresses, goes on for a while after it was told to stop.
    Cluster,
}

/// Flags of the server.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// Address of the HTTPS endpoints; port 0 takes any free one
    /// [default: all addresses, port 8443, in a pod; 127.0.0.1:8443 standalone and with --kubeconfig]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,

    /// Address of probes and metrics (plain HTTP)
    /// [default: all addresses, port 8080, in a pod; 127.0.0.1:8080 standalone and with --kubeconfig]
    #[arg(long, value_name = "ADDRESS")]
    pub admin_listen: Option<SocketAddr>,

    /// How long to go on accepting after the signal to stop, while the endpoints are withdrawn
    /// [default: 15s in a pod, 0s standalone and with --kubeconfig]
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    pub shutdown_delay: Option<Duration>,

    /// The rest, which has the same defaults everywhere.
    #[command(flatten)]
    limits: Limits,
}

/// What clients may do, and how long.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Limits {
    /// [`ServerArgs::shutdown_delay`] with its default.
    #[arg(skip)]
    pub shutdown_delay: Duration,

    /// After the delay, how long open requests may take before they are dropped
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_time)]
    pub drain_deadline: Duration,

    /// Most connections at once; more wait until idle ones are closed
    #[arg(long, value_name = "COUNT", default_value_t = 2048, value_parser = value_parser!(u32).range(1..))]
    pub max_connections: u32,

    /// Most connections of one peer address; for another one the longest idle one is closed, and if
    /// all are in use, the new one. Clients behind one load balancer share an address
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = value_parser!(u32).range(1..))]
    pub connections_per_peer: u32,

    /// Address or network of API servers (repeatable): has no limit of its own, and keeps its idle
    /// connections while other peers make room
    #[arg(long = "api-server-peer", value_name = "ADDRESS", value_parser = parse_network)]
    pub api_server_peers: Vec<IpNet>,

    /// Answer only clients with a certificate of these CAs (PEM), which API servers present by their
    /// admission configuration; meshgate follows changes of the file [default: none, and every client
    /// is answered]
    #[arg(long, value_name = "FILE")]
    pub client_ca: Option<PathBuf>,

    /// Common name or DNS name that a client's certificate must have (repeatable)
    /// [default: any of --client-ca]
    #[arg(long = "client-name", value_name = "NAME", requires = "client_ca")]
    pub client_names: Vec<String>,

    /// How long a TLS handshake may take
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_time)]
    pub handshake_time: Duration,

    /// How long a request's headers may take from their first byte
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_time)]
    pub header_time: Duration,

    // Below 8 KiB the HTTP library cannot go.
    /// Most bytes of a request's headers
    #[arg(long, value_name = "BYTES", default_value_t = 16 * 1024, value_parser = value_parser!(u32).range(8192..=1_048_576))]
    pub header_size: u32,

    /// How long an idle connection is kept; at least 120s, because the API server keeps its own
    /// for 90s
    #[arg(long, value_name = "DURATION", default_value = "180s", value_parser = parse_idle_time)]
    pub idle_time: Duration,

    /// Age at which a connection is closed gracefully after its next response
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_time)]
    pub connection_age: Duration,

    /// Most bytes of large request bodies in memory at once, beyond 16 KiB for each connection;
    /// more wait until there is room
    #[arg(long, value_name = "BYTES", default_value_t = 24 * 1024 * 1024, value_parser = value_parser!(u32).range(LARGE_BODY as i64..))]
    pub body_memory: u32,
}

impl ServerArgs {
    /// The address to serve HTTPS on.
    pub fn listen(&self, placement: Placement) -> SocketAddr {
        self.listen.unwrap_or_else(|| placement.address(8443))
    }

    /// The address of probes and metrics.
    pub fn admin_listen(&self, placement: Placement) -> SocketAddr {
        self.admin_listen
            .unwrap_or_else(|| placement.admin_address())
    }

    /// The limits as given, with the defaults of `placement`.
    pub fn limits(&self, placement: Placement) -> Limits {
        let by_default = match placement {
            Placement::Standalone => Duration::ZERO,
            Placement::Cluster => Duration::from_secs(15),
        };
        Limits {
            shutdown_delay: self.shutdown_delay.unwrap_or(by_default),
            ..self.limits.clone()
        }
    }
}

impl Placement {
    /// Where probes and metrics are served by default.
    pub fn admin_address(self) -> SocketAddr {
        self.address(8080)
    }

    fn address(self, port: u16) -> SocketAddr {
        let ip: IpAddr = match self {
            Self::Standalone => Ipv4Addr::LOCALHOST.into(),
            Self::Cluster => Ipv6Addr::UNSPECIFIED.into(),
        };
        SocketAddr::new(ip, port)
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let expected = "expected a time with its unit, such as 500ms, 10s or 2m";
    let time: SignedDuration = text.parse().map_err(|_| expected.to_owned())?;
    Duration::try_from(time).map_err(|_| expected.to_owned())
}

fn parse_network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    let network = address.or_else(|_| text.parse());
    network
        .map_err(|_| "expected an address or a network, such as 192.0.2.7 or 192.0.2.0/24".into())
}

fn parse_idle_time(text: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    if time < IDLE_TIME_FLOOR {
        return Err(
            "must be at least 120s: the API server keeps idle connections for 90s, and one that is closed under it fails its next call"
                .to_owned(),
        );
    }
    Ok(time)
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
