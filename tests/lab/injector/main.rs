//! A stand-in for a mesh's injector, for `make lab-shell`: it puts Linkerd's containers into every
//! pod that carries meshgate's mark for it, and nothing else that Linkerd would.
//!
//! `injector ADDRESS CERTS_DIR`. Whether it counts as running is told by its Deployment in the lab,
//! whose pods kwok plays; this process answers all the while.

use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use jiff::Timestamp;
use meshgate::certs::throwaway;
use meshgate::lifecycle::{Latches, Shutdown, Tasks};
use meshgate::server::args::{Placement, ServerArgs};
use meshgate::server::tls::LivePair;
use meshgate::server::{Server, bind};
use serde_json::{Value, json};

/// The limits as without any flags.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    server: ServerArgs,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a composition root is where the clock comes from"
)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, certs] = arguments.as_slice() else {
        return Err("usage: injector ADDRESS CERTS_DIR".into());
    };
    let address: SocketAddr = address.parse()?;
    let pair = throwaway::prepare(Path::new(certs), address.ip(), Timestamp::now())?.pair;
    let router = Router::new().route("/", post(inject));
    tokio::runtime::Runtime::new()?.block_on(async move {
        let shutdown = Shutdown::on_signals()?;
        let tasks = Tasks::new(shutdown.clone());
        let listener = bind::bind(address, "ADDRESS")?;
        let limits = Flags::parse_from(["injector"])
            .server
            .limits(Placement::Standalone);
        let ready = Latches::new().add("listener");
        let server = Server::new(listener, router, LivePair::new(pair), limits, ready)?;
        tasks.spawn("https", server.run(shutdown));
        tasks.finished().await?;
        Ok(())
    })
}

async fn inject(body: Bytes) -> Response {
    match serde_json::from_slice(&body) {
        Ok(review) => ([(CONTENT_TYPE, "application/json")], answer(&review)).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

fn answer(review: &Value) -> String {
    let pod = &review["request"]["object"];
    let mark = &pod["metadata"]["annotations"]["meshgate.io/admitted"];
    let is_marked = mark
        .as_str()
        .is_some_and(|mark| mark.split(',').any(|name| name == "linkerd"));
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    if is_marked {
        let patch = json!(additions(pod)).to_string();
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(patch));
    }
    let answer = json!({
        "apiVersion": review["apiVersion"],
        "kind": review["kind"],
        "response": response,
    });
    answer.to_string()
}

/// The operations that put the two containers in, into lists that are made if they are missing.
fn additions(pod: &Value) -> Vec<Value> {
    let add = |list: &str, container: Value| {
        if pod["spec"][list].is_array() {
            json!({"op": "add", "path": format!("/spec/{list}/-"), "value": container})
        } else {
            json!({"op": "add", "path": format!("/spec/{list}"), "value": [container]})
        }
    };
    vec![
        add(
            "initContainers",
            json!({"name": "linkerd-init", "image": "example.com/proxy-init"}),
        ),
        add(
            "containers",
            json!({"name": "linkerd-proxy", "image": "example.com/proxy"}),
        ),
    ]
}
