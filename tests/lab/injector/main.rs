//! A stand-in for a mesh's injector, for `make lab-shell`: it puts Linkerd's containers into every
//! pod that carries meshgate's mark for it, and nothing else that Linkerd would.
//!
//! `injector ADDRESS CERTS_DIR [--inject=marked|all|nothing]`. Whether it counts as running is told by its Deployment in the lab,
//! whose pods kwok plays; this process answers all the while. In a lab with a network it is what runs in
//! those pods, and injects `all` that it is asked about, as Linkerd does; with `nothing` it is a webhook
//! that says yes.

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
use meshgate::lifecycle::{HealthChecks, Shutdown, Tasks};
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
    let usage = "usage: injector ADDRESS CERTS_DIR [--inject=marked|all|nothing]";
    let (address, certs, inject) = match arguments.as_slice() {
        [_, address, certs] => (address, certs, Inject::Marked),
        [_, address, certs, inject] => match inject.as_str() {
            "--inject=marked" => (address, certs, Inject::Marked),
            "--inject=all" => (address, certs, Inject::All),
            "--inject=nothing" => (address, certs, Inject::Nothing),
            _ => return Err(usage.into()),
        },
        _ => return Err(usage.into()),
    };
    let address: SocketAddr = address.parse()?;
    let pair = throwaway::prepare(Path::new(certs), address.ip(), Timestamp::now())?.pair;
    let router = Router::new().route("/", post(move |body| answers(body, inject)).get("alive"));
    tokio::runtime::Runtime::new()?.block_on(async move {
        let shutdown = Shutdown::on_signals()?;
        let tasks = Tasks::new(shutdown.clone());
        let listener = bind::bind(address, "ADDRESS")?;
        let limits = Flags::parse_from(["injector"])
            .server
            .limits(Placement::Standalone);
        let ready = HealthChecks::default().add("listener");
        let server = Server::new(listener, router, LivePair::new(pair), limits, ready)?;
        tasks.spawn("https", server.run(shutdown));
        tasks.finished().await?;
        Ok(())
    })
}

/// What is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inject {
    /// What carries meshgate's mark.
    Marked,
    All,
    Nothing,
}

async fn answers(body: Bytes, inject: Inject) -> Response {
    match serde_json::from_slice(&body) {
        Ok(review) => {
            let answer = answer(&review, inject);
            ([(CONTENT_TYPE, "application/json")], answer).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

fn answer(review: &Value, inject: Inject) -> String {
    let pod = &review["request"]["object"];
    let mark = &pod["metadata"]["annotations"]["meshgate.io/admitted"];
    let is_marked = mark
        .as_str()
        .is_some_and(|mark| mark.split(',').any(|name| name == "linkerd"));
    let is_injected = inject == Inject::All || inject == Inject::Marked && is_marked;
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    if is_injected {
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
