//! Memory that a body takes: at its most no more than four times the body, whatever it holds.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use futures::FutureExt;
use futures::stream;
use hyper::StatusCode;
use meshgate::admission::{self, Admission};
use meshgate::cluster::Cluster;
use meshgate::cluster::namespace_lookup::{Fetch, NamespaceLookup};
use meshgate::cluster::store::Store;
use meshgate::metrics::{Hook, Metrics};
use parking_lot::Mutex;
use proptest::prelude::{Strategy, any, prop, prop_oneof};
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use tokio::runtime::Runtime;
use tower::ServiceExt;

use crate::hooks::{self, LOOKUP_DEADLINE, objects, path};
use crate::support::figures;

/// The most heap while a body is answered, over its size.
const RATIO: usize = 4;
/// What any body may take besides: the values of the presets' keys, an answer with its sentence, a
/// log line, and two lists of containers as long as they may be.
const SMALL: usize = 64 * 1024;
/// Just above a power of two, where doubling hurts most.
const LARGE: usize = 1024 * 1024 + 1000;
/// What hyper hands over at once.
const PIECE: usize = 16 * 1024;

/// The router without a network, in a runtime of one thread: the allocator counts by thread.
struct Bare {
    router: Router,
    runtime: Runtime,
    /// Bodies that took too much.
    over: Mutex<Vec<String>>,
}

impl Bare {
    /// Namespace `orders` requires Linkerd, which is installed and not usable. The view does not
    /// know `unknown`, for which the API server is asked.
    fn new() -> Self {
        let presets = hooks::presets();
        let linkerd = presets.iter().find(|i| i.profile.name == "linkerd");
        let mut all = objects::installed(&linkerd.unwrap().profile, &[], false);
        let enabled = json!({"linkerd.io/inject": "enabled"});
        all.push(objects::namespace("orders", &json!({}), &enabled));
        let cluster = Arc::new(Cluster::new(Store::with(presets, all)));
        cluster.mark_synced();
        let nowhere: Fetch = Arc::new(|_| async { Ok(None) }.boxed());
        let live = NamespaceLookup::new(nowhere, LOOKUP_DEADLINE);
        let admission = Admission::new(cluster, live, Arc::new(Metrics::default()));
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        Self {
            router: admission::router(Arc::new(admission)),
            runtime: runtime.enable_all().build().unwrap(),
            over: Mutex::default(),
        }
    }

    /// The status, and the most heap from the first piece of the body to the end of the answer.
    fn peak(&self, hook: Hook, body: &[u8], is_announced: bool) -> (StatusCode, usize) {
        let mut status = StatusCode::OK;
        let counted = allocation_counter::measure(|| {
            status = self.runtime.block_on(self.answer(hook, body, is_announced));
        });
        (status, usize::try_from(counted.bytes_max).unwrap())
    }

    async fn answer(&self, hook: Hook, body: &[u8], is_announced: bool) -> StatusCode {
        // A body must own what it hands over, before anything is counted.
        let mut left = None;
        allocation_counter::opt_out(|| left = Some(body.to_vec()));
        let left = Bytes::from(left.unwrap());
        let pieces = stream::unfold(left, async |mut left: Bytes| {
            if left.is_empty() {
                return None;
            }
            let piece = left.split_to(PIECE.min(left.len()));
            // Allocated when it comes, as from a socket.
            Some((Ok::<_, hyper::Error>(Bytes::copy_from_slice(&piece)), left))
        });
        let mut request = Request::post(path(hook)).header("content-type", "application/json");
        if is_announced {
            request = request.header("content-length", body.len());
        }
        let request = request.body(Body::from_stream(pieces)).unwrap();
        self.router.clone().oneshot(request).await.unwrap().status()
    }

