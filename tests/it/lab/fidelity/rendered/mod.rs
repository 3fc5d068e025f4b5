//! What is rendered for the API server, in the API server: who is asked, which namespaces carry
//! mirrored labels, and what the policies refuse.

mod asked;
mod refusals;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use futures::{StreamExt, stream};
use meshgate_core::injector::{Injectors, PRESETS};
use meshgate_core::render::{MirrorForm, Settings, mirror};
use serde_json::json;

use self::asked::{Configuration, Problem, Recorder, Wrong};
use self::verdicts::Alone;
use crate::lab::fidelity::draw::Draw;
use crate::lab::fidelity::marks::{Marks, Vocabulary};
use crate::lab::fidelity::pairs::{Namespace, Pod, Shape, containers};
use crate::lab::fidelity::pool::{self, Answer};
use crate::lab::fidelity::{IN_FLIGHT, Scale, injectors};
use crate::lab::harness::version::has_mutating_policies;
use crate::lab::harness::{Lab, Options, PATIENCE, within};
use crate::support::figures;

/// Presets with options that are not their defaults, under names of their own.
const VARIANTS: [(&str, &str); 6] = [
    (
        "istio",
        "name: istio-by-default, options: {byDefault: true}",
    ),
    (
        "istio",
        "name: istio-pod-first, options: {podRevisionFirst: true}",
    ),
    (
        "istio",
        "name: istio-all-on, options: {byDefault: true, podRevisionFirst: true, noInit: true}",
    ),
    (
        "consul",
        "name: consul-by-default, options: {byDefault: true}",
    ),
    (
        "istio",
        "name: istio-strict, optOut: forbid, options: {byDefault: true}",
    ),
    ("kuma", "name: kuma-strict, optOut: forbid"),
];

/// Meshes beside each other, in one mode and in two.
const COMBINATIONS: [(&str, &[&str]); 3] = [
    ("two-meshes", &["linkerd", "istio", "vault"]),
    ("two-mirrors", &["opentelemetry", "linkerd", "kuma"]),
    (
        "two-modes",
        &[
            "linkerd, mode: warn",
            "istio",
            "dapr, mode: warn",
            "consul",
            "kuma",
        ],
    ),
];

fn entry(preset: &str, more: &str) -> String {
    let comma = if more.is_empty() { "" } else { ", " };
    format!("- {{preset: {preset}{comma}{more}}}\n")
}

fn presets() -> impl Iterator<Item = &'static str> {
    PRESETS.into_iter().map(|(name, _)| name)
}

/// All presets in one list, each with `more`.
fn list(more: &str) -> String {
    presets().map(|name| entry(name, more)).collect()
}

/// What came of one pair.
struct Compared {
    asked: usize,
    wrongs: Vec<Wrong>,
    passed: usize,
    refused: usize,
    difference: Option<String>,
}

impl Compared {
    /// Shows the counts for that many configurations and policies, and fails if anything is wrong.
    fn hold(found: &[Self], (configurations, policies): (usize, usize), origin: &str) {
        let wrongs: Vec<&Wrong> = found.iter().flat_map(|one| &one.wrongs).collect();
        let of = |problem| {
            wrongs
                .iter()
                .filter(|wrong| wrong.problem == problem)
                .count()
        };
        let differences: Vec<&String> = found
            .iter()
            .filter_map(|one| one.difference.as_ref())
            .collect();
        let asked: usize = found.iter().map(|one| one.asked).sum();
        let passed: usize = found.iter().map(|one| one.passed).sum();
        let refused: usize = found.iter().map(|one| one.refused).sum();
        figures(&format!(
            "fidelity: rendered {} pairs; {configurations} configurations asked {asked} times: {} \
             narrower, {} wider, {} twice; {policies} policies refused {refused} \
             times and passed {passed} sidecars: {} differences from the check; {origin}",
            found.len(),
            of(Problem::Narrower),
            of(Problem::Wider),
            of(Problem::Twice),
            differences.len(),
        ));
        let first = wrongs.iter().map(|wrong| &wrong.text).take(8);
        let first: Vec<&String> = first.chain(differences.into_iter().take(8)).collect();
        assert!(first.is_empty(), "{origin}\n{first:#?}");
        // Neither always nor never.
        for (met, each) in [
            (asked, configurations),
            (refused, policies),
            (passed, policies),
        ] {
            let all = found.len() * each;
            assert!(
                (all / 50..all * 3 / 4).contains(&met),
                "{origin}: {met} of {all}"
            );
        }
    }
}

