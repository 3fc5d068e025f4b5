//! The whole of it against an API server that loses and delays what it likes, with time that stands
//! still while no task waits.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as Answered;
use axum::http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::*;
use crate::lifecycle::{Group, HealthChecks, Shutdown, Tasks};
use crate::metrics::Metrics;

/// What is wrong with the API server, in the order of requests, again and again.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// It never arrives.
    LostBefore,
    /// The API server does it, and its answer is lost.
    LostAfter,
    /// It is done so much later.
    Late(u64),
}

/// An API server that has one Lease, and notes who writes anything else and how long that takes.
#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
    faults: VecDeque<Fault>,
    /// Who, from when, until when.
    writes: Vec<(usize, Instant, Instant)>,
}

type Shared = Arc<Mutex<Server>>;

/// The client of one process.
fn client(server: &Shared, who: usize) -> Client {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(answer(server, who, request).await) }
    });
    Client::new(service, "default")
}

async fn answer(server: Shared, who: usize, request: Request<Body>) -> Response<Answered> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let fault = {
        let mut server = server.lock();
        let fault = server.faults.pop_front().unwrap_or(Fault::None);
        server.faults.push_back(fault);
        fault
    };
    let never = || std::future::pending::<Response<Answered>>();
    let delay = match fault {
        Fault::LostBefore => return never().await,
        Fault::Late(millis) => millis,
        Fault::None | Fault::LostAfter => 10,
    };
    let (done, answered) = tokio::sync::oneshot::channel();
    // It is done whether the client still waits for it or not.
    Group::new("request").spawn(async move {
        let response = if parts.uri.path().contains("/leases") {
            sleep(Duration::from_millis(delay)).await;
            server.lock().obey(&parts.method, &body)
        } else if parts.method == Method::GET {
            found(&json!({}))
        } else {
            write(&server, who, parts.uri.query(), delay).await
        };
        drop(done.send(response));
    });
    match fault {
        Fault::LostAfter => never().await,
        Fault::None | Fault::LostBefore | Fault::Late(_) => answered.await.unwrap(),
    }
}

/// Takes its time for a write, but no more than it was given.
async fn write(server: &Shared, who: usize, query: Option<&str>, delay: u64) -> Response<Answered> {
    let given = query.and_then(|query| query.split("timeout=").nth(1));
    let given = given.and_then(|rest| rest.strip_suffix("ms")?.parse().ok());
    let takes = Duration::from_millis(given.map_or(delay, |given: u64| given.min(delay)));
    let begin = Instant::now();
    server.lock().writes.push((who, begin, begin + takes));
    sleep_until(begin + takes).await;
    found(&json!({"metadata": {"name": "x"}}))
}

impl Server {
    fn obey(&mut self, method: &Method, body: &[u8]) -> Response<Answered> {
        let Some(lease) = &self.lease else {
            return match *method {
                Method::POST => self.store(body),
                _ => refused(StatusCode::NOT_FOUND),
            };
        };
        if *method == Method::GET {
            return found(lease);
        }
        let sent: Value = serde_json::from_slice(body).unwrap();
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        if *method == Method::PUT && version(lease) == version(&sent) {
            self.store(body)
        } else {
            refused(StatusCode::CONFLICT)
        }
    }

    fn store(&mut self, body: &[u8]) -> Response<Answered> {
        self.version += 1;
        let mut lease: Value = serde_json::from_slice(body).unwrap();
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
        found(&lease)
    }

    fn holder(&self) -> String {
        let lease = self.lease.as_ref();
        let holder = lease.and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        holder.unwrap_or_default().to_owned()
    }

    /// Whether two have ever written at once.
    fn overlap(&self) -> Option<String> {
        let pairs = self.writes.iter().enumerate();
        let mut pairs =
            pairs.flat_map(|(n, one)| self.writes[..n].iter().map(move |two| (one, two)));
        let found = pairs.find(|(one, two)| one.0 != two.0 && one.1 < two.2 && two.1 < one.2);
        found.map(|pair| format!("{pair:?}"))
    }
}

fn found(object: &Value) -> Response<Answered> {
    Response::new(Answered::from(object.to_string()))
}

fn refused(code: StatusCode) -> Response<Answered> {
    let status = json!({"kind": "Status", "status": "Failure", "code": code.as_u16(), "message": "no", "reason": "no"});
    let mut response = found(&status);
    *response.status_mut() = code;
    response
}

/// A process that writes whenever it may.
struct Process {
    tasks: Tasks,
    stop: CancellationToken,
    claim: Claim,
}

