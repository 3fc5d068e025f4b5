//! The view of a real API server: it is the cluster, whatever happens to either.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use meshgate::cluster::Cluster;
use meshgate::cluster::object::{Kind, Object, Watched};
use meshgate::cluster::store::Store;
use meshgate::cluster::watch;
use meshgate::kube_api::client;
use meshgate_core::injector::Injectors;
use meshgate_core::injector::profile::ServiceName;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::harness::{Lab, Options, PATIENCE, User, within};
use crate::hooks;
use crate::support::client::Client;
use crate::support::process::{Process, Start, authority, get};
use crate::support::{eventually, figures};

const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const NAMESPACES: &str = "/api/v1/namespaces";

/// How soon a view has to be right again after the API server is back.
const SOON: Duration = Duration::from_secs(5);

fn of_api(kind: Kind) -> &'static str {
    match kind {
        Kind::Namespace => NAMESPACES,
        Kind::Service => "/api/v1/services",
        Kind::EndpointSlice => "/apis/discovery.k8s.io/v1/endpointslices",
        Kind::Node => "/api/v1/nodes",
        Kind::Webhooks => WEBHOOKS,
    }
}

/// Everything that the API server has and decisions read.
async fn cluster(lab: &Lab, injectors: &Arc<Injectors>) -> Store {
    let mut store = Store::of_whole(Arc::clone(injectors));
    let mut lists = BTreeMap::new();
    for kind in Kind::ALL {
        let list = lab.get(of_api(kind)).await.unwrap();
        let items = list["items"].as_array().unwrap();
        let read = |item: &Value| Object::from_json(kind, &item.to_string()).unwrap();
        let listed = Store::with(Arc::clone(injectors), items.iter().map(read));
        lists.insert(kind, listed);
    }
    let mut relist = |store: &mut Store, kind, service: Option<&ServiceName>| {
        let service = service.cloned().map(Arc::new);
        let list = lists.remove(&kind).unwrap();
        lists.insert(kind, store.relist(&Watched { kind, service }, list));
    };
    for kind in [Kind::Namespace, Kind::Node, Kind::Webhooks] {
        relist(&mut store, kind, None);
    }
    store.settle();
    for service in store.wanted() {
        relist(&mut store, Kind::Service, Some(&service));
        relist(&mut store, Kind::EndpointSlice, Some(&service));
    }
    store.settle();
    store
}

/// What is asked of a view, for all names that the tests use.
fn answers(store: &Store, names: &[String]) -> Vec<String> {
    let counts = store.counts();
    let mut all = vec![format!("{counts:?} {:?}", store.nodes.counts())];
    for name in names {
        all.push(format!("{name} {:?}", store.namespace(name)));
        for service in ["s0", "s1"] {
            let service = ServiceName {
                namespace: name.clone(),
                name: service.to_owned(),
            };
            let slices: Vec<_> = store.slices(&service).collect();
            let external = store.external_name(&service);
            all.push(format!("{service} {external:?} {slices:?}"));
        }
    }
    all.extend(store.states().iter().map(|state| format!("{state:?}")));
    all
}

/// Chance that is the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

