//! What a large cluster's view costs in memory: `make bench-view`.

use std::path::Path;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};

use super::harness::{Lab, Options, PATIENCE, User, within};
use crate::support::client::Client;
use crate::support::figures;
use crate::support::process::{Process, Start, authority, get};

const NAMESPACES: u64 = 5_000;
const SLICES: u64 = 500;
const ENDPOINTS: u64 = 10;
/// Resident memory with what no rule reads, and with a very large cluster, in KiB.
const UNREAD: u64 = 48 * 1024;
const LARGE: u64 = 56 * 1024;
/// Linkerd's Service, which the configuration of the program names.
const INJECTOR: [&str; 2] = ["linkerd", "linkerd-proxy-injector"];

fn slices_in(namespace: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
}

/// As a platform team makes them: labels and annotations that meshgate does not read.
pub(super) fn namespace(number: u64) -> Value {
    let labels = json!({
        "team": format!("team-{}", number % 50), "env": "prod", "cost-centre": "4711",
        "pod-security.kubernetes.io/enforce": "baseline", "istio.io/rev": "stable",
    });
    let annotations = json!({
        "linkerd.io/inject": "enabled",
        "owner": "team@example.com",
        "description": "x".repeat(200),
    });
    let metadata = json!({
        "name": format!("n-{number}"), "labels": labels, "annotations": annotations,
    });
    json!({"metadata": metadata})
}

/// A slice of a Service, with so many endpoints of so many addresses each.
fn slice(service: &str, number: u64, endpoints: u64, addresses: u64) -> Value {
    let address = |at: u64| {
        format!(
            "{}.{}.{}.{}",
            1 + (at >> 24),
            (at >> 16) & 255,
            (at >> 8) & 255,
            at & 255
        )
    };
    let endpoint = |endpoint: u64| {
        let first = (number * endpoints + endpoint) * addresses;
        let target = json!({
            "kind": "Pod", "namespace": "default",
            "name": format!("backend-{number}-6d5c9b8f7c-{endpoint:05}"),
        });
        json!({
            "addresses": (0..addresses).map(|own| address(first + own)).collect::<Vec<_>>(),
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("node-{}", endpoint % 2 + 1), "targetRef": target, "zone": "a",
        })
    };
    json!({
        "metadata": {
            "name": format!("{service}-{number}"),
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
        "ports": [{"name": "http", "port": 8080}],
    })
}

fn service(number: u64) -> Value {
    let spec = json!({"clusterIP": "None", "ports": [{"port": 80}]});
    json!({"metadata": {"name": format!("backend-{number}")}, "spec": spec})
}

/// As a kubelet makes them, less the lists of images.
fn node(number: u64) -> Value {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "KubeletReady", "message": "as it should be"});
    json!({
        "metadata": {
            "name": format!("node-{number}"),
            "labels": {"kubernetes.io/hostname": format!("node-{number}"), "topology.kubernetes.io/zone": "a"},
        },
        "status": {"conditions": [
            condition("MemoryPressure", "False"), condition("DiskPressure", "False"), condition("Ready", "True"),
        ]},
    })
}

pub(super) async fn fill(lab: &Lab, path: &str, objects: impl Iterator<Item = Value>) {
    let created = stream::iter(objects).map(async |object| lab.create(path, &object).await);
    let all: Vec<_> = created.buffer_unordered(16).collect().await;
    all.into_iter().for_each(|created| drop(created.unwrap()));
}

pub(super) fn mebibytes(kibibytes: u64) -> f64 {
    f64::from(u32::try_from(kibibytes).unwrap()) / 1024.0
}

pub(super) async fn lab() -> Lab {
    let only = vec!["etcd", "kube-apiserver"];
    Lab::own(Options {
        only,
        ..Options::default()
    })
    .await
}

