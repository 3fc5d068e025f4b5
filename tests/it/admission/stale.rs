//! A view that holds another namespace than the API server knows: the answer is that of the namespace that
//! the API server knows, or a temporary refusal if that cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use meshgate::cluster::namespace_lookup::Fetch;
use meshgate::cluster::object::{Kind, Object};
use meshgate::cluster::slim;
use meshgate::metrics::Hook;
use meshgate_core::injector::Injectors;
use meshgate_core::injector::rule::{Key, Place};
use meshgate_core::render::{self, Client as Registered, Settings, mirror};
use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use crate::hooks::{self, HOOKS, Hooks, objects, path};
use crate::support::client::Client;

type Keys = BTreeMap<Key, String>;

/// Labels and annotations on which the presets depend, each absent half of the time.
fn keys(
    injectors: &Injectors,
    is_wanted: fn(Place) -> bool,
) -> impl Strategy<Value = Keys> + use<> {
    let mut values: BTreeMap<Key, Vec<Option<String>>> = BTreeMap::new();
    for injector in injectors.iter() {
        for term in injector.active_rules().flat_map(|rule| &rule.when) {
            if is_wanted(term.key.place) {
                let named = term.test.values.iter().cloned().map(Some);
                values.entry(term.key.clone()).or_default().extend(named);
            }
        }
    }
    let keys: Vec<_> = values
        .into_iter()
        .map(|(key, mut values)| {
            values.push(Some("other".to_owned()));
            let absent = vec![None; values.len()];
            (Just(key), select([values, absent].concat()))
        })
        .collect();
    keys.prop_map(|keys| {
        keys.into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    })
}

fn of(keys: &Keys, place: Place) -> Map<String, Value> {
    let here = keys.iter().filter(|(key, _)| key.place == place);
    here.map(|(key, value)| (key.name.clone(), json!(value)))
        .collect()
}

/// A namespace `shop` with these keys and the labels that the mirror gives it.
#[derive(Debug, Clone)]
struct Namespace {
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
}

impl Namespace {
    fn new(keys: &Keys, injectors: &Injectors) -> Self {
        let annotations = of(keys, Place::NamespaceAnnotation);
        let mut labels = of(keys, Place::NamespaceLabel);
        let annotation = |name: &str| annotations.get(name).and_then(Value::as_str);
        for change in mirror::changes(injectors, "shop", [], annotation) {
            labels.insert(change.label, json!(""));
        }
        labels.insert("kubernetes.io/metadata.name".to_owned(), json!("shop"));
        Self {
            labels,
            annotations,
        }
    }

    fn object(&self) -> Object {
        objects::namespace("shop", &json!(self.labels), &json!(self.annotations))
    }

    fn slim(&self) -> slim::Namespace {
        let Object::Namespace(namespace) = self.object() else {
            panic!("another kind")
        };
        namespace
    }

    /// As the API server reads a selector.
    fn is_selected(&self, selector: &Value) -> bool {
        selector["matchExpressions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|term| {
                let value = self.labels.get(term["key"].as_str().unwrap());
                let is_in = || term["values"].as_array().unwrap().contains(value.unwrap());
                match term["operator"].as_str().unwrap() {
                    "In" => value.is_some() && is_in(),
                    "NotIn" => value.is_none() || !is_in(),
                    "Exists" => value.is_some(),
                    "DoesNotExist" => value.is_none(),
                    other => panic!("{other}"),
                }
            })
    }
}

/// What an answer says, but for words that quote the namespace.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    allowed: bool,
    injectors: String,
    reason: String,
    patch: Value,
}

/// A server with all presets installed, whose view of `shop` is one thing and the API server's another.
struct Scene {
    hooks: Hooks,
    client: Client,
    injectors: Arc<Injectors>,
    /// The entries of gate and check: name and selector.
    entries: [Vec<(String, Value)>; 2],
    /// The answer to a look-up.
    known: Arc<Mutex<Result<Option<slim::Namespace>, String>>>,
}

impl Scene {
    async fn new() -> Self {
        let known = Arc::new(Mutex::new(Ok(None)));
        let source = Arc::clone(&known);
        let fetch: Fetch = Arc::new(move |_| std::future::ready(source.lock().clone()).boxed());
        let hooks = Hooks::start(fetch).await;
        let injectors = hooks::presets();
        let installed = injectors.iter().flat_map(|one| {
            let copies: &[&str] = one
                .profile
                .instances
                .as_ref()
                .map_or(&[], |_| &["default", "other"]);
            objects::installed(&one.profile, copies, true)
        });
        hooks.hold(installed.collect());
        let freshness = &hooks.cluster.freshness;
        freshness.follow(Kind::Namespace);
        freshness.listed(Kind::Namespace);
        freshness.caught_up(Kind::Namespace, std::time::Instant::now());
        let client = Registered::Url("https://127.0.0.1:8443".to_owned());
        let settings = Settings::new(client, "meshgate-system");
        let rendered = render::webhooks::objects(&injectors, &settings).objects;
        let entries = [0, 1].map(|number: usize| {
            let entries = rendered[number]["webhooks"].as_array().unwrap().iter();
            let pods = entries.filter(|entry| entry["name"] != render::REACH_ENTRY);
            pods.map(|entry| {
                let url = entry["clientConfig"]["url"].as_str().unwrap();
                let path = url.strip_prefix("https://127.0.0.1:8443").unwrap();
                (path.to_owned(), entry["namespaceSelector"].clone())
            })
            .collect()
        });
        Self {
            client: hooks.client().await,
            hooks,
            injectors,
            entries,
            known,
        }
    }

