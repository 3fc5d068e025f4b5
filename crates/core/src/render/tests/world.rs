//! A pod in its namespace, for the decisions and for conditions alike.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::condition::{Container, Expr};
use crate::injector::coverage::{self, Sample};
use crate::injector::profile::ContainerName;
use crate::injector::rule::{Key, Place};
use crate::injector::{Injector, Injectors};
use crate::render::mirror;
use crate::view::namespace::NamespaceView;

/// A pod and its namespace.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) namespace: String,
    pub(super) keys: BTreeMap<Key, String>,
    /// Name, image, whether it restarts always.
    pub(super) containers: Vec<(String, String)>,
    pub(super) init: Vec<(String, String, bool)>,
    /// Of all containers the image before an update.
    pub(super) before: String,
}

impl World {
    pub(super) fn value(&self, key: &Key) -> Option<&str> {
        self.keys.get(key).map(String::as_str)
    }

    fn of(&self, place: Place) -> impl Iterator<Item = (&str, &str)> {
        let here = self.keys.iter().filter(move |(key, _)| key.place == place);
        here.map(|(key, value)| (key.name.as_str(), value.as_str()))
    }

    pub(super) fn pod(&self) -> String {
        let map = |place| -> Value {
            self.of(place)
                .collect::<BTreeMap<_, _>>()
                .into_iter()
                .map(|(k, v)| (k.to_owned(), json!(v)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let containers: Vec<Value> = self
            .containers
            .iter()
            .map(|(name, image)| json!({"name": name, "image": image}))
            .collect();
        let init: Vec<Value> = self
            .init
            .iter()
            .map(|(name, image, always)| {
                let policy = if *always {
                    json!("Always")
                } else {
                    Value::Null
                };
                json!({"name": name, "image": image, "restartPolicy": policy})
            })
            .collect();
        json!({
            "metadata": {
                "name": "shop",
                "labels": map(Place::PodLabel),
                "annotations": map(Place::PodAnnotation),
            },
            "spec": {"containers": containers, "initContainers": init},
        })
        .to_string()
    }

    pub(super) fn view(&self, injectors: &Injectors) -> NamespaceView {
        NamespaceView::new(
            &self.namespace,
            self.of(Place::NamespaceLabel),
            self.of(Place::NamespaceAnnotation),
            injectors.keys(),
        )
    }

    /// The same pod in a namespace of the same name with the keys of another.
    pub(super) fn in_namespace_of(mut self, other: &Self) -> Self {
        self.keys.retain(|key, _| key.place.is_on_pod());
        let others = other.keys.iter().filter(|(key, _)| !key.place.is_on_pod());
        self.keys
            .extend(others.map(|(key, value)| (key.clone(), value.clone())));
        self
    }

    /// The namespace as the mirror leaves it.
    pub(super) fn mirrored(mut self, injectors: &Injectors) -> Self {
        let annotation = |name: &str| {
            let key = Key {
                place: Place::NamespaceAnnotation,
                name: name.to_owned(),
            };
            self.keys.get(&key).map(String::as_str)
        };
        let there = self.of(Place::NamespaceLabel).map(|(key, _)| key);
        let changes = mirror::changes(injectors, &self.namespace, there, annotation);
        for mirror::Change { label, add } in changes {
            let key = Key {
                place: Place::NamespaceLabel,
                name: label,
            };
            if add {
                self.keys.insert(key, String::new());
            } else {
                self.keys.remove(&key);
            }
        }
        self
    }

    /// Whether a condition holds.
    pub(super) fn holds(&self, expr: &Expr) -> bool {
        let has = |wanted: &Container| self.holds_container(wanted);
        expr.holds(&|key| self.value(key), &self.namespace, &has)
    }

    /// The same pod before an update.
    pub(super) fn updated(&self) -> Self {
        let mut old = self.clone();
        let plain = old.containers.iter_mut().map(|(_, image)| image);
        for image in plain.chain(old.init.iter_mut().map(|(_, image, _)| image)) {
            image.clone_from(&self.before);
        }
        old
    }

    fn replaces(&self, name: &ContainerName, images: &[String]) -> bool {
        let begins = |image: &str| images.iter().any(|start| image.starts_with(start));
        let plain = self.containers.iter().map(|(own, image)| (own, image));
        let mut all = plain.chain(self.init.iter().map(|(own, image, _)| (own, image)));
        begins(&self.before) && all.any(|(own, image)| is_named(name, own) && !begins(image))
    }

    fn holds_container(&self, wanted: &Container) -> bool {
        match wanted {
            Container::Init(name) => self.init.iter().any(|(own, ..)| own == name),
            Container::Replaced { name, images } => self.replaces(name, images),
            Container::Sidecar {
                name,
                not_image,
                images,
            } => {
                let is_it = |own: &str, image: &String| {
                    is_named(name, own)
                        && !not_image.contains(image)
                        && (images.is_empty()
                            || images.iter().any(|start| image.starts_with(start)))
                };
                self.containers.iter().any(|(own, image)| is_it(own, image))
                    || self
                        .init
                        .iter()
                        .any(|(own, image, always)| *always && is_it(own, image))
            }
        }
    }
}

fn is_named(name: &ContainerName, own: &str) -> bool {
    match name {
        ContainerName::Exact(name) => own == name,
        ContainerName::Prefix(start) => own.starts_with(start.as_str()),
    }
}

/// Worlds in which the rules of these injectors have something to say.
pub(super) fn worlds(injectors: &Injectors) -> impl Strategy<Value = World> + use<> {
    let mut samples: BTreeMap<Key, Vec<Sample>> = BTreeMap::new();
    let all = injectors.iter().flat_map(terms_of);
    for (key, values) in coverage::samples_of(all) {
        samples.insert(key.clone(), values);
    }
    let keys: Vec<_> = samples
        .into_iter()
        // Absent half of the time.
        .map(|(key, values)| {
            let absent = vec![None; values.len()];
            (Just(key), select([values, absent].concat()))
        })
        .collect();
    let names = select(names(injectors));
    let containers = select(containers(injectors));
    let plain = prop::collection::vec((containers.clone(), image()), 0..3);
    let init = prop::collection::vec((containers, image(), any::<bool>()), 0..3);
    (names, keys, plain, init, image()).prop_map(|(namespace, keys, containers, init, before)| {
        World {
            before,
            namespace,
            keys: keys
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)))
                .collect(),
            containers,
            init,
        }
    })
}

