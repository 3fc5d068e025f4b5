use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use meshgate_core::decision::reason::Reason;
use meshgate_core::injector::Injectors;

use crate::cluster::object::{Kind, Object};
use crate::cluster::store::Store;
use crate::cluster::workloads::{self, Uid, Workloads};

use super::blocked::{self, Blocked, Outlook};
use super::plan::Waves;
use super::resume;

const CONFIG: &str = "apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
  optOut: forbid
- preset: vault
  mode: warn
excludedNamespaces: [storage]
";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn injectors() -> Arc<Injectors> {
    Arc::new(Injectors::from_yaml("test", CONFIG.as_bytes()).unwrap())
}

/// Linkerd is installed, and has one endpoint or none.
fn store(is_installed: bool, is_ready: bool) -> Store {
    let read = |kind: Kind, object: &Value| Object::from_json(kind, &object.to_string()).unwrap();
    let namespace = |name: &str, inject: &str| {
        let metadata = json!({"name": name, "annotations": {"linkerd.io/inject": inject}});
        read(Kind::Namespace, &json!({"metadata": metadata}))
    };
    let slice = json!({
        "metadata": {"name": "a", "namespace": "linkerd",
            "labels": {"kubernetes.io/service-name": "linkerd-proxy-injector"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.7"], "conditions": {"ready": is_ready}}],
    });
    let entry = if is_installed {
        "linkerd-proxy-injector.linkerd.io"
    } else {
        "other.example.com"
    };
    let service = json!({"namespace": "linkerd", "name": "linkerd-proxy-injector"});
    let webhooks = json!({
        "metadata": {"name": "w"},
        "webhooks": [{"name": entry, "clientConfig": {"service": service}}],
    });
    let objects = [
        namespace("orders", "enabled"),
        namespace("storage", "enabled"),
        namespace("plain", "disabled"),
        read(Kind::EndpointSlice, &slice),
        read(Kind::Webhooks, &webhooks),
    ];
    Store::with(injectors(), objects)
}

fn uid(number: u128) -> String {
    Uid(number).to_string()
}

/// A ReplicaSet that has none of its two pods.
fn set(number: u128, namespace: &str, template: &Value) -> Value {
    let mut own = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "a/web"}]}});
    json_patch::merge(&mut own, template);
    json!({
        "metadata": {"uid": uid(number), "name": "web", "namespace": namespace, "resourceVersion": "7"},
        "spec": {"replicas": 2, "template": own}, "status": {"replicas": 0},
    })
}

fn view(sets: &[Value], now: Timestamp) -> Workloads {
    let mut view = Workloads::new(injectors());
    for set in sets {
        let kind = workloads::Kind::ReplicaSet;
        view.put(kind, &set.to_string(), now).unwrap();
    }
    view
}

/// What it is like two seconds after it was seen.
fn one(set: &Value, store: &Store) -> Option<Outlook> {
    let view = view(std::slice::from_ref(set), at(0));
    assert_eq!(
        blocked::all(&view, store, at(1)),
        [],
        "it may get its pods yet"
    );
    let blocked = blocked::all(&view, store, at(2));
    blocked.first().map(|one| one.outlook)
}

#[test]
fn who_is_blocked_and_by_what() {
    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let none = json!({});
    let opts_out = annotated("linkerd.io/inject", "disabled");
    let invalid = annotated("linkerd.io/inject", "perhaps");
    let vault = annotated("vault.hashicorp.com/agent-inject", "true");
    let host = json!({"spec": {"hostNetwork": true}});
    let windows = json!({"spec": {"nodeSelector": {"kubernetes.io/os": "windows"}}});
    let meshed = json!({"spec": {"containers": [{"name": "linkerd-proxy", "image": "proxy"}],
        "initContainers": [{"name": "linkerd-init", "image": "init"}]}});
    let (refused, waits) = (Outlook::Refused, Outlook::Waits);
    // Its namespace, its template; what it is while linkerd is away, is usable, is not installed.
    let cases = [
        (
            "orders",
            &none,
            [
                Some(waits),
                Some(Outlook::Usable),
                Some(refused(Reason::InjectorNotInstalled)),
            ],
        ),
        ("orders", &invalid, [Some(refused(Reason::InvalidValue)); 3]),
        (
            "orders",
            &opts_out,
            [Some(refused(Reason::OptOutForbidden)); 3],
        ),
        ("orders", &host, [None; 3]),
        ("orders", &windows, [None; 3]),
        ("orders", &meshed, [None; 3]),
        ("storage", &none, [None; 3]),
        ("plain", &none, [None; 3]),
        ("unknown", &none, [None; 3]),
        // In mode warn, it keeps no pod waiting.
        ("plain", &vault, [None; 3]),
    ];
    let stores = [store(true, false), store(true, true), store(false, false)];
    for (namespace, template, expected) in cases {
        let set = set(1, namespace, template);
        let found = [0, 1, 2].map(|state| one(&set, &stores[state]));
        assert_eq!(found, expected, "{namespace} {template}");
    }
}