/// The program beside what there is, once it is ready; and how long that took.
async fn timed(lab: &Lab) -> (Process, Duration) {
    let start = Start {
        kubeconfig: Some(lab.kubeconfig(User::Admin)),
        ..Start::default()
    };
    let begin = Instant::now();
    let process = start.launch(&authority()).await;
    let is_ready = async || process.is_ready().then_some(());
    within(PATIENCE, "ready", is_ready).await;
    (process, begin.elapsed())
}

async fn start(lab: &Lab) -> Process {
    timed(lab).await.0
}

fn say(what: &str, process: &Process) {
    let (now, peak) = (process.memory(), process.peak_memory());
    let (now, peak) = (mebibytes(now), mebibytes(peak));
    figures(&format!(
        "{what}: {now:.1} MiB resident, {peak:.1} MiB at most"
    ));
}

/// A pod's review in this namespace.
fn review_in(namespace: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/reviews/orders-pod.json");
    let mut review: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    review["request"]["namespace"] = json!(namespace);
    review.to_string()
}

fn spread(what: &str, took: &mut [Duration]) {
    took.sort_unstable();
    let (p99, most) = (took[took.len() * 99 / 100], took[took.len() - 1]);
    let (median, count) = (took[took.len() / 2], took.len());
    figures(&format!(
        "{what}: {count} answers, median {median:.1?}, p99 {p99:.1?}, most {most:.1?}"
    ));
}

/// Starts the program beside what there is, and says when it was ready and what it takes.
async fn started(lab: &Lab, what: &str) -> Process {
    let (process, took) = timed(lab).await;
    say(&format!("{what} (ready after {took:.1?})"), &process);
    assert!(took < Duration::from_secs(30), "{took:?}");
    process
}

#[tokio::test]
#[ignore = "a benchmark: make bench-view"]
async fn five_thousand_namespaces_and_five_hundred_slices() {
    let lab = lab().await;
    let process = start(&lab).await;
    say("an empty cluster", &process);
    fill(&lab, "/api/v1/namespaces", (0..NAMESPACES).map(namespace)).await;
    let [home, injector] = INJECTOR;
    let slices = slices_in(home);
    let own = json!({"metadata": {"name": home}});
    lab.create("/api/v1/namespaces", &own).await.unwrap();
    let of_injector = |number| slice(injector, number, ENDPOINTS, 1);
    fill(&lab, &slices, (0..SLICES).map(of_injector)).await;
    say("after all of them came as events", &process);
    drop(process);

    let process = start(&lab).await;
    say("after all of them were listed", &process);
    let (listed, lists) = (
        process.memory(),
        process.metric("meshgate_view_lists_total"),
    );
    assert!(listed < UNREAD, "{listed} KiB");
    process.signal("-STOP");
    lab.namespace("later", &[], &[]).await;
    lab.create(&slices, &of_injector(SLICES)).await.unwrap();
    lab.order("compact").await;
    lab.order("restart kube-apiserver").await;
    process.signal("-CONT");
    let relisted =
        async || (process.metric("meshgate_view_lists_total") >= lists + 2).then_some(());
    within(PATIENCE, "two kinds are listed anew", relisted).await;
    let current = async || (process.metric("meshgate_view_current") == 5).then_some(());
    within(PATIENCE, "the view is current", current).await;
    say("after they were listed anew", &process);
    assert!(
        process.peak_memory() <= 2 * listed,
        "{} KiB",
        process.peak_memory()
    );
}