    /// Fails for a body that takes more than it may; says how much one took, over its size.
    fn holds(&self, what: &str, resource: &str, body: &[u8]) -> f64 {
        let hooks: &[(Hook, bool)] = match resource {
            "namespaces" => &[(Hook::Namespaces, true)],
            "configmaps" => &[(Hook::Reach, false)],
            _ => &[(Hook::Gate, true), (Hook::Check, false)],
        };
        let mut most = 0;
        for (hook, is_announced) in hooks {
            let (status, peak) = self.peak(*hook, body, *is_announced);
            assert!(status.as_u16() < 500, "{what}: {status}");
            most = most.max(peak);
        }
        let ratio = most as f64 / body.len() as f64;
        if most > RATIO * body.len() + SMALL {
            let size = body.len();
            self.over
                .lock()
                .push(format!("{ratio:.1} × {size} bytes: {what}"));
        }
        ratio
    }

    fn nothing_over(&self) {
        let over = self.over.lock();
        assert!(over.is_empty(), "{} over:\n{}", over.len(), over.join("\n"));
    }
}

/// As many as make a text of about `size`.
fn many(element: &str, size: usize) -> String {
    let count = (size / (element.len() + 1)).max(1);
    vec![element; count].join(",")
}

/// Entries of which no two are the same.
fn numbered(start: &str, end: &str, size: usize) -> String {
    let count = size / (start.len() + end.len() + 7);
    let entries: Vec<_> = (0..count).map(|n| format!("{start}{n:06}{end}")).collect();
    entries.join(",")
}