/// The lab with all that is tried in it.
struct World {
    lab: Lab,
    scale: Scale,
    draw: Draw,
    all: Injectors,
    vocabulary: Vocabulary,
    node: String,
    recorder: Recorder,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_asks_and_refuses_as_the_decisions_say() {
    let mut world = World::start().await;
    let mut namespaces = world.mirrored().await;
    if has_mutating_policies() {
        world.changed(&mut namespaces).await;
    } else {
        pool::settled(&world.lab).await;
    }
    let alone: Vec<Configuration> = presets()
        .map(|name| Configuration::new(name, &entry(name, "")))
        .collect();
    let warned: String = list("mode: warn")
        + &VARIANTS
            .map(|(preset, more)| entry(preset, &format!("{more}, mode: warn")))
            .concat();
    let warned = injectors(&warned);
    let settings = world.recorder.settings();
    let policies = verdicts::enforce(&world.lab, &warned, &settings).await;
    world.compared(&namespaces, &alone, world.scale.pairs).await;
    let together = together();
    world
        .compared(&namespaces, &together, world.scale.pairs / 4)
        .await;
    verdicts::are_well_typed(&world.lab, &policies).await;
    verdicts::lift(&world.lab, &policies).await;
    world.refused(&settings).await;
}

/// Options and combinations.
fn together() -> Vec<Configuration> {
    let mut all: Vec<Configuration> = VARIANTS
        .into_iter()
        .map(|(preset, more)| {
            let name = more.split(['=', ',', ' ']).nth(1).unwrap();
            Configuration::new(name, &entry(preset, more))
        })
        .collect();
    all.extend(COMBINATIONS.into_iter().map(|(name, presets)| {
        let list: String = presets.iter().map(|preset| entry(preset, "")).collect();
        Configuration::new(name, &list)
    }));
    all.push(Configuration::new("all", &list("")));
    all
}

impl World {
    async fn start() -> Self {
        let lab = Lab::own(Options {
            only: vec!["etcd", "kube-apiserver", "kube-controller-manager"],
            ..Options::default()
        })
        .await;
        let scale = Scale::read();
        let all = injectors(&list(""));
        let revisions = ("istio.io/rev", &["default", "canary"][..]);
        Self {
            draw: scale.draw("rendered"),
            vocabulary: Vocabulary::with_sets(&all, &[revisions]),
            node: pool::node(&lab).await,
            recorder: Recorder::start().await,
            lab,
            scale,
            all,
        }
    }

    async fn mirrors(&self) {
        let settings = Settings {
            mirror: MirrorForm::Policy,
            ..self.recorder.settings()
        };
        verdicts::write(&self.lab, &mirror::objects(&self.all, &settings)).await;
        let namespace = json!({"metadata": {
            "name": "mirrored", "annotations": {"linkerd.io/inject": "enabled"},
        }});
        within(PATIENCE, "the mirror is in force", async || {
            let made = self
                .lab
                .create("/api/v1/namespaces?dryRun=All", &namespace)
                .await;
            let marks = Marks::of(&made.unwrap());
            marks
                .labels
                .contains_key("meshgate.io/requires.linkerd")
                .then_some(())
        })
        .await;
    }

    /// Puts the mirror into force where it is a policy, then makes namespaces: each comes back with its labels.
    /// Elsewhere they are labelled here, as a webhook would.
    async fn mirrored(&mut self) -> Vec<Namespace> {
        if has_mutating_policies() {
            self.mirrors().await;
        }
        let drawn = (&self.vocabulary, &mut self.draw);
        let count = self.scale.namespaces();
        let mut namespaces = pool::namespaces(&self.lab, &self.all, drawn, count).await;
        if !has_mutating_policies() {
            for namespace in &mut namespaces {
                let changes = self.changes(namespace);
                let labels = changes
                    .iter()
                    .map(|one| (&*one.label, one.add.then_some("")));
                let labels: BTreeMap<_, _> = labels.collect();
                let change = json!({"metadata": {"labels": labels}});
                let made = pool::patch(&self.lab, &namespace.name, &change).await;
                namespace.marks = Marks::of(&made);
            }
        }
        let labelled = namespaces.iter().filter(|one| !self.labels(one).is_empty());
        assert!(labelled.count() > 5, "hardly any namespace is mirrored");
        for namespace in &namespaces {
            self.agrees(namespace, "when it was made");
        }
        namespaces
    }

