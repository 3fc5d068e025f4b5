//! Flags of the server, and the limits they set.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use jiff::SignedDuration;

use super::connection::SMALLEST_POOL;

/// The API server drops its idle connections after 90 s. To close one earlier would race the call
/// that it is just sending on it, and such a call fails; so there is a floor.
pub const IDLE_TIME_FLOOR: Duration = Duration::from_secs(120);

/// Where the server runs: the defaults differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On somebody's machine: listens on loopback, ends without delay.
    Standalone,
    /// In a cluster: listens on all addresses, goes on for a while after it was told to stop.
    Cluster,
}

/// Flags of the server.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// Address of the HTTPS endpoints; port 0 takes any free one
    /// [default: all addresses, port 8443, in a cluster; 127.0.0.1:8443 standalone]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,

    /// Address of probes and metrics (plain HTTP)
    /// [default: all addresses, port 8080, in a cluster; 127.0.0.1:8080 standalone]
    #[arg(long, value_name = "ADDRESS")]
    pub admin_listen: Option<SocketAddr>,

    /// How long to go on accepting after the signal to stop, while the endpoints are withdrawn
    /// [default: 15s in a cluster, 0s standalone]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub shutdown_delay: Option<Duration>,

    /// After the delay, how long open requests may take before they are dropped
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub drain_deadline: Duration,

    /// Most connections at once; more wait until one is free, none is refused
    #[arg(long, value_name = "COUNT", default_value_t = 2048, value_parser = parse_count)]
    pub max_connections: u32,

    /// How long a TLS handshake may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub handshake_time: Duration,

    /// How long a request's headers may take from their first byte
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    pub header_time: Duration,

    /// Most bytes of a request's headers
    #[arg(long, value_name = "BYTES", default_value_t = 16 * 1024, value_parser = parse_header_size)]
    pub header_size: u32,

    /// How long an idle connection is kept; at least 120s, because the API server keeps its own
    /// for 90s
    #[arg(long, value_name = "TIME", default_value = "180s", value_parser = parse_idle_time)]
    pub idle_time: Duration,

    /// Age at which a connection is retired, in order, with one of its answers
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_time)]
    pub connection_age: Duration,

    /// Most requests at once on one HTTP/2 connection; at least 100, which clients count on before
    /// they are told
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = parse_streams)]
    pub max_streams: u32,

    /// Most bytes of large request bodies in memory at once, beyond 32 KiB for each connection;
    /// more wait until there is room
    #[arg(long, value_name = "BYTES", default_value_t = 64 * 1024 * 1024, value_parser = parse_body_memory)]
    pub body_memory: u32,
}

/// What clients may do, and how long. See [`ServerArgs`] for the meaning of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long to go on accepting after the signal to stop.
    pub shutdown_delay: Duration,
    /// How long open requests may take after the delay.
    pub drain_deadline: Duration,
    /// Most connections at once.
    pub max_connections: u32,
    /// How long a TLS handshake may take.
    pub handshake_time: Duration,
    /// How long a request's headers may take from their first byte.
    pub header_time: Duration,
    /// Most bytes of a request's headers.
    pub header_size: u32,
    /// How long an idle connection is kept.
    pub idle_time: Duration,
    /// Age at which a connection is retired.
    pub connection_age: Duration,
    /// Most requests at once on one HTTP/2 connection.
    pub max_streams: u32,
    /// Most bytes of large request bodies in memory at once.
    pub body_memory: u32,
}

impl ServerArgs {
    /// The address to serve HTTPS on.
    #[must_use]
    pub fn listen(&self, placement: Placement) -> SocketAddr {
        self.listen.unwrap_or_else(|| placement.address(8443))
    }

    /// The address of probes and metrics.
    #[must_use]
    pub fn admin_listen(&self, placement: Placement) -> SocketAddr {
        self.admin_listen
            .unwrap_or_else(|| placement.admin_address())
    }

    /// The limits as given, with the defaults of `placement`.
    #[must_use]
    pub fn limits(&self, placement: Placement) -> Limits {
        Limits {
            shutdown_delay: self.shutdown_delay.unwrap_or(match placement {
                Placement::Standalone => Duration::ZERO,
                Placement::Cluster => Duration::from_secs(15),
            }),
            drain_deadline: self.drain_deadline,
            max_connections: self.max_connections,
            handshake_time: self.handshake_time,
            header_time: self.header_time,
            header_size: self.header_size,
            idle_time: self.idle_time,
            connection_age: self.connection_age,
            max_streams: self.max_streams,
            body_memory: self.body_memory,
        }
    }
}

impl Placement {
    /// Where probes and metrics are served if nobody says it.
    #[must_use]
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

fn parse_count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number of at least 1".to_owned()),
        Ok(count) => Ok(count),
    }
}

fn parse_streams(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count @ 100..) => Ok(count),
        // Go's client (and others) sends up to 100 before it knows the limit; each one above the
        // limit would be refused, and a refused call is a failed creation.
        Ok(_) | Err(_) => Err("expected a whole number of at least 100".to_owned()),
    }
}

fn parse_body_memory(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(size) if size as usize >= SMALLEST_POOL => Ok(size),
        Ok(_) | Err(_) => Err(format!("expected bytes, at least {SMALLEST_POOL}")),
    }
}

fn parse_header_size(text: &str) -> Result<u32, String> {
    match text.parse() {
        // Below 8 KiB the HTTP library cannot go.
        Ok(size @ 8192..=1_048_576) => Ok(size),
        Ok(_) | Err(_) => Err("expected bytes between 8192 and 1048576".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        server: ServerArgs,
    }

    fn parse(args: &[&str]) -> Result<ServerArgs, String> {
        Program::try_parse_from([&["x"], args].concat())
            .map(|program| program.server)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_follow_the_placement() {
        let args = parse(&[]).unwrap();
        let standalone = args.listen(Placement::Standalone);
        assert_eq!(standalone.to_string(), "127.0.0.1:8443");
        assert_eq!(args.listen(Placement::Cluster).to_string(), "[::]:8443");
        assert_eq!(args.admin_listen(Placement::Cluster).port(), 8080);

        let delay = |placement| args.limits(placement).shutdown_delay;
        assert_eq!(delay(Placement::Standalone), Duration::ZERO);
        assert_eq!(delay(Placement::Cluster), Duration::from_secs(15));
    }

    #[test]
    fn a_delay_that_is_given_holds_everywhere() {
        let args = parse(&["--shutdown-delay", "1500ms"]).unwrap();
        let limits = args.limits(Placement::Standalone);
        assert_eq!(limits.shutdown_delay, Duration::from_millis(1500));
    }

    #[test]
    fn values_that_would_hurt_are_refused() {
        let short = parse(&["--idle-time", "90s"]).unwrap_err();
        assert!(short.contains("at least 120s"), "{short}");
        assert!(parse(&["--idle-time", "2m"]).is_ok());
        assert!(parse(&["--max-connections", "0"]).is_err());
        assert!(parse(&["--header-time", "10"]).is_err());
        assert!(parse(&["--header-time=-10s"]).is_err());
        assert!(parse(&["--header-size", "100"]).is_err());
        assert!(parse(&["--max-streams", "99"]).is_err());
        assert!(parse(&["--body-memory", "1000000"]).is_err());
    }
}
