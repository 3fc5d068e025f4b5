//! The floor: a server of the same stack that reads the body and gives one fixed answer, as long
//! as the real one. Started by `bench-http`, not by people.

use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use clap::Parser;
use jiff::Timestamp;
use meshgate::certs::files::PairFiles;
use meshgate::lifecycle::{HealthChecks, Shutdown, Tasks};
use meshgate::server::args::{Placement, ServerArgs};
use meshgate::server::tls::LivePair;
use meshgate::server::{Server, bind};

/// The limits as without any flags.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    server: ServerArgs,
}

/// `noop ADDRESS CERTS_DIR ANSWER_FILE`
#[expect(
    clippy::disallowed_methods,
    reason = "a composition root is where the clock comes from"
)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, certs, answer] = arguments.as_slice() else {
        return Err("usage: noop ADDRESS CERTS_DIR ANSWER_FILE".into());
    };
    let address: SocketAddr = address.parse()?;
    let certs = Path::new(certs);
    let files = PairFiles {
        cert: certs.join("tls.crt"),
        key: certs.join("tls.key"),
    };
    let pair = files.load(Timestamp::now())?;
    let answer = Bytes::from(std::fs::read(answer)?);
    let router = Router::new().route(
        "/mutate/pods",
        post(move |body: Bytes| async move {
            std::hint::black_box(body.len());
            ([(CONTENT_TYPE, "application/json")], answer)
        }),
    );
    tokio::runtime::Runtime::new()?.block_on(async move {
        let shutdown = Shutdown::on_signals()?;
        let tasks = Tasks::new(shutdown.clone());
        let checks = HealthChecks::default();
        let listener = bind::bind(address, "ADDRESS")?;
        let ready = checks.add("listener");
        let limits = Flags::parse_from(["noop"])
            .server
            .limits(Placement::Standalone);
        let server = Server::new(listener, router, LivePair::new(pair), limits, ready)?;
        tasks.spawn("https", server.run(shutdown));
        tasks.finished().await?;
        Ok(())
    })
}
