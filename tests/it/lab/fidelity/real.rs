//! What a real injector does to pods, against what meshgate says of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures::{StreamExt, stream};
use meshgate::cluster::object::{Kind, Object};
use meshgate::cluster::store::Store;
use meshgate_core::decision::{check, requirement};
use meshgate_core::injector::Injectors;
use meshgate_core::readiness::{Looked, Readiness};
use meshgate_core::view::pod::PodView;
use serde_json::{Value, json};

use super::decided::{Decision, EXCLUDED, HOME, HOST_NETWORK, Pair, UNSEEN, WINDOWS, Word};
use super::draw::Draw;
use super::marks::{Marks, Vocabulary};
use super::pairs::{Namespace, Pod};
use super::pool::{self, Answer};
use super::{IN_FLIGHT, Scale};
use crate::lab::harness::{Dapr, Istiod, Lab, Options, pod};
use crate::support::figures;

/// A label of namespaces, and an annotation of pods.
type Asks = ((&'static str, &'static str), (&'static str, &'static str));

/// One injector in its lab.
struct Trial<'l> {
    lab: &'l Lab,
    injectors: Arc<Injectors>,
    store: Store,
    node: String,
    /// The Service of the injector that put a sidecar into the pod that was made.
    injected_by: fn(&Answer) -> Option<String>,
    decisions: &'static [Decision],
    /// What a namespace asks by as a label, and a pod as an annotation.
    asks: Asks,
    /// Of the pairs that are to be tried: all, every second, …
    part: usize,
    /// Namespaces are numbered by this label, up to that many.
    shared_out: Option<(&'static str, usize)>,
}