    async fn said(&mut self, path: &str, pod: &Value) -> Said {
        let review = hooks::review("u", "shop", pod.clone()).to_string();
        let answer = self.client.post(path, "application/json", review).await;
        let answer: Value = serde_json::from_str(answer.text()).unwrap();
        let response = &answer["response"];
        let audit = |key: &str| {
            response["auditAnnotations"][key]
                .as_str()
                .unwrap_or("")
                .to_owned()
        };
        Said {
            allowed: response["allowed"] == true,
            injectors: audit("injectors"),
            reason: audit("reason"),
            patch: response["patch"].clone(),
        }
    }

    /// `held` is the namespace in the view, `known` the one at the API server.
    async fn holds(&mut self, held: &Namespace, known: &Namespace, pod: &Value) {
        for (hook, entries) in HOOKS.into_iter().zip(self.entries.clone()) {
            let mut asking = entries
                .iter()
                .filter(|(_, selector)| known.is_selected(selector));
            let Some((asked, _)) = asking.next() else {
                continue;
            };
            assert!(asking.next().is_none(), "{known:?}");
            *self.known.lock() = Ok(Some(known.slim()));
            self.hooks
                .cluster
                .update(|store| store.apply(known.object()));
            let right = self.said(path(hook), pod).await;
            self.hooks
                .cluster
                .update(|store| store.apply(held.object()));
            let found = self.said(asked, pod).await;
            let context = format!("{asked}: {pod}\nheld {held:?}\nknown {known:?}");
            // An annotation that Linkerd does not know is in no label, so that no entry tells of it.
            let is_told = right.reason != "invalid_value" && found.reason != "invalid_value";
            assert_eq!(found.injectors, right.injectors, "{context}");
            assert!(
                !is_told || found == right,
                "{found:?}\n{right:?}\n{context}"
            );
            *self.known.lock() = Err("connection refused".to_owned());
            let found = self.said(asked, pod).await;
            let is_temporary = !found.allowed && found.reason == "namespace_unknown";
            assert!(
                !is_told || is_temporary || found == right,
                "{found:?}\n{right:?}\n{context}"
            );
        }
    }
}

/// A pod with these keys, and some of the containers that injectors add.
fn pod(keys: &Keys, containers: &[&str]) -> Value {
    let container = |name: &&str| json!({"name": name, "image": "registry.example.test/app:1"});
    let containers: Vec<Value> = containers.iter().map(container).collect();
    json!({
        "metadata": {
            "generateName": "shop-",
            "labels": of(keys, Place::PodLabel),
            "annotations": of(keys, Place::PodAnnotation),
        },
        "spec": {
            "containers": containers,
            "initContainers": [{"name": "linkerd-init"}, {"name": "istio-init"}],
        },
    })
}

#[tokio::test]
async fn the_answer_is_that_of_the_namespace_that_the_api_server_knows() {
    const SIDECARS: [&str; 8] = [
        "app",
        "linkerd-proxy",
        "istio-proxy",
        "vault-agent",
        "otc-container",
        "daprd",
        "kuma-sidecar",
        "consul-dataplane",
    ];
    let mut scene = Scene::new().await;
    let injectors = Arc::clone(&scene.injectors);
    let namespace = || keys(&injectors, |place| !place.is_on_pod());
    let on_pod = keys(&injectors, Place::is_on_pod);
    let containers = prop::collection::vec(select(SIDECARS.to_vec()), 1..6);
    // Some keys are the same on both sides.
    let same = prop::collection::vec(any::<bool>(), 16);
    let cases = (namespace(), namespace(), same, on_pod, containers);
    let mut runner = TestRunner::deterministic();
    for _ in 0..300 {
        let (mut held, known, same, on_pod, containers) =
            cases.new_tree(&mut runner).unwrap().current();
        let all: BTreeSet<Key> = held.keys().chain(known.keys()).cloned().collect();
        for key in all
            .into_iter()
            .zip(same)
            .filter_map(|(key, same)| same.then_some(key))
        {
            match known.get(&key) {
                Some(value) => drop(held.insert(key, value.clone())),
                None => drop(held.remove(&key)),
            }
        }
        let [held, known] = [held, known].map(|keys| Namespace::new(&keys, &injectors));
        scene.holds(&held, &known, &pod(&on_pod, &containers)).await;
    }
}

/// The attack: the namespace requires Linkerd by now, and a pod asks for Istio by itself, with containers
/// called as Istio's are.
#[tokio::test]
async fn a_second_injector_does_not_hide_what_the_namespace_requires_by_now() {
    let mut scene = Scene::new().await;
    let [held, known] = [None, Some("enabled")].map(|inject| {
        let key = Key {
            place: Place::NamespaceAnnotation,
            name: "linkerd.io/inject".to_owned(),
        };
        let keys = inject.map(|value| (key, value.to_owned()));
        Namespace::new(&keys.into_iter().collect(), &scene.injectors)
    });
    let key = Key {
        place: Place::PodLabel,
        name: "sidecar.istio.io/inject".to_owned(),
    };
    let asks = Keys::from([(key, "true".to_owned())]);
    let pod = pod(&asks, &["app", "istio-proxy"]);
    scene
        .hooks
        .cluster
        .update(|store| store.apply(held.object()));
    *scene.known.lock() = Ok(Some(known.slim()));
    let check = scene.entries[1].clone();
    let asking = check
        .iter()
        .find(|(_, selector)| known.is_selected(selector));
    let found = scene.said(&asking.unwrap().0, &pod).await;
    assert_eq!((found.allowed, &*found.injectors), (false, "linkerd,istio"));
    // Without a name, the old answer.
    let found = scene.said(path(Hook::Check), &pod).await;
    assert_eq!((found.allowed, &*found.injectors), (true, "istio"));
    scene.holds(&held, &known, &pod).await;
    scene.holds(&known, &held, &pod).await;
}
