//! The store: whatever the order of arrival, deletion and relist, the same objects give the same
//! answers.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;
use meshgate::cluster::Cluster;
use meshgate::cluster::object::{Kind, Object, ObjectId, Watched};
use meshgate::cluster::store::Store;
use meshgate_core::injector::profile::ServiceName;
use meshgate_core::readiness::Readiness;
use meshgate_core::render::{BREAK_GLASS, CONFIGURATION};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use proptest::sample::select;
use proptest::test_runner::Config;
use serde_json::{Value, json};

use crate::hooks::{objects, presets};

const NAMESPACES: [&str; 3] = ["orders", "payments", "reporting"];
const SERVICES: [(&str, &str); 3] = [
    ("linkerd", "linkerd-proxy-injector"),
    ("istio-system", "istiod"),
    ("istio-system", "istiod-blue"),
];
const NODES: [&str; 4] = ["node-a", "node-b", "node-c", "node-d"];
const INSTANCES: [&str; 4] = ["default", "blue", "stable", "none"];

/// What happens to the store.
#[derive(Debug, Clone)]
enum Event {
    Apply(Object),
    Delete(ObjectId),
    Relist(Kind, Vec<Object>),
    Settle,
}

fn namespace() -> impl Strategy<Value = Object> {
    let annotations = select(vec![json!({}), json!({"linkerd.io/inject": "enabled"})]);
    let labels = select(vec![json!({}), json!({"istio.io/rev": "blue"})]);
    (select(&NAMESPACES), labels, annotations)
        .prop_map(|(name, labels, annotations)| objects::namespace(name, &labels, &annotations))
}

fn service() -> impl Strategy<Value = Object> {
    let external = select(vec![
        json!({}),
        json!({"externalName": "mesh.example.test"}),
    ]);
    (select(&SERVICES), external).prop_map(|((namespace, name), spec)| {
        objects::object(&json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"namespace": namespace, "name": name},
            "spec": spec,
        }))
    })
}

fn endpoint() -> impl Strategy<Value = Value> {
    let flag = || select(vec![json!(null), json!(true), json!(false)]);
    let node = prop::option::of(select(vec!["node-a", "node-b", "node-x"]));
    let pod = prop::option::of(0..3u8);
    (0..4u8, flag(), flag(), flag(), node, pod).prop_map(
        |(address, ready, serving, terminating, node, pod)| {
            let target = pod.map(|pod| json!({"namespace": "mesh", "name": format!("pod-{pod}")}));
            json!({
                "addresses": [format!("10.0.0.{address}")],
                "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
                "nodeName": node,
                "targetRef": target,
            })
        },
    )
}

fn slice() -> impl Strategy<Value = Object> {
    let service = prop::option::weighted(0.9, select(&SERVICES));
    let family = select(vec!["IPv4", "IPv6", "FQDN"]);
    let endpoints = prop::option::of(prop::collection::vec(endpoint(), 0..3));
    (0..4u8, service, family, endpoints).prop_map(|(number, service, family, endpoints)| {
        let labels = service.map(|(_, name)| json!({"kubernetes.io/service-name": name}));
        objects::object(&json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "namespace": service.map_or("linkerd", |(namespace, _)| namespace),
                "name": format!("slice-{number}"),
                "labels": labels,
            },
            "addressType": family,
            "endpoints": endpoints,
        }))
    })
}

fn node() -> impl Strategy<Value = Object> {
    let status = select(vec!["True", "False", "Unknown"]);
    (select(&NODES), status, any::<bool>()).prop_map(|(name, status, tainted)| {
        let taint = json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"});
        objects::object(&json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "spec": {"taints": if tainted { vec![taint] } else { vec![] }},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        }))
    })
}

