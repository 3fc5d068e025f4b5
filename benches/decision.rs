//! Gate A: what one decision costs, as a ratio to skipping the same JSON in the same run, and
//! how often it allocates.
//!
//! `cargo bench --bench decision`. Rounds of both are interleaved and timed by the thread's own
//! CPU clock, as wall time on a shared machine says little. criterion would time each apart.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::string_slice,
    reason = "a benchmark that cannot run must end"
)]

use std::hint::black_box;
use std::sync::Arc;

use futures::FutureExt;
use meshgate::admission::Admission;
use meshgate::cluster::Cluster;
use meshgate::cluster::manifest::{self, Item};
use meshgate::cluster::namespace_lookup::NamespaceLookup;
use meshgate::cluster::object::{Kind, Object};
use meshgate::cluster::store::Store;
use meshgate::metrics::{Hook, Metrics};
use meshgate_core::injector::Injectors;
use meshgate_core::render::{self, Client, Settings};
use rustix::time::{ClockId, clock_gettime};
use serde::de::IgnoredAny;
use serde_json::Value;

const REAL: &str = include_str!("../tests/samples/26-real-review-1.37.json");
const ROUNDS: usize = 25;

const LINKERD_UP: &str = include_str!("linkerd-up.yaml");

fn main() {
    // `cargo test --benches` only wants to see that it works; `cargo bench` says so.
    let is_test = !std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_test { 1 } else { ROUNDS };
    let one = Served::new(configuration(&["linkerd"]), 10);
    ratios(&one, rounds);
    growth(&one, rounds);
}

fn configuration(presets: &[&str]) -> Injectors {
    let list: String = presets
        .iter()
        .map(|name| format!("- preset: {name}\n"))
        .collect();
    let text = format!("apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n{list}");
    Injectors::from_yaml("bench", text.as_bytes()).unwrap()
}

fn all_seven() -> Injectors {
    configuration(&meshgate_core::injector::PRESETS.map(|(name, _)| name))
}

/// A server that knows so many namespaces, and the path by which an API server asks it about the bodies.
struct Served {
    admission: Admission,
    path: String,
}

impl Served {
    fn new(injectors: Injectors, namespaces: usize) -> Self {
        let client = Client::Url(String::new());
        let settings = Settings::new(client, "meshgate-system");
        let rendered = render::webhooks::objects(&injectors, &settings).objects;
        let entries = rendered[0]["webhooks"].as_array().unwrap().iter();
        let mut paths = entries.map(|entry| entry["clientConfig"]["url"].as_str().unwrap());
        let admission = admission(injectors, namespaces);
        let answers = |path: &&str| {
            admission
                .decide(Hook::Gate, path, REAL.as_bytes())
                .unwrap()
                .is_some()
        };
        let path = paths.find(answers).unwrap().to_owned();
        Self { admission, path }
    }

    fn decide(&self, body: &[u8]) -> Option<Vec<u8>> {
        self.admission.decide(Hook::Gate, &self.path, body).unwrap()
    }
}

/// A server that follows a cluster of so many namespaces.
fn admission(injectors: Injectors, namespaces: usize) -> Admission {
    let mut store = Store::new(Arc::new(injectors));
    for item in manifest::items("bench", LINKERD_UP.as_bytes()).unwrap() {
        match item {
            Item::Object(object) => drop(store.apply(object)),
            Item::Configuration(_) | Item::Other { .. } => panic!("unexpected item"),
        }
    }
    for number in 0..namespaces {
        let text = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: team-{number}, \
             labels: {{istio-injection: enabled, team: a}}}}"
        );
        for item in manifest::items("bench", text.as_bytes()).unwrap() {
            if let Item::Object(object @ Object::Namespace(_)) = item {
                store.apply(object);
            }
        }
    }
    store.settle();
    let cluster = Cluster::new(store);
    cluster.mark_synced();
    cluster.freshness.follow(Kind::Namespace);
    let now = std::time::Instant::now();
    cluster.freshness.caught_up(Kind::Namespace, now);
    let live = NamespaceLookup::new(
        Arc::new(|_| async { Ok(None) }.boxed()),
        std::time::Duration::from_secs(1),
    );
    Admission::new(Arc::new(cluster), live, Arc::new(Metrics::default()))
}

/// CPU time of this thread, in nanoseconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds per call.
fn time(calls: usize, mut call: impl FnMut()) -> f64 {
    let start = cpu();
    for _ in 0..calls {
        call();
    }
    (cpu() - start) / calls as f64
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    )
}