impl Process {
    fn start(server: &Shared, who: usize) -> Self {
        let tasks = Tasks::new(Shutdown::default());
        let lease = LeaseName {
            namespace: "a".to_owned(),
            name: "b".to_owned(),
        };
        let reporting = Reporting {
            metrics: Arc::new(Metrics::default()),
            check: HealthChecks::default().add("lease"),
        };
        let elector = Elector::new(client(server, who), lease, &who.to_string(), reporting);
        let (stop, claim) = (CancellationToken::new(), elector.claim());
        tasks.spawn("lease", elector.run(stop.clone()));
        let (acting, mut own) = (client(server, who), claim.clone());
        let stopped = stop.clone();
        tasks.spawn("writes", async move {
            let writes = async {
                loop {
                    let term = own.held().await;
                    let fenced = Fenced::new(acting.clone(), own.clone(), term).client();
                    while delete(&fenced).await {
                        sleep(Duration::from_millis(700)).await;
                    }
                }
            };
            stopped.run_until_cancelled(writes).await;
        });
        Self { tasks, stop, claim }
    }

    async fn stop(&self) {
        self.tasks.shutdown.drain("test");
        self.stop.cancel();
        self.tasks.finished().await.unwrap();
    }
}

/// Writes something; whether it may do so again.
async fn delete(client: &Client) -> bool {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "a");
    match api.delete("x", &DeleteParams::default()).await {
        Err(error) => !error.to_string().contains("does not hold the Lease"),
        Ok(_) => true,
    }
}

fn faults(seed: usize) -> VecDeque<Fault> {
    let all = [
        Fault::None,
        Fault::LostAfter,
        Fault::None,
        Fault::Late(4_000),
        Fault::None,
        Fault::LostBefore,
        Fault::None,
        Fault::Late(12_000),
        Fault::None,
        Fault::LostBefore,
        Fault::LostAfter,
        Fault::Late(30_000),
        Fault::None,
    ];
    // Every so many of them, so that they fall upon other requests each time.
    let step = [1, 2, 3, 4, 5, 6][seed % 6];
    let rough = (0..all.len()).map(|n| all[(n * step + seed) % all.len()]);
    let calm = std::iter::repeat_n(Fault::None, 20 + seed);
    rough.chain(calm).collect()
}

#[tokio::test(start_paused = true)]
async fn two_never_write_at_once_whatever_is_lost_or_late() {
    let mut writes = 0;
    for seed in 0..24 {
        let server = Shared::default();
        server.lock().faults = faults(seed);
        let mut processes = vec![Process::start(&server, 0), Process::start(&server, 1)];
        for round in 2..8 {
            sleep(Duration::from_secs(40)).await;
            let next = Process::start(&server, round);
            std::mem::replace(&mut processes[round % 2], next)
                .stop()
                .await;
        }
        for process in &processes {
            process.stop().await;
        }
        let server = server.lock();
        assert_eq!(server.overlap(), None, "seed {seed}");
        writes += server.writes.len();
    }
    assert!(writes > 1_000, "{writes}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_given_back_only_when_the_last_write_is_over() {
    let server = Shared::default();
    let first = Process::start(&server, 0);
    first.claim.clone().held().await;
    let second = Process::start(&server, 1);
    sleep(Duration::from_secs(5)).await;
    // A slow write, which its caller drops.
    server.lock().faults = [Fault::Late(3_000)].into();
    sleep(Duration::from_secs(1)).await;
    let stopped = Instant::now();
    first.stop().await;
    server.lock().faults.clear();
    assert!(
        stopped.elapsed() > Duration::from_secs(1),
        "{:?}",
        stopped.elapsed()
    );
    assert_eq!(server.lock().holder(), "");
    second.claim.clone().held().await;
    assert!(
        stopped.elapsed() < Duration::from_secs(9),
        "{:?}",
        stopped.elapsed()
    );
    assert_eq!(server.lock().overlap(), None);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_without_the_claim_and_everything_is_read() {
    let server = Shared::default();
    let claimant = Claimant::new();
    let fenced = Fenced::new(client(&server, 0), claimant.claim(), 1).client();
    assert!(!delete(&fenced).await);
    let api: Api<ConfigMap> = Api::namespaced(fenced.clone(), "a");
    api.get("x").await.unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    api.create(&dry, &ConfigMap::default()).await.unwrap();
    let claimed = |seconds, term| {
        let until = Instant::now().into_std() + Duration::from_secs(seconds);
        claimant.is_now(Some(plan::Claimed { until, term }));
    };
    claimed(10, 1);
    assert!(delete(&fenced).await);
    // Too short for a write: it waits for a renewal, and is told when there is none.
    claimed(4, 1);
    let begin = Instant::now();
    let (written, ()) = tokio::join!(delete(&fenced), async {
        sleep(Duration::from_secs(2)).await;
        claimed(10, 1);
    });
    assert!(written && begin.elapsed() >= Duration::from_secs(2));
    claimed(4, 1);
    let begin = Instant::now();
    assert!(!delete(&fenced).await);
    assert_eq!(begin.elapsed().as_secs(), 4);
    // Got again, it is not the one that was meant.
    claimed(10, 2);
    assert!(!delete(&fenced).await);
    let always = Fenced::new(client(&server, 0), Claim::always(), 0).client();
    assert!(delete(&always).await);
}