    /// Mirrored labels that a namespace carries.
    fn labels<'n>(&self, namespace: &'n Namespace) -> BTreeSet<&'n str> {
        let keys = namespace.marks.labels.keys().map(String::as_str);
        keys.filter(|key| key.starts_with(mirror::LABEL_PREFIX))
            .collect()
    }

    fn changes(&self, namespace: &Namespace) -> Vec<mirror::Change> {
        let annotation = |key: &str| namespace.marks.annotations.get(key).map(String::as_str);
        let keys = namespace.marks.labels.keys().map(String::as_str);
        mirror::changes(&self.all, &namespace.name, keys, annotation)
    }

    fn agrees(&self, namespace: &Namespace, when: &str) {
        let changes = self.changes(namespace);
        let origin = self.scale.origin();
        assert_eq!(changes, [], "{when}, {origin}: {namespace:?}");
    }

    /// Random updates: of annotations and labels, of the mirrored labels by hand, through the
    /// namespace and through its status. After each the labels agree.
    async fn changed(&mut self, namespaces: &mut [Namespace]) {
        let count = self.scale.namespaces() * 4;
        let mirrored: Vec<String> = self
            .all
            .iter()
            .filter(|one| mirror::is_needed(one))
            .map(mirror::label)
            .collect();
        for _ in 0..count {
            let number = self.draw.below(namespaces.len());
            let namespace = &mut namespaces[number];
            let (key, is_label, value) = if self.draw.chance(25) {
                let label = self.draw.pick(&mirrored).clone();
                (label, true, self.draw.chance(50).then(String::new))
            } else {
                self.vocabulary.change(&mut self.draw)
            };
            if self.all.excludes(&namespace.name) && key.starts_with(mirror::LABEL_PREFIX) {
                // No test looks at those.
                continue;
            }
            let field = if is_label { "labels" } else { "annotations" };
            let change = json!({"metadata": {field: {key: value}}});
            let status = if self.draw.chance(30) { "/status" } else { "" };
            let made =
                pool::patch(&self.lab, &format!("{}{status}", namespace.name), &change).await;
            namespace.marks = Marks::of(&made);
            self.agrees(namespace, &format!("after {change}"));
        }
        figures(&format!(
            "fidelity: mirror {} namespaces, {count} updates, labels and annotations agree",
            namespaces.len()
        ));
        pool::settled(&self.lab).await;
    }

    /// Random pods: who is asked, by each of these configurations, and which of the policies warn.
    async fn compared(
        &mut self,
        namespaces: &[Namespace],
        configurations: &[Configuration],
        count: usize,
    ) {
        self.recorder.register(&self.lab, configurations).await;
        let alone: Vec<Alone> = presets()
            .map(|name| Alone::new(&entry(name, "")))
            .chain(VARIANTS.map(|(preset, more)| Alone::new(&entry(preset, more))))
            .collect();
        let names = containers(&self.all);
        let pairs = (0..count).map(|number| {
            let pod = Pod::with(number, &self.vocabulary, &names, &mut self.draw);
            (self.draw.pick(namespaces), pod)
        });
        let pairs: Vec<(&Namespace, Pod)> = pairs.collect();
        let begin = Instant::now();
        let this = &*self;
        let tried = stream::iter(&pairs).map(async |(namespace, pod)| {
            let (answer, json) = this.tried(namespace, pod).await;
            assert!(answer.is_allowed(), "{answer:?}");
            let pair = (*namespace, pod, json.as_str());
            let (asked, wrongs) = this.recorder.asked(configurations, pair);
            let [passed, wanted] = verdicts::passing_and_refusing(&alone, pair);
            let found = verdicts::warning(&answer);
            let warnings = &answer.warnings;
            Compared {
                asked,
                wrongs,
                passed: passed.len(),
                refused: wanted.len(),
                difference: (wanted != found).then(|| {
                    let sides = format!("check: {wanted:?}, policies: {found:?}");
                    format!("{sides}; {namespace:?}; {json}; {warnings:?}")
                }),
            }
        });
        let found: Vec<Compared> = tried.buffer_unordered(IN_FLIGHT).collect().await;
        let origin = self.scale.origin();
        Compared::hold(&found, (configurations.len(), alone.len()), &origin);
        figures(&format!(
            "fidelity: these took {:.1} s",
            begin.elapsed().as_secs_f64()
        ));
        self.recorder.unregister(&self.lab, configurations).await;
    }

    async fn tried(&self, namespace: &Namespace, pod: &Pod) -> (Answer, String) {
        let json = pod.json(&self.node);
        let as_node = pod.shape == Shape::MirrorByNode;
        let answer = pool::try_pod(&self.lab, &namespace.name, &json, as_node).await;
        (answer, json.to_string())
    }
}
