//! An HTTPS server on a free port, with a CA made for it.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use clap::Parser;
use jiff::Timestamp;
use meshgate::certs::issue::Authority;
use meshgate::certs::pair::ServingPair;
use meshgate::lifecycle::{HealthChecks, Shutdown, Tasks};
use meshgate::server::Server;
use meshgate::server::args::{Limits, Placement, ServerArgs};
use meshgate::server::bind::bind;
use meshgate::server::tls::LivePair;

use super::client::Client;
use super::{eventually, in_time};

/// Whether every condition is met.
pub(crate) fn are_met(checks: &HealthChecks) -> bool {
    checks.conditions().iter().all(|one| one.state.is_ok())
}

/// A server that runs until it is dropped or stopped.
pub(crate) struct TestServer {
    pub(crate) addr: SocketAddr,
    pub(crate) ca_pem: String,
    pub(crate) pair: LivePair,
    pub(crate) shutdown: Shutdown,
    pub(crate) checks: HealthChecks,
    authority: Authority,
    tasks: Tasks,
}

impl TestServer {
    /// Serves `router` with the limits that have no flags given, and no shutdown delay.
    pub(crate) async fn start(router: Router) -> Self {
        Self::start_with(router, |_| {}).await
    }

    /// Serves `router` with limits of the test's own. Answers when this returns.
    pub(crate) async fn start_with(router: Router, change: impl FnOnce(&mut Limits)) -> Self {
        let now = now();
        let authority = Authority::new("test CA", Duration::from_secs(86_400), now).unwrap();
        let pair = LivePair::new(pair_from(&authority));
        let mut limits = limits();
        change(&mut limits);
        let shutdown = Shutdown::default();
        let checks = HealthChecks::default();
        let listener = bind("127.0.0.1:0".parse().unwrap(), "--listen").unwrap();
        let ready = checks.add("listener");
        let server = Server::new(listener, router, pair.clone(), limits, ready).unwrap();
        let addr = server.address;
        let tasks = Tasks::new(shutdown.clone());
        tasks.spawn("server", server.run(shutdown.clone()));
        eventually("ready", async || are_met(&checks)).await;
        Self {
            addr,
            ca_pem: authority.cert_pem(),
            pair,
            shutdown,
            checks,
            authority,
            tasks,
        }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.addr, &self.ca_pem).await
    }

    /// Serves with a new certificate of the same CA from now on, and returns it.
    pub(crate) fn renew(&self) -> Vec<u8> {
        let pair = pair_from(&self.authority);
        let leaf = pair.chain()[0].to_vec();
        self.pair.swap(pair);
        leaf
    }

    /// Waits until the server has ended; it must have been told to.
    pub(crate) async fn ended(&self) {
        let ended = in_time("the end of the server", self.tasks.finished()).await;
        ended.unwrap();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.shutdown.abort("test over");
    }
}

/// What the program would use without flags, standalone.
pub(crate) fn limits() -> Limits {
    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        server: ServerArgs,
    }
    let program = Program::parse_from(["test"]);
    program.server.limits(Placement::Standalone)
}

pub(crate) fn pair_from(authority: &Authority) -> ServingPair {
    let issued = authority
        .issue(
            &["localhost", "127.0.0.1"].map(str::to_owned),
            Duration::from_secs(3600),
            now(),
        )
        .unwrap();
    let (cert, key) = (issued.cert_pem.as_bytes(), issued.key_pem.as_bytes());
    ServingPair::from_pem(cert, key, now()).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the client's own verification knows no other clock"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