fn webhooks() -> impl Strategy<Value = Object> {
    let labels = select(vec![
        json!({}),
        json!({"istio.io/rev": "default"}),
        json!({"istio.io/rev": "blue"}),
        json!({"istio.io/tag": "stable", "istio.io/rev": "blue"}),
    ]);
    let entry = select(vec![
        "linkerd-proxy-injector.linkerd.io",
        "rev.namespace.sidecar-injector.istio.io",
    ]);
    (0..3u8, labels, entry, select(&SERVICES)).prop_map(
        |(number, labels, entry, (namespace, name))| {
            let service = ServiceName {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            objects::webhooks(
                &format!("cfg-{number}"),
                &labels,
                entry,
                &service,
                "/inject",
            )
        },
    )
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![1 => namespace(), 1 => service(), 3 => slice(), 2 => node(), 2 => webhooks()]
}

fn relist() -> impl Strategy<Value = Event> {
    let of =
        |kind, objects: prop::collection::VecStrategy<prop::strategy::BoxedStrategy<Object>>| {
            objects.prop_map(move |objects| Event::Relist(kind, objects))
        };
    let some = |object| prop::collection::vec(object, 0..4);
    prop_oneof![
        of(Kind::Namespace, some(namespace().boxed())),
        of(Kind::Service, some(service().boxed())),
        of(Kind::EndpointSlice, some(slice().boxed())),
        of(Kind::Node, some(node().boxed())),
        of(Kind::Webhooks, some(webhooks().boxed())),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => object().prop_map(Event::Apply),
        3 => object().prop_map(|object| Event::Delete(object.id())),
        1 => relist(),
        2 => Just(Event::Settle),
    ]
}

/// All that a reader can ask the store, as text.
fn answers(store: &Store) -> Vec<String> {
    fn shown(what: &str, answer: impl Debug) -> String {
        format!("{what}: {answer:?}")
    }
    let mut answers = Vec::new();
    for state in store.states() {
        let name = &state.injector.profile.name;
        answers.push(shown(name, (state.instance, &state.readiness)));
    }
    for (number, injector) in store.injectors().iter().enumerate() {
        let name = &injector.profile.name;
        let instances: Vec<Option<&str>> = match injector.profile.instances {
            Some(_) => INSTANCES.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        for instance in instances {
            answers.push(shown(name, (instance, store.readiness(number, instance))));
        }
    }
    for name in NAMESPACES {
        answers.push(shown(name, store.namespace(name)));
    }
    for (namespace, name) in SERVICES {
        let service = ServiceName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        answers.push(shown(name, store.external_name(&service)));
        answers.push(shown(name, store.slices(&service).collect::<Vec<_>>()));
    }
    answers.push(shown("counts", store.counts()));
    answers.push(shown(
        "nodes",
        (store.nodes.counts(), store.nodes.rule_rests()),
    ));
    answers.push(shown("ambiguous", store.ambiguous().collect::<Vec<_>>()));
    answers
}

/// What the events leave behind.
fn model(events: &[Event]) -> BTreeMap<ObjectId, Object> {
    let mut objects = BTreeMap::new();
    for event in events {
        match event {
            Event::Apply(object) => drop(objects.insert(object.id(), object.clone())),
            Event::Delete(id) => drop(objects.remove(id)),
            Event::Relist(kind, list) => {
                objects.retain(|id, _| id.kind != *kind);
                objects.extend(list.iter().map(|object| (object.id(), object.clone())));
            }
            Event::Settle => {}
        }
    }
    objects
}

/// Of Services and their slices, one Service at a time.
fn list_anew(store: &mut Store, kind: Kind, mut list: Store) {
    if matches!(kind, Kind::Service | Kind::EndpointSlice) {
        for (namespace, name) in SERVICES {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            let service = Some(Arc::new(ServiceName { namespace, name }));
            list = store.relist(&Watched { kind, service }, list);
        }
    } else {
        store.relist(&kind.into(), list);
    }
}

proptest! {
    #![proptest_config(Config { cases: 150, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_same_objects_give_the_same_answers_whatever_happened_before(
        events in prop::collection::vec(event(), 0..40),
        turned in any::<bool>(),
    ) {
        let injectors = presets();
        let mut store = Store::new(injectors.clone());
        for event in events.clone() {
            match event {
                Event::Apply(object) => drop(store.apply(object)),
                Event::Delete(id) => drop(store.delete(id)),
                Event::Relist(kind, objects) => {
                    let mut list = Store::new(injectors.clone());
                    for object in objects {
                        list.apply(object);
                    }
                    list_anew(&mut store, kind, list);
                }
                Event::Settle => store.settle(),
            }
        }
        store.settle();
        let mut left: Vec<Object> = model(&events).into_values().collect();
        if turned {
            left.reverse();
        }
        let fresh = Store::with(injectors, left);
        proptest::prop_assert_eq!(answers(&store), answers(&fresh));
    }
}

#[test]
fn a_suspension_counts_on_our_configuration_until_its_end() {
    let configuration = |name: &str, note: &str| {
        objects::object(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name, "annotations": {BREAK_GLASS: note}},
        }))
    };
    let at = |time: &'static str| move || -> Timestamp { time.parse().unwrap() };
    let (during, end) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T00:15:00Z"));
    let ours = configuration(
        CONFIGURATION,
        "jane: x; until=2026-01-01T00:15:00Z; injector=a",
    );
    let mut store = Store::new(presets());
    assert_eq!(store.suspension(|| panic!("the clock is not needed")), None);
    store.apply(ours.clone());
    store.apply(configuration("others", "jane: y"));
    let suspension = store.suspension(during).unwrap();
    assert!(suspension.is_about("a") && !suspension.is_about("b"));
    assert_eq!(store.suspension(end), None);
    for endless in ["jane: x", "jane: x; until=9999-01-01T00:00:00Z"] {
        store.apply(configuration(CONFIGURATION, endless));
        assert_eq!(store.suspension(during), None, "no end within a day");
    }
    store.apply(ours.clone());
    store.delete(configuration("others", "").id());
    assert!(store.suspension(during).is_some());
    store.delete(ours.id());
    assert_eq!(store.suspension(during), None);
}