impl<'l> Trial<'l> {
    /// With the injector installed as it is in the lab.
    async fn new(
        lab: &'l Lab,
        list: &str,
        injected_by: fn(&Answer) -> Option<String>,
        (asks, decisions): (Asks, &'static [Decision]),
    ) -> Self {
        let injectors = Arc::new(super::injectors(list));
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        let known = lab.get(path).await.unwrap();
        let known = known["items"].as_array().unwrap().iter().map(|item| {
            let kind = Kind::Webhooks;
            Object::from_json(kind, &item.to_string()).unwrap()
        });
        Self {
            lab,
            store: Store::with(Arc::clone(&injectors), known),
            injectors,
            node: pool::node(lab).await,
            injected_by,
            decisions,
            asks,
            part: 1,
            shared_out: None,
        }
    }

    fn word(&self, namespace: &Namespace, pod: &Pod, json: &str) -> Word {
        let view = PodView::read(json, self.injectors.keys()).unwrap();
        if pod.is_exempt(&view, namespace, &self.injectors) {
            return Word::Exempt;
        }
        let place = namespace.view(&self.injectors);
        let requirement = requirement::of(&view, &place, &self.injectors);
        let Some(claim) = requirement.matches.first() else {
            return Word::NotRequired;
        };
        if claim.is_invalid() {
            return Word::Invalid;
        }
        match self.store.readiness(claim.number, claim.instance()) {
            Readiness::NotInstalled | Readiness::NoInstance => Word::NotThere,
            Readiness::Usable(Looked::Endpoints { service, .. })
            | Readiness::NotUsable(Looked::Endpoints { service, .. }) => {
                Word::Required(service.name.clone())
            }
            other @ (Readiness::Usable(_) | Readiness::NotUsable(_)) => panic!("{other:?}"),
        }
    }

    /// What the check has against what the injector made.
    fn against(&self, namespace: &Namespace, made: &Value) -> String {
        let json = made.to_string();
        let view = PodView::read(&json, self.injectors.keys()).unwrap();
        let place = namespace.view(&self.injectors);
        let requirement = requirement::of(&view, &place, &self.injectors);
        let ready = |_: &_| Readiness::Usable(Looked::Assumed);
        check::decide(&view, &requirement, ready).message
    }

    /// Tries as many random pairs, and holds each to what meshgate says.
    async fn run(self, name: &str, more: &[(&str, &[&str])]) {
        let mut scale = Scale::read();
        scale.pairs /= self.part;
        let mut draw = scale.draw(name);
        let vocabulary = Vocabulary::of(&self.injectors, more);
        let namespaces = self.namespaces((&vocabulary, &mut draw), &scale).await;
        let (plain, named): (Vec<&Namespace>, Vec<&Namespace>) = namespaces
            .iter()
            .partition(|one| one.name.starts_with("n-"));
        let pairs = (0..scale.pairs).map(|number| {
            let pod = Pod::bare(number, &vocabulary, &mut draw);
            // Those that profiles name are few.
            let some = if draw.chance(10) { &named } else { &plain };
            (*draw.pick(some), pod)
        });
        let pairs: Vec<(&Namespace, Pod)> = pairs.collect();
        let in_flight = self.shared_out.map_or(IN_FLIGHT, |(_, count)| 2 * count);
        let begin = Instant::now();
        let tried = stream::iter(&pairs).map(|(namespace, pod)| self.one(namespace, pod));
        let found: Vec<Found> = tried.buffer_unordered(in_flight).collect().await;
        let seconds = begin.elapsed().as_secs_f64();
        let mut tally = Tally::default();
        for one in found {
            tally.add(one);
        }
        let differences = &tally.differences;
        let origin = scale.origin();
        figures(&format!(
            "fidelity: {name} {} pairs in {seconds:.1} s, {} injected, {} differences, {} decisions; \
             {origin}",
            pairs.len(),
            tally.injected,
            differences.len(),
            self.decisions.len(),
        ));
        let first = &differences[..differences.len().min(12)];
        assert!(
            first.is_empty(),
            "{} differences, {origin}\n{first:#?}",
            differences.len()
        );
        for decision in self.decisions {
            let count = tally.decided.get(decision.text).copied().unwrap_or(0);
            let text = decision.text;
            figures(&format!("fidelity: {name}, {count} pairs: {text}"));
            self.still_differs(decision).await;
        }
        // Neither always nor never.
        let some = pairs.len() / 8..pairs.len() * 7 / 8;
        assert!(
            some.contains(&tally.injected),
            "{origin}: {} injected",
            tally.injected
        );
    }

    async fn namespaces(&self, drawn: (&Vocabulary, &mut Draw), scale: &Scale) -> Vec<Namespace> {
        let count = scale.namespaces();
        let namespaces = pool::namespaces(self.lab, &self.injectors, drawn, count).await;
        if let Some((label, count)) = self.shared_out {
            for (number, namespace) in namespaces.iter().enumerate() {
                let own = json!({label: (number % count).to_string()});
                let change = json!({"metadata": {"labels": own}});
                pool::patch(self.lab, &namespace.name, &change).await;
            }
        }
        pool::settled(self.lab).await;
        namespaces
    }

    /// A decision that no pair meets any more is to go.
    async fn still_differs(&self, decision: &Decision) {
        let (name, shape, before) = decision.example;
        let (label, annotation) = self.asks;
        let mut marks = Marks::default();
        marks.labels.insert(label.0.to_owned(), label.1.to_owned());
        self.lab.ensure_namespace(name).await;
        let metadata = json!({"labels": marks.labels, "annotations": {}});
        pool::patch(self.lab, name, &json!({"metadata": metadata})).await;
        pool::settled(self.lab).await;
        let namespace = Namespace {
            name: name.to_owned(),
            marks,
        };
        let mut asking = Marks::default();
        asking
            .annotations
            .insert(annotation.0.to_owned(), format!("{before}{}", annotation.1));
        let pod = Pod::plain("example", asking, shape);
        match self.one(&namespace, &pod).await {
            Found::Decided(text, _) if text == decision.text => {}
            other @ (Found::Same(_) | Found::Decided(..) | Found::Difference(_)) => {
                panic!("no longer so: {}; {other:?}", decision.text)
            }
        }
    }

    async fn one(&self, namespace: &Namespace, pod: &Pod) -> Found {
        let json = pod.json(&self.node);
        let answer = pool::try_pod(self.lab, &namespace.name, &json, false).await;
        let injected_by = (self.injected_by)(&answer);
        let told = |pair: &Pair<'_>| {
            format!(
                "meshgate: {:?}, real: {:?}; {} {:?}; {:?} {:?}; answer {} {}",
                pair.word,
                pair.injected_by,
                namespace.name,
                namespace.marks,
                pod.shape,
                pod.marks,
                answer.code,
                answer.message()
            )
        };
        let pair = Pair {
            injectors: &self.injectors,
            namespace,
            pod,
            word: self.word(namespace, pod, &json.to_string()),
            injected_by,
        };
        let is_injected = pair.injected_by.is_some();
        if !answer.is_allowed() && !is_injected {
            return Found::Difference(told(&pair));
        }
        if !pair.agrees() {
            let decision = self.decisions.iter().find(|one| (one.covers)(&pair));
            return match decision {
                Some(decision) => Found::Decided(decision.text, is_injected),
                None => Found::Difference(told(&pair)),
            };
        }
        if is_injected && answer.is_allowed() {
            let against = self.against(namespace, &answer.body);
            if !against.is_empty() {
                return Found::Difference(format!("{}; the check: {against}", told(&pair)));
            }
        }
        Found::Same(is_injected)
    }
}