async fn change(lab: &Lab, namespace: &str, chance: &mut Chance) {
    let number = chance.below(2);
    let services = format!("{NAMESPACES}/{namespace}/services");
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    let (service, slice) = (format!("s{number}"), format!("e{}", chance.below(3)));
    match chance.below(9) {
        0 => {
            let value = ["enabled", "disabled", "ingress"][chance.below(3) as usize];
            let marks = json!({"annotations": {"linkerd.io/inject": value}});
            let path = format!("{NAMESPACES}/{namespace}");
            lab.merge(&path, &json!({"metadata": marks})).await.unwrap();
        }
        1 => {
            let spec = json!({"type": "ExternalName", "externalName": "example.com"});
            let object = json!({"metadata": {"name": service}, "spec": spec});
            drop(lab.create(&services, &object).await);
        }
        2 => lab.delete(&format!("{services}/{service}")).await,
        3..=5 => {
            let endpoint = json!({
                "addresses": [format!("10.1.0.{}", chance.below(250) + 1)],
                "conditions": {"ready": chance.below(2) == 0},
                "nodeName": "node-1",
            });
            let metadata = json!({
                "name": slice,
                "labels": {"kubernetes.io/service-name": service},
            });
            let object = json!({
                "metadata": metadata, "addressType": "IPv4",
                "endpoints": if chance.below(4) == 0 { json!([]) } else { json!([endpoint]) },
            });
            if lab.create(&slices, &object).await.is_err() {
                let path = format!("{slices}/{slice}");
                drop(lab.merge(&path, &object).await);
            }
        }
        6 => lab.delete(&format!("{slices}/{slice}")).await,
        _ => {
            let name = format!("hooks-{number}");
            let entry = json!({
                "name": "linkerd-proxy-injector.linkerd.io",
                "clientConfig": {"service": {"namespace": namespace, "name": service}},
                "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
                // No server is to be called.
                "namespaceSelector": {"matchLabels": {"no-object": "has-this"}},
            });
            let object = json!({"metadata": {"name": name}, "webhooks": [entry]});
            if lab.create(WEBHOOKS, &object).await.is_err() {
                lab.delete(&format!("{WEBHOOKS}/{name}")).await;
            }
        }
    }
}

#[tokio::test]
async fn the_view_is_the_cluster_after_any_changes() {
    let lab = Lab::alone().await;
    let injectors = hooks::presets();
    let view = Arc::new(Cluster::new(Store::of_whole(Arc::clone(&injectors))));
    let file = kube::config::Kubeconfig::read_from(lab.kubeconfig(User::Admin)).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await;
    let client = client::connect(&config.unwrap()).unwrap();
    let (mut feeds, stop) = (JoinSet::new(), CancellationToken::new());
    feeds.spawn(watch::run(client, Arc::clone(&view), stop.clone()));
    let mut names = Vec::new();
    for _ in 0..3 {
        names.push(lab.namespace("view", &[], &[]).await);
    }
    let mut chance = Chance(7);
    for round in 0..4 {
        for _ in 0..25 {
            let name = names[chance.below(3) as usize].clone();
            change(&lab, &name, &mut chance).await;
        }
        if round == 2 {
            // Its objects go one by one, and then it.
            lab.delete(&format!("{NAMESPACES}/{}", names[0])).await;
            lab.node("passing").await;
            lab.delete("/api/v1/nodes/passing").await;
            names.remove(0);
            names.push(lab.namespace("view", &[], &[]).await);
        }
        eventually("the view is the cluster", async || {
            let expected = answers(&cluster(&lab, &injectors).await, &names);
            view.is_synced() && answers(&view.read(), &names) == expected
        })
        .await;
    }
    for number in 0..2 {
        lab.delete(&format!("{WEBHOOKS}/hooks-{number}")).await;
    }
    stop.cancel();
    while feeds.join_next().await.is_some() {}
}

/// Look-ups by which one answer that nothing is required was confirmed: a view that is behind would
/// need none (it still requires) or one more (it does not know the namespace).
const CONFIRMED: u64 = 1;

/// What the gate of a process says to a pod in a namespace.
async fn is_allowed(process: &Process, namespace: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/reviews/orders-pod.json");
    let mut review: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    review["request"]["namespace"] = json!(namespace);
    let mut client = Client::connect(process.gate, &process.ca_pem).await;
    let answer = client.try_post("/mutate/pods", &review.to_string()).await;
    let answer: Value = serde_json::from_str(answer.unwrap().text()).unwrap();
    answer["response"]["allowed"].as_bool().unwrap()
}

async fn start(lab: &Lab) -> Process {
    let start = Start {
        kubeconfig: Some(lab.kubeconfig(User::Admin)),
        ..Start::default()
    };
    start.run(&authority()).await
}