fn terms_of(injector: &Injector) -> impl Iterator<Item = &crate::injector::rule::Term> {
    let rules = injector.profile.rules.iter().flat_map(|rule| &rule.when);
    rules.chain(injector.profile.injected.iter().flat_map(|set| &set.when))
}

fn image() -> impl Strategy<Value = String> + Clone {
    let images = [
        "auto",
        "proxy:1",
        "ok.example/proxy:1",
        "ok.example/proxy:2",
    ];
    select(images.map(str::to_owned).to_vec())
}

/// Ordinary names, and all that a profile names.
fn names(injectors: &Injectors) -> Vec<String> {
    let mut names = vec!["orders".to_owned(); 8];
    for injector in injectors.iter() {
        let profile = &injector.profile;
        names.push(profile.service.namespace.clone());
        names.push(profile.service.namespace.clone());
        names.extend(profile.namespaces.except.iter().cloned());
        names.extend(profile.namespaces.only.iter().flatten().cloned());
    }
    names
}

fn containers(injectors: &Injectors) -> Vec<String> {
    let mut names = vec!["app".to_owned()];
    for set in injectors
        .iter()
        .flat_map(|injector| &injector.profile.injected)
    {
        names.extend(set.init.iter().cloned());
        match &set.sidecar {
            Some(ContainerName::Exact(name)) => names.push(name.clone()),
            Some(ContainerName::Prefix(start)) => names.push(format!("{start}one")),
            None => {}
        }
    }
    names
}