#[tokio::test]
#[ignore = "a benchmark: make bench-view"]
async fn what_no_rule_reads_costs_nothing() {
    let lab = lab().await;
    let tenant = lab.namespace("tenant", &[], &[]).await;
    let process = started(&lab, "an empty cluster").await;
    let slices = slices_in(&tenant);
    // As large as an API server takes them.
    let huge = (0..22).map(|number| slice("hostile", number, 900, 100));
    fill(&lab, &slices, huge).await;
    let many = (0..300).map(|number| slice(INJECTOR[1], number, 1_000, 1));
    fill(&lab, &slices, many).await;
    say("2.3 million addresses of a tenant came", &process);
    drop(process);
    let process = started(&lab, "2.3 million addresses of a tenant").await;
    let mut took = [Vec::new(), Vec::new()];
    let mut client = Client::connect(process.gate, &process.ca_pem).await;
    let review = review_in(&tenant);
    for round in 0..20 {
        let change = slice("hostile", round, 900 - round, 100);
        let path = format!("{slices}/hostile-{round}");
        let changed = lab.merge(&path, &change);
        let asked = async {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(500) {
                let asked = Instant::now();
                client.try_post("/mutate/pods", &review).await.unwrap();
                took[0].push(asked.elapsed());
                let asked = Instant::now();
                assert!(get(process.probes, "/livez").ends_with("ok"));
                took[1].push(asked.elapsed());
            }
        };
        tokio::join!(changed, asked).0.unwrap();
    }
    spread("calls while a tenant changes large slices", &mut took[0]);
    spread("probes while a tenant changes large slices", &mut took[1]);
    let services = format!("/api/v1/namespaces/{tenant}/services");
    fill(&lab, &services, (0..50_000).map(service)).await;
    say("50,000 Services came", &process);
    drop(process);
    let process = started(&lab, "50,000 Services and 2.3 million addresses").await;
    assert!(process.peak_memory() < UNREAD, "{}", process.peak_memory());
    drop(process);
    let note = "x".repeat(250 * 1024);
    let large = (0..1_000).map(|number| {
        let metadata = json!({"name": format!("large-{number}"), "annotations": {"note": note}});
        json!({ "metadata": metadata })
    });
    fill(&lab, "/api/v1/namespaces", large).await;
    let process = started(&lab, "1,000 Namespaces with 250 KiB each besides").await;
    assert!(process.peak_memory() < UNREAD, "{}", process.peak_memory());
}

#[tokio::test]
#[ignore = "a benchmark: make bench-view"]
async fn fifty_thousand_namespaces_and_five_thousand_nodes() {
    let lab = lab().await;
    fill(&lab, "/api/v1/namespaces", (0..50_000).map(namespace)).await;
    fill(&lab, "/api/v1/nodes", (0..5_000).map(node)).await;
    let process = started(&lab, "50,000 Namespaces and 5,000 Nodes").await;
    assert!(process.memory() < LARGE, "{}", process.memory());
}

/// A Node is lost and comes back, while the gate answers.
#[tokio::test]
#[ignore = "a benchmark: make bench-view"]
async fn no_answer_waits_for_a_large_injector() {
    let lab = lab().await;
    let own = json!({"metadata": {"name": INJECTOR[0]}});
    lab.create("/api/v1/namespaces", &own).await.unwrap();
    let many = (0..300).map(|number| slice(INJECTOR[1], number, 1_000, 1));
    fill(&lab, &slices_in(INJECTOR[0]), many).await;
    fill(&lab, "/api/v1/nodes", (1..4).map(node)).await;
    let meshed = lab
        .namespace("meshed", &[], &[("linkerd.io/inject", "enabled")])
        .await;
    let process = started(&lab, "300,000 endpoints of an injector").await;
    let review = review_in(&meshed);
    let mut client = Client::connect(process.gate, &process.ca_pem).await;
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..40_usize {
        if round % 2 == 1 {
            let status = ["True", "False"][round / 2 % 2];
            let conditions = json!([{"type": "Ready", "status": status}]);
            let change = json!({"status": {"conditions": conditions}});
            lab.merge("/api/v1/nodes/node-1/status", &change)
                .await
                .unwrap();
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(500) {
            let asked = Instant::now();
            client.try_post("/mutate/pods", &review).await.unwrap();
            took[round % 2].push(asked.elapsed());
        }
    }
    let [quiet, changing] = &mut took;
    spread("nothing changes", quiet);
    spread("a Node changes", changing);
}