fn ratios(served: &Served, rounds: usize) {
    println!(
        "{:<22} {:>9} {:>10} {:>10} {:>20} {:>7}",
        "body", "bytes", "skip µs", "decide µs", "ratio (min-max)", "allocs"
    );
    for (name, body, expected) in bodies() {
        let answer = served.decide(&body).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(
            answer["response"]["auditAnnotations"]["reason"], expected,
            "{name}"
        );
        let calls = (4_000_000 / body.len()).clamp(20, 2_000);
        let (mut skips, mut decides, mut quotients) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let skip = time(calls, || {
                let skipped: Result<IgnoredAny, _> = serde_json::from_slice(black_box(&body));
                black_box(skipped).ok();
            });
            let decide = time(calls, || {
                black_box(served.decide(black_box(&body)));
            });
            skips.push(skip / 1e3);
            decides.push(decide / 1e3);
            quotients.push(decide / skip);
        }
        let allocations = allocation_counter::measure(|| {
            black_box(served.decide(&body));
        });
        let (low, ratio, high) = median(quotients);
        println!(
            "{name:<22} {:>9} {:>10.2} {:>10.2} {:>20} {:>7}",
            body.len(),
            median(skips).1,
            median(decides).1,
            format!("{ratio:.2} ({low:.2}-{high:.2})"),
            allocations.count_total
        );
    }
}

/// The same body with more namespaces, and with more presets.
fn growth(one: &Served, rounds: usize) {
    let many = Served::new(configuration(&["linkerd"]), 50_000);
    let seven = Served::new(all_seven(), 10);
    let body = REAL.as_bytes();
    for (name, other) in [("10 → 50,000 namespaces", &many), ("1 → 7 presets", &seven)] {
        let quotients = (0..rounds).map(|_| {
            let decide = |served: &Served| {
                time(500, || {
                    black_box(served.decide(black_box(body)));
                })
            };
            let before = decide(one);
            decide(other) / before
        });
        let (low, ratio, high) = median(quotients.collect());
        println!("{name:<24} × {ratio:.2} ({low:.2}-{high:.2})");
    }
}

/// What is measured: a real review with and without managedFields, a large one, hostile ones.
/// Edited as text: the order of fields is the API server's.
/// With the reason of each answer, so that no early end is taken for a quick decision.
fn bodies() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let notes = |count: usize, key: &str, value: &str| {
        let note = |number| format!(r#""{key}-{number}":"{value}""#);
        format!("{{{}}}", (0..count).map(note).collect::<Vec<_>>().join(","))
    };
    let html = r#"{\"a\":\"\u003cb\u003e\u0026\u003c/b\u003e\"}"#.repeat(90);
    let container = value_of(REAL, "containers");
    let container = container.trim_start_matches('[').trim_end_matches(']');
    let containers = format!("[{}]", [container; 3].join(","));
    let large = with(REAL, "annotations", &notes(21, "example.com/note", &html));
    let escapes = "\\u0001".repeat(50_000);
    let escapes = format!(r#"{{"linkerd.io/inject":"{escapes}","a":"{escapes}"}}"#);
    let nest = "[".repeat(10_000) + &"]".repeat(10_000);
    let many = notes(10_000, "linkerd.io/inject", "enabled");
    let (marked, invalid) = ("injector_ready", "invalid_value");
    let texts = [
        ("real, managedFields", REAL.to_owned(), marked),
        ("small", with(REAL, "managedFields", "[]"), marked),
        ("large", with(&large, "containers", &containers), marked),
        (
            "10,000 annotations",
            with(REAL, "annotations", &many),
            marked,
        ),
        ("all escapes", with(REAL, "annotations", &escapes), invalid),
        ("10,000 levels", with(REAL, "status", &nest), marked),
    ];
    texts
        .map(|(name, text, expected)| (name, text.into_bytes(), expected))
        .into()
}

/// The value of the first field of that name, as it stands in the text.
fn value_of<'t>(text: &'t str, field: &str) -> &'t str {
    let start = text.find(&format!("\"{field}\":")).unwrap() + field.len() + 3;
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<IgnoredAny>();
    values.next().unwrap().unwrap();
    &text[start..start + values.byte_offset()]
}

/// The text with another value in the first field of that name.
fn with(text: &str, field: &str, value: &str) -> String {
    let old = format!("\"{field}\":{}", value_of(text, field));
    text.replacen(&old, &format!("\"{field}\":{value}"), 1)
}