#[test]
fn one_that_gets_pods_or_wants_none_is_not_blocked() {
    let store = store(true, true);
    let mut own = set(1, "orders", &json!({}));
    let mut view = view(std::slice::from_ref(&own), at(0));
    own["status"]["replicas"] = json!(1);
    let kind = workloads::Kind::ReplicaSet;
    view.put(kind, &own.to_string(), at(2)).unwrap();
    assert_eq!(blocked::all(&view, &store, at(3)), []);
    assert_eq!(blocked::all(&view, &store, at(4)).len(), 1);
    own["spec"]["replicas"] = json!(1);
    view.put(kind, &own.to_string(), at(4)).unwrap();
    assert_eq!(blocked::all(&view, &store, at(99)), []);
}

fn pod(number: u128, owner: u128, created: i64, has_sidecar: bool) -> Value {
    let proxy = json!({"name": "linkerd-proxy", "image": "proxy"});
    let init = json!([{"name": "linkerd-init", "image": "init"}]);
    let mut pod = json!({
        "metadata": {"uid": uid(number), "name": "web-1", "namespace": "orders",
            "creationTimestamp": at(created).to_string(),
            "ownerReferences": [{"uid": uid(owner), "controller": true}]},
        "spec": {"containers": [{"name": "web", "image": "a/web"}]},
    });
    if has_sidecar {
        pod["spec"]["initContainers"] = init;
        pod["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(proxy);
    }
    pod
}

#[test]
fn only_a_pod_that_got_its_sidecar_on_the_way_proves_its_injector() {
    let store = store(true, true);
    let meshed = json!({"spec": {"containers": [{"name": "linkerd-proxy", "image": "proxy"}],
        "initContainers": [{"name": "linkerd-init", "image": "init"}]}});
    let mut view = view(
        &[set(1, "orders", &json!({})), set(2, "orders", &meshed)],
        at(0),
    );
    let cases = [
        (1, true, true),
        (1, false, false),
        (2, true, false),
        (3, true, false),
    ];
    for (number, (owner, has_sidecar, proves)) in (100..).zip(cases) {
        let pod = pod(number, owner, 0, has_sidecar).to_string();
        let uid = view
            .put(workloads::Kind::Pod, &pod, at(0))
            .unwrap()
            .unwrap();
        let set = blocked::proved(view.pod(uid).unwrap(), &view, &store, at(0));
        assert_eq!(set.is_some(), proves, "{owner} {has_sidecar}");
    }
}

/// One of three was woken a moment ago. If its pod came with its sidecar, the rest are woken at once; one that
/// was there before proves nothing.
#[test]
fn a_new_leader_reads_from_the_cluster_what_the_old_one_did() {
    let store = store(true, true);
    for (created, expected) in [(-3, 0), (-20, 0), (-1, 2)] {
        let mut sets = [1, 2, 3].map(|number| set(number, "orders", &json!({})));
        let woken = if created == -20 { -90 } else { -2 };
        sets[0]["metadata"]["annotations"] = json!({"meshgate.io/woken": at(woken).to_string()});
        let mut view = view(&sets, at(-10));
        let pod = pod(9, 1, created, true).to_string();
        view.put(workloads::Kind::Pod, &pod, at(0)).unwrap();
        let mut waves = Waves::default();
        resume(&mut waves, &view, &store, at(0));
        let blocked: Vec<Blocked> = blocked::all(&view, &store, at(0));
        assert_eq!(blocked.len(), 3);
        let wakes = waves.plan(&blocked, at(0));
        let rest = wakes.iter().filter(|wake| !wake.is_scout).count();
        assert_eq!(rest, expected, "{created}");
        // Without a proof, the scout of a moment ago has its time; the one of long ago is over.
        let scouts = wakes.len() - rest;
        assert_eq!(scouts, usize::from(created == -20), "{created}");
        assert!(!wakes.iter().any(|wake| wake.uid == Uid(1)) || created == -20);
    }
    assert!(SignedDuration::from_secs(90) > super::RECENT);
}