/// Where hostile JSON can stand in a review; `HOSTILE` is its place.
const PLACES: [(&str, &str); 24] = [
    ("whole", "HOSTILE"),
    ("review", r#""x":HOSTILE"#),
    ("version", r#""apiVersion":HOSTILE"#),
    ("kind", r#""kind":HOSTILE"#),
    ("request", r#""request":HOSTILE"#),
    ("uid", r#""request":{"uid":HOSTILE}"#),
    (
        "namespace",
        r#"REQUEST"namespace":HOSTILE,"object":{"metadata":{}}}"#,
    ),
    ("userInfo", r#"REQUEST"userInfo":HOSTILE,"object":MIRROR}"#),
    (
        "groups",
        r#"REQUEST"userInfo":{"groups":HOSTILE},"object":MIRROR}"#,
    ),
    (
        "dryRun",
        r#"REQUEST"dryRun":HOSTILE,"object":{"metadata":{}}}"#,
    ),
    ("object", r#"REQUEST"object":HOSTILE}"#),
    ("metadata", r#"REQUEST"object":{"metadata":HOSTILE}}"#),
    ("name", r#"REQUEST"object":{"metadata":{"name":HOSTILE}}}"#),
    (
        "labels",
        r#"REQUEST"object":{"metadata":{"labels":HOSTILE}}}"#,
    ),
    (
        "annotations",
        r#"REQUEST"object":{"metadata":{"annotations":HOSTILE}}}"#,
    ),
    (
        "owners",
        r#"REQUEST"object":{"metadata":{"ownerReferences":HOSTILE}}}"#,
    ),
    ("spec", r#"REQUEST"object":{"metadata":{},"spec":HOSTILE}}"#),
    (
        "hostNetwork",
        r#"REQUEST"object":{"metadata":{},"spec":{"hostNetwork":HOSTILE}}}"#,
    ),
    (
        "nodeSelector",
        r#"REQUEST"object":{"metadata":{},"spec":{"nodeSelector":HOSTILE}}}"#,
    ),
    (
        "containers",
        r#"REQUEST"object":{"metadata":{},"spec":{"containers":HOSTILE}}}"#,
    ),
    (
        "both lists of containers",
        r#"REQUEST"object":{"metadata":{},"spec":{"containers":HOSTILE,"initContainers":HOSTILE}}}"#,
    ),
    (
        "affinity",
        r#"REQUEST"object":{"metadata":{},"spec":{"affinity":HOSTILE}}}"#,
    ),
    (
        "required affinity",
        r#"REQUEST"object":{"metadata":{},"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":HOSTILE}}}}}}"#,
    ),
    (
        "expressions",
        r#"REQUEST"object":{"metadata":{},"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":HOSTILE}]}}}}}}"#,
    ),
];

/// A body with JSON at a place. `resource` is that of the request.
fn body(frame: &str, hostile: &str, namespace: &str, resource: &str) -> String {
    let request = format!(
        r#""apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","resource":{{"group":"","version":"v1","resource":"{resource}"}},"operation":"CREATE","namespace":"{namespace}","#
    );
    let mirror = r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}}}"#;
    let text = frame.replace("REQUEST", &request).replace("MIRROR", mirror);
    let text = text.replace("HOSTILE", hostile);
    if frame == "HOSTILE" {
        text
    } else {
        format!("{{{text}}}")
    }
}

/// Small elements, long texts, deep nesting: JSON of about `size` bytes.
fn shapes(size: usize) -> Vec<(&'static str, String)> {
    let list = |element: &str| format!("[{}]", many(element, size));
    let map = |entry: &str| format!("{{{}}}", many(entry, size));
    let text = |part: &str| format!("\"{}\"", part.repeat(size / part.len()));
    vec![
        ("empty objects", list("{}")),
        ("empty lists", list("[]")),
        ("nulls", list("null")),
        ("digits", list("0")),
        ("empty texts", list("\"\"")),
        ("short texts", list("\"a\"")),
        ("objects of one number", list(r#"{"a":0}"#)),
        ("topology keys", list(r#"{"topologyKey":""}"#)),
        ("named", list(r#"{"name":"a"}"#)),
        ("named with escapes", list(r#"{"name":"\n","image":"\n"}"#)),
        ("controllers", list(r#"{"kind":"a","controller":true}"#)),
        (
            "expressions",
            list(r#"{"key":"kubernetes.io/os","operator":"In","values":["linux"]}"#),
        ),
        ("one key again and again", map(r#""":"""#)),
        ("a key that rules read", map(r#""linkerd.io/inject":"""#)),
        (
            "values of a key that rules read",
            map(r#""linkerd.io/inject":"\n""#),
        ),
        ("numbers as values", map(r#""a":0"#)),
        (
            "many keys",
            format!("{{{}}}", numbered("\"", r#"":"""#, size)),
        ),
        (
            "keys with escapes",
            format!("{{{}}}", numbered(r#""\n"#, r#"":"""#, size)),
        ),
        (
            "labels of the mirror",
            format!(
                "{{{}}}",
                numbered(r#""meshgate.io/requires."#, r#"":"""#, size)
            ),
        ),
        ("one long text", text("a")),
        ("a text of escapes", text("\\n")),
        ("a text of long escapes", text("\\u0001")),
        ("a text of surrogates", text("\\ud83d\\udea2")),
        ("a text that is longer when quoted", text("\u{7f}")),
        (
            "a text with an escape at its end",
            format!("\"{}\\n\"", "a".repeat(size)),
        ),
        (
            "a text with an escape in its middle",
            format!("\"{0}\\n{0}\"", "a".repeat(size / 2)),
        ),
        ("a long key", format!("{{\"{}\":\"\"}}", "a".repeat(size))),
        (
            "a long key that is no text",
            format!("{{\"{}\\n\":1}}", "\u{7f}".repeat(size)),
        ),
        (
            "a long value",
            format!("{{\"linkerd.io/inject\":\"{}\\n\"}}", "a".repeat(size)),
        ),
        ("a long number", "1".repeat(size)),
        (
            "deep lists",
            format!("{}{}", "[".repeat(size / 2), "]".repeat(size / 2)),
        ),
        (
            "deep objects",
            format!("{}1{}", "{\"a\":".repeat(size / 6), "}".repeat(size / 6)),
        ),
        ("unclosed lists", "[".repeat(size)),
        ("unclosed text", format!("\"{}", "a\\n".repeat(size / 3))),
    ]
}

#[test]
fn no_body_takes_more_than_four_times_its_size() {
    let bare = Bare::new();
    let mut worst = (0.0, String::new());
    for (kind, hostile) in shapes(150_000) {
        for (place, frame) in PLACES {
            for resource in ["pods", "namespaces", "configmaps"] {
                let text = body(frame, &hostile, "orders", resource);
                let what = format!("{kind} as {place} of {resource}");
                let ratio = bare.holds(&what, resource, text.as_bytes());
                if ratio > worst.0 {
                    worst = (ratio, what);
                }
            }
        }
    }
    bare.nothing_over();
    figures(&format!(
        "memory over body: {:.2} at most, {}",
        worst.0, worst.1
    ));
}

/// Also for a namespace that is looked up.
#[test]
fn no_large_body_takes_more_than_four_times_its_size() {
    let bare = Bare::new();
    let places = ["name", "annotations", "containers", "affinity"];
    for (kind, hostile) in shapes(LARGE) {
        for (place, frame) in PLACES
            .into_iter()
            .filter(|(place, _)| places.contains(place))
        {
            let text = body(frame, &hostile, "unknown", "pods");
            bare.holds(&format!("{kind} as {place}"), "pods", text.as_bytes());
        }
    }
    bare.nothing_over();
}

/// As many entries as lists may have, and a few: there the constant counts.
#[test]
fn no_small_body_takes_more_than_four_times_its_size_and_a_constant() {
    let bare = Bare::new();
    for size in [100, 700, 1_000, 2_000, 10_000] {
        for (kind, hostile) in shapes(size) {
            for (place, frame) in PLACES {
                let text = body(frame, &hostile, "orders", "pods");
                bare.holds(&format!("{kind} as {place}"), "pods", text.as_bytes());
            }
        }
    }
    bare.nothing_over();
}

/// Objects of the fields that are read, with elements of any kind, repeated.
#[test]
fn random_shapes_take_no_more() {
    let element = prop_oneof![
        select(vec![
            "{}",
            "[]",
            "null",
            "0",
            "\"\"",
            "true",
            "{\"name\":\"\\n\"}"
        ])
        .prop_map(str::to_owned),
        "\\PC{0,20}".prop_map(|text| json!(text).to_string()),
        ("[a-z]{0,3}", "[a-z\\\\]{0,9}").prop_map(|(key, value)| json!({key: value}).to_string()),
        ("[a-z]{0,3}", any::<u8>()).prop_map(|(key, n)| json!({key: [n, {"": n}]}).to_string()),
    ];
    let list = prop::collection::vec(element.clone(), 1..4).prop_map(|list| list.join(","));
    let entries = prop::collection::vec(("[a-z/.]{0,8}", element), 1..4).prop_map(|entries| {
        let entries: Vec<_> = entries
            .iter()
            .map(|(key, value)| format!("\"{key}\":{value}"))
            .collect();
        entries.join(",")
    });
    let hostile = prop_oneof![
        (list, 1..40_000_usize).prop_map(|(part, size)| format!("[{}]", many(&part, size))),
        (entries, 1..40_000_usize).prop_map(|(part, size)| format!("{{{}}}", many(&part, size))),
    ];
    let strategy = (
        select(PLACES.to_vec()),
        hostile,
        select(vec!["orders", "unknown", "kube-system"]),
    );
    let bare = Bare::new();
    let config = Config {
        cases: 300,
        failure_persistence: None,
        ..Config::default()
    };
    let run = TestRunner::new(config).run(&strategy, |((place, frame), hostile, namespace)| {
        let text = body(frame, &hostile, namespace, "pods");
        bare.holds(place, "pods", text.as_bytes());
        bare.nothing_over();
        Ok(())
    });
    run.unwrap();
}