async fn inject(lab: &Lab, namespace: &str, value: Value) {
    let marks = json!({"metadata": {"annotations": {"linkerd.io/inject": value}}});
    let path = format!("{NAMESPACES}/{namespace}");
    lab.merge(&path, &marks).await.unwrap();
}

#[tokio::test]
async fn an_api_server_that_goes_and_comes_back() {
    let lab = Lab::alone().await;
    let marks = [("linkerd.io/inject", "enabled")];
    let meshed = lab.namespace("meshed", &[], &marks).await;
    let process = start(&lab).await;
    assert!(!is_allowed(&process, &meshed).await);

    lab.order("kill kube-apiserver").await;
    let mut text = String::new();
    let says = async || {
        text = get(process.probes, "/readyz?verbose");
        text.contains("Connection refused")
    };
    eventually("the age of the view", says).await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(
        text.contains("[+]namespaces ok: last heard of the API server "),
        "{text}"
    );
    assert!(get(process.probes, "/livez").ends_with("ok"));
    assert_eq!(process.metric("meshgate_view_current"), 0);
    assert!(!is_allowed(&process, &meshed).await, "the cache answers");

    lab.order("start kube-apiserver").await;
    inject(&lab, &meshed, Value::Null).await;
    let back = Instant::now();
    let right = async || is_allowed(&process, &meshed).await.then_some(());
    within(SOON, "the change is known", right).await;
    let current = async || (process.metric("meshgate_view_current") == 5).then_some(());
    within(SOON, "the view is current", current).await;
    let took = back.elapsed().as_millis();
    figures(&format!(
        "a view is right {took} ms after the API server is back"
    ));

    let told = |what: &str| process.log().matches(what).count();
    eventually("the return is told", async || {
        told("following the cluster again") > 0
    })
    .await;
    let log = process.log();
    assert_eq!(told("cannot follow the cluster"), 1, "{log}");
    assert_eq!(told("following the cluster again"), 1, "{log}");
}

/// 410: while the program was held, history was forgotten.
#[tokio::test]
async fn a_view_that_missed_too_much_is_listed_anew() {
    let only = vec!["etcd", "kube-apiserver"];
    let lab = Lab::own(Options {
        only,
        ..Options::default()
    })
    .await;
    let marks = [("linkerd.io/inject", "enabled")];
    let meshed = lab.namespace("meshed", &[], &marks).await;
    let process = start(&lab).await;
    assert!(!is_allowed(&process, &meshed).await);
    let lists = process.metric("meshgate_view_lists_total");
    // Three kinds as a whole, and two for each injector's Service.
    assert_eq!(lists, 3 + 3 * 2);

    process.signal("-STOP");
    inject(&lab, &meshed, Value::Null).await;
    let added = lab.namespace("added", &[], &marks).await;
    lab.order("compact").await;
    lab.order("restart kube-apiserver").await;
    process.signal("-CONT");
    let relisted = async || (process.metric("meshgate_view_lists_total") > lists).then_some(());
    within(PATIENCE, "the list is new", relisted).await;
    let current = async || (process.metric("meshgate_view_current") == 5).then_some(());
    within(PATIENCE, "the view is current", current).await;
    assert!(is_allowed(&process, &meshed).await && !is_allowed(&process, &added).await);
    assert_eq!(process.metric("meshgate_live_lookups_total"), CONFIRMED);
}

#[tokio::test]
async fn a_program_that_was_killed_knows_at_its_start_what_it_missed() {
    let lab = Lab::shared().await;
    let marks = [("linkerd.io/inject", "enabled")];
    let meshed = lab.namespace("meshed", &[], &marks).await;
    let process = start(&lab).await;
    assert!(!is_allowed(&process, &meshed).await);
    process.signal("-KILL");
    drop(process);
    inject(&lab, &meshed, Value::Null).await;
    let process = start(&lab).await;
    assert!(is_allowed(&process, &meshed).await);
    assert_eq!(process.metric("meshgate_live_lookups_total"), CONFIRMED);
}
