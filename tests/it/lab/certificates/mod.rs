//! Certificates in a real API server: made once, renewed, repaired, followed by every replica, and
//! no call fails meanwhile.

mod agree;
mod calls;
mod damage;
mod files;
mod followers;
mod given;
mod replica;
mod rotation;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use meshgate::certs::bundle::{self, Ca};
use meshgate::certs::rotation::Lifetimes;
use meshgate::controllers::certificates::args::names;
use meshgate::controllers::certificates::own::Own;
use meshgate::controllers::certificates::{self, Settings, Source};
use meshgate::controllers::{self, Context, Form, Writer};
use meshgate::leader::{Claim, Fenced, Reporting};
use meshgate::lifecycle::{HealthChecks, Shutdown, Tasks};
use meshgate::metrics::Metrics;
use meshgate_core::injector::Injectors;
use meshgate_core::render::{self, Client};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::harness::{Lab, Options, within};
use super::registration::{CONFIG, SECONDS};

const HOME: &str = "meshgate-system";
const CA: &str = "meshgate-ca";
const TLS: &str = "meshgate-tls";

const DAY: u64 = 86_400;
const LIFETIMES: Lifetimes = Lifetimes {
    ca: Duration::from_secs(365 * DAY),
    leaf: Duration::from_secs(90 * DAY),
};

#[expect(
    clippy::disallowed_methods,
    reason = "the API server has the same clock"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

/// A control plane of one's own with our namespace.
async fn lab() -> Lab {
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver"],
        ..Options::default()
    })
    .await;
    lab.ensure_namespace(HOME).await;
    lab
}

fn own(lifetimes: Lifetimes) -> Source {
    Source::Own(Own {
        ca_secret: CA.to_owned(),
        tls_secret: TLS.to_owned(),
        names: names(HOME, "meshgate"),
        lifetimes,
    })
}

/// What writes, in this process, as for a Service of ours with this port.
struct Control {
    context: Arc<Context>,
    metrics: Arc<Metrics>,
}

/// The same, with all that it writes; until it is dropped.
struct Running {
    stop: CancellationToken,
}

impl Control {
    async fn new(lab: &Lab, source: Source) -> Self {
        let metrics = Arc::new(Metrics::default());
        let make = Self::context(&metrics, source, 443);
        let mut claim = Claim::always();
        let term = claim.held().await;
        let client = lab.client().await.clone();
        let context = Arc::new(make(Fenced::new(client, claim, term)));
        Self { context, metrics }
    }

    async fn start(lab: &Lab, source: Source, port: u16) -> Running {
        let make = Self::context(&Arc::new(Metrics::default()), source, port);
        let stop = CancellationToken::new();
        let alone = Writer {
            client: lab.client().await.clone(),
            claim: Claim::always(),
        };
        let tasks = Tasks::new(Shutdown::default());
        drop(controllers::start(alone, make, &tasks, &stop));
        Running { stop }
    }

    fn context(
        metrics: &Arc<Metrics>,
        source: Source,
        port: u16,
    ) -> impl Fn(Fenced) -> Context + use<> {
        let injectors = Injectors::from_yaml("test", CONFIG.as_bytes()).unwrap();
        let injectors = Arc::new(injectors.excluding(HOME));
        let client = Client::Service {
            namespace: HOME.to_owned(),
            name: "meshgate".to_owned(),
            port,
        };
        let form = Form {
            settings: render::Settings::new(client, HOME),
            mirror: None,
            configuration: None,
            creates_namespace: false,
            certificates: Settings {
                source,
                clock: Arc::new(now),
            },
        };
        let reporting = Reporting {
            metrics: Arc::clone(metrics),
            check: HealthChecks::default().add("registration"),
        };
        move |client| {
            Context::new(
                client,
                Arc::clone(&injectors),
                form.clone(),
                reporting.clone(),
            )
        }
    }

    /// Keeps certificates alone, while something else is done.
    async fn keeps<T>(&self, doing: impl Future<Output = T>) -> T {
        let kept = certificates::run(Arc::clone(&self.context), CancellationToken::new());
        tokio::select! {
            done = doing => done,
            () = kept => panic!("it ended without being told to"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn path_of(secret: &str) -> String {
    format!("/api/v1/namespaces/{HOME}/secrets/{secret}")
}

/// A key of a Secret.
fn key(secret: &Value, key: &str) -> Vec<u8> {
    let text = secret["data"][key].as_str().unwrap_or_default();
    STANDARD.decode(text).unwrap()
}

fn cas(secret: &Value, name: &str) -> Vec<Ca> {
    bundle::read(&key(secret, name)).unwrap_or_default()
}

/// The data of a Secret.
fn data(cert: &str, key: &str, ca: Option<&str>) -> Value {
    let mut data = json!({"tls.crt": STANDARD.encode(cert), "tls.key": STANDARD.encode(key)});
    if let Some(ca) = ca {
        data["ca.crt"] = json!(STANDARD.encode(ca));
    }
    data
}

/// Waits until the Secret is there and this holds of it.
async fn secret(lab: &Lab, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    within(SECONDS, what, async || {
        lab.get(&path_of(name)).await.filter(|secret| holds(secret))
    })
    .await
}