/// A slice of the injector's Service, with endpoints on one Node.
fn many(slice: usize, endpoints: usize) -> Object {
    let endpoint = |number: usize| {
        json!({
            "addresses": [format!("10.{}.{}.{}", slice >> 8, slice & 255, number)],
            "nodeName": "node-a",
            "targetRef": {"namespace": "linkerd", "name": format!("pod-{slice}-{number}")},
        })
    };
    objects::object(&json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": "linkerd",
            "name": format!("slice-{slice}"),
            "labels": {"kubernetes.io/service-name": "linkerd-proxy-injector"},
        },
        "addressType": "IPv4",
        "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
    }))
}

fn ready(name: &str, status: &str) -> Object {
    objects::object(&json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": status}]},
    }))
}

/// What a decision may have to wait for is no more for a large injector than for a small one.
#[test]
fn a_change_of_a_node_counts_nothing_while_decisions_wait() {
    let allocated = |endpoints: usize| {
        let nodes = NODES.map(|name| ready(name, "True"));
        let slices = (0..100).map(|slice| many(slice, endpoints));
        let store = Store::with(presets(), nodes.into_iter().chain(slices));
        let cluster = Cluster::new(store);
        let usable = || {
            let store = cluster.read();
            let states = store.states();
            let linkerd = states
                .iter()
                .find(|one| one.injector.profile.name == "linkerd");
            matches!(linkerd.unwrap().readiness, Readiness::Usable(_))
        };
        assert!(usable());
        let lost = ready("node-a", "False");
        let changed =
            allocation_counter::measure(|| drop(cluster.update(|store| store.apply(lost))));
        assert!(usable(), "it was counted under the lock");
        cluster.settle();
        assert!(!usable());
        let asked = allocation_counter::measure(|| {
            assert!(!usable());
        });
        (changed.count_total, asked.count_total)
    };
    let (small, large) = (allocated(2), allocated(200));
    assert!(
        large.0 <= small.0 && large.1 <= small.1,
        "{small:?} {large:?}"
    );
}

/// Counting holds no lock: decisions and other changes go on.
#[test]
fn decisions_and_changes_go_on_while_endpoints_are_counted() {
    let slices = (0..300).map(|slice| many(slice, 200));
    let cluster = Arc::new(Cluster::new(Store::with(presets(), slices)));
    let counting = Arc::clone(&cluster);
    cluster.update(|store| store.apply(ready("node-b", "True")));
    let counter = std::thread::spawn(move || counting.settle());
    let mut during = 0;
    while !counter.is_finished() {
        cluster.update(|store| store.apply(objects::namespace("orders", &json!({}), &json!({}))));
        assert!(cluster.read().namespace("orders").is_some());
        during += usize::from(!counter.is_finished());
    }
    counter.join().unwrap();
    assert!(
        during > 10,
        "only {during} changes while 60,000 endpoints were counted"
    );
}