/// What came of a pair.
#[derive(Debug)]
enum Found {
    Same(bool),
    Decided(&'static str, bool),
    Difference(String),
}

#[derive(Default)]
struct Tally {
    injected: usize,
    decided: BTreeMap<&'static str, usize>,
    differences: Vec<String>,
}

impl Tally {
    fn add(&mut self, found: Found) {
        match found {
            Found::Same(is_injected) => self.injected += usize::from(is_injected),
            Found::Decided(text, is_injected) => {
                self.injected += usize::from(is_injected);
                *self.decided.entry(text).or_default() += 1;
            }
            Found::Difference(text) => self.differences.push(text),
        }
    }
}

/// What a Windows or a mirror pod may not have, and an injector puts in, the API server refuses
/// after it.
fn is_refused_for_what_was_put_in(answer: &Answer) -> bool {
    [
        "cannot be set for a windows pod",
        "windows",
        "a mirror pod may not",
    ]
    .iter()
    .any(|text| answer.message().contains(text))
}

/// Names the revision that says in the pod's status that it was at work.
fn istiod_of(answer: &Answer) -> Option<String> {
    if is_refused_for_what_was_put_in(answer) {
        return Some(UNSEEN.to_owned());
    }
    let status = &answer.body["metadata"]["annotations"]["sidecar.istio.io/status"];
    let status: Value = serde_json::from_str(status.as_str()?).ok()?;
    Some(match status["revision"].as_str()? {
        "default" => "istiod".to_owned(),
        revision => format!("istiod-{revision}"),
    })
}

fn dapr_of(answer: &Answer) -> Option<String> {
    let containers = answer.body["spec"]["containers"].as_array();
    let is_there = containers.is_some_and(|list| list.iter().any(|one| one["name"] == "daprd"));
    (is_there || is_refused_for_what_was_put_in(answer)).then(|| "dapr-sidecar-injector".to_owned())
}

#[tokio::test]
async fn istio_is_required_exactly_where_istiod_injects() {
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver"],
        ..Options::default()
    })
    .await;
    lab.ensure_namespace("by-default").await;
    let mut default = Istiod::install(&lab, "default", &[]).await;
    let mut canary = Istiod::install(&lab, "canary", &[]).await;
    canary.tag("prod").await;
    tokio::join!(default.start(&[]), canary.start(&[]));
    // The annotation is one that no program reads.
    let asks = (("istio-injection", "enabled"), ("example.com/none", ""));
    let trial = Trial::new(
        &lab,
        "- preset: istio\n",
        istiod_of,
        (asks, &[WINDOWS, EXCLUDED, HOME]),
    )
    .await;
    // Two that are there, one of them also by its tag, and one that is not.
    let revisions = ("istio.io/rev", &["default", "canary", "prod", "gone"][..]);
    trial.run("istio", &[revisions]).await;

    default.act_by_default().await;
    let bare = pod(&[], &[]);
    lab.injects("by-default", &bare, "istio-proxy").await;
    let list = "- {preset: istio, options: {byDefault: true}}\n";
    let trial = Trial {
        part: 3,
        ..Trial::new(&lab, list, istiod_of, (asks, &[WINDOWS, EXCLUDED, HOME])).await
    };
    trial.run("istio by default", &[revisions]).await;
}

#[tokio::test]
async fn dapr_is_required_exactly_where_its_injector_injects() {
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver", "kube-controller-manager"],
        ..Options::default()
    })
    .await;
    let mut dapr = Dapr::install(&lab).await;
    dapr.start().await;
    let shared_out = ("fidelity.example.com/injector", 16);
    dapr.share_out(shared_out.0, shared_out.1).await;
    let asks = (("example.com/none", ""), ("dapr.io/enabled", "true"));
    let trial = Trial {
        shared_out: Some(shared_out),
        ..Trial::new(
            &lab,
            "- preset: dapr\n",
            dapr_of,
            (asks, &[WINDOWS, EXCLUDED, HOST_NETWORK]),
        )
        .await
    };
    let further = (
        "dapr.io/enabled",
        &["t ", "f", "ja", "true\t", " ON", "t rue"][..],
    );
    trial.run("dapr", &[further]).await;
}
