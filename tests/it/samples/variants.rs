//! What is made from the samples: cut, empty, large, sent twice, slices in any order.

use std::sync::Arc;

use futures::FutureExt;
use hyper::StatusCode;
use meshgate::admission::MAX_BODY;
use meshgate::cluster::namespace_lookup::Fetch;
use meshgate::cluster::object::{Kind, Object, ObjectId};
use meshgate::cluster::slim;
use meshgate::metrics::Hook;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::table::{Expected, ROWS};
use super::{ask, injectors, json_of, namespaces, newsletter_namespace, sample};
use crate::hooks::answer::{MARK, Verdict, mark_of};
use crate::hooks::{self, HOOKS, Hooks, objects, path};
use crate::support::client;
use crate::support::in_time;

/// The samples that are slices.
pub(super) const SLICES: [&str; 4] = [
    "21-slice-no-conditions.yaml",
    "22-two-slices-one-ready.json",
    "23-slice-ipv6-only.yaml",
    "24-slices-none-ready.json",
];

const WITH_ANNOTATIONS: &str = "01-deployment-pod-with-annotations.json";
const WITHOUT_ANNOTATIONS: &str = "02-pod-without-annotations.json";
const REFUSED: Expected = Expected::Refused(503, &["orders"]);
const MARKED: Expected = Expected::Marked("linkerd");

async fn serving(fetch: Fetch, objects: Vec<Object>) -> Hooks {
    let hooks = Hooks::start(fetch).await;
    hooks.hold(objects);
    hooks
}

#[tokio::test]
async fn cut_empty_and_of_another_type_is_a_bad_call_and_the_next_one_is_served() {
    let all = [namespaces(), injectors(true)].concat();
    let hooks = serving(hooks::nowhere(), all).await;
    let mut client = hooks.client().await;
    for row in ROWS.iter().filter(|row| row.file.ends_with(".json")) {
        let whole = sample(row.file);
        let half = whole.get(..whole.len() / 2).unwrap().to_vec();
        let calls = [
            ("application/json", half, StatusCode::BAD_REQUEST),
            ("application/json", Vec::new(), StatusCode::BAD_REQUEST),
            ("text/plain", whole, StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ];
        for (content_type, body, expected) in calls {
            for hook in HOOKS {
                // A connection ends with a body that was not read.
                let mut client = hooks.client().await;
                let answer = client.post(path(hook), content_type, body.clone()).await;
                assert_eq!(answer.status, expected, "{} {content_type}", row.file);
            }
        }
    }
    let next = ask(&mut client, Hook::Gate, &sample(WITH_ANNOTATIONS), &MARKED).await;
    assert_eq!(next, [""; 0]);
}

#[tokio::test]
async fn the_patch_adds_one_key_to_annotations_that_are_there_and_makes_those_that_are_not() {
    let all = [namespaces(), injectors(true)].concat();
    let hooks = serving(hooks::nowhere(), all).await;
    let mut client = hooks.client().await;
    for (file, path) in [
        (
            WITH_ANNOTATIONS,
            "/metadata/annotations/meshgate.io~1admitted",
        ),
        (WITHOUT_ANNOTATIONS, "/metadata/annotations"),
    ] {
        let body = sample(file);
        let (verdict, pod) = gate(&mut client, &body).await;
        assert_eq!(verdict.patch.as_ref().unwrap()[0]["path"], path);
        let before = pod["metadata"]["annotations"]
            .as_object()
            .map_or(0, |a| a.len());
        let patched = verdict.patched(&pod, &mut Vec::new());
        let after = patched["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(after.len(), before + 1);
        assert_eq!(after[MARK], "linkerd");
    }
}

/// The gate's answer to a body, and the pod in it.
async fn gate(client: &mut client::Client, body: &[u8]) -> (Verdict, Value) {
    let review = json_of(body);
    let uid = review["request"]["uid"].as_str().unwrap();
    let answer = hooks::send(client, Hook::Gate, body.to_vec()).await;
    let mut wrong = Vec::new();
    let verdict = Verdict::of(Hook::Gate, uid, &answer, &mut wrong).unwrap();
    assert_eq!(wrong, [""; 0]);
    (verdict, review["request"]["object"].clone())
}

#[tokio::test]
async fn sent_again_with_the_mark_the_decision_is_the_same_and_nothing_is_patched() {
    let all = [namespaces(), injectors(true)].concat();
    let hooks = serving(hooks::nowhere(), all).await;
    let mut client = hooks.client().await;
    let body = sample(WITH_ANNOTATIONS);
    let (first, pod) = gate(&mut client, &body).await;
    let marked = first.patched(&pod, &mut Vec::new());
    assert_eq!(mark_of(&marked), Some("linkerd"));
    let mut again = json_of(&body);
    again["request"]["object"] = marked;
    let (second, _) = gate(&mut client, again.to_string().as_bytes()).await;
    assert_eq!(
        (second.decision, second.reason),
        (first.decision, first.reason)
    );
    assert_eq!(second.patch, None);
}

#[tokio::test]
async fn a_pod_of_three_mebibytes_is_decided_like_any_other() {
    let hooks = Hooks::start(hooks::nowhere()).await;
    let mut review = json_of(&sample(WITH_ANNOTATIONS));
    let container = &mut review["request"]["object"]["spec"]["containers"][0];
    let value = "x".repeat(64 * 1024);
    let variable = |number| serde_json::json!({"name": format!("V{number}"), "value": value});
    container["env"] = (0..48).map(variable).collect();
    let body = review.to_string().into_bytes();
    assert!(body.len() > 3 * 1024 * 1024 && body.len() < MAX_BODY);
    let mut client = hooks.client().await;
    for (ready, expected) in [(true, MARKED), (false, REFUSED)] {
        hooks.hold([namespaces(), injectors(ready)].concat());
        let wrong = ask(&mut client, Hook::Gate, &body, &expected).await;
        assert_eq!(wrong, [""; 0], "{ready}");
    }
}

#[tokio::test]
async fn more_than_eight_mebibytes_are_refused_without_a_look_at_the_rest() {
    let all = [namespaces(), injectors(true)].concat();
    let hooks = serving(hooks::nowhere(), all).await;
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n",
        path(Hook::Gate)
    );
    // Announced: answered before a byte of the body is there.
    let announced = format!("{head}content-length: {}\r\n\r\n", MAX_BODY + 1);
    assert!(
        raw(&hooks, announced.as_bytes(), 0)
            .await
            .starts_with("HTTP/1.1 413")
    );
    // Not announced: answered after eight of nine.
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    assert!(
        raw(&hooks, chunked.as_bytes(), 9)
            .await
            .starts_with("HTTP/1.1 413")
    );
    let mut client = hooks.client().await;
    let large = hooks::send(&mut client, Hook::Gate, vec![b' '; MAX_BODY + 1]).await;
    assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE);
    let mut client = hooks.client().await;
    let next = ask(&mut client, Hook::Gate, &sample(WITH_ANNOTATIONS), &MARKED).await;
    assert_eq!(next, [""; 0]);
    let just_fits = hooks::send(&mut client, Hook::Gate, vec![b' '; MAX_BODY]).await;
    assert_eq!(just_fits.status, StatusCode::BAD_REQUEST);
}

/// Sends a head and so many chunks of a mebibyte, and reads the first line of the answer.
async fn raw(hooks: &Hooks, head: &[u8], mebibytes: usize) -> String {
    let server = &hooks.server;
    let stream = client::tls(server.addr, &server.ca_pem, rustls::DEFAULT_VERSIONS);
    let (mut read, mut write) = tokio::io::split(stream.await.unwrap());
    let send = async {
        write.write_all(head).await?;
        for _ in 0..mebibytes {
            write.write_all(b"100000\r\n").await?;
            write.write_all(&vec![b' '; 0x10_0000]).await?;
            write.write_all(b"\r\n").await?;
        }
        write.flush().await
    };
    let receive = async {
        let mut start = [0; 64];
        read.read_exact(&mut start).await.unwrap();
        String::from_utf8_lossy(&start).into_owned()
    };
    let exchange = async {
        tokio::pin!(receive);
        tokio::select! {
            biased;
            answer = &mut receive => answer,
            // The server may hang up once it has answered.
            _ = send => receive.await,
        }
    };
    in_time("an early answer", exchange).await
}

#[tokio::test]
async fn a_namespace_that_was_not_seen_yet_is_looked_up_once() {
    let orders = objects::namespace(
        "orders",
        &serde_json::json!({}),
        &serde_json::json!({"linkerd.io/inject": "enabled"}),
    );
    let Object::Namespace(orders) = orders else {
        panic!("not a namespace");
    };
    let found = serving(holding(orders.clone()), injectors(true)).await;
    let mut client = found.client().await;
    let body = sample(WITHOUT_ANNOTATIONS);
    assert_eq!(ask(&mut client, Hook::Gate, &body, &MARKED).await, [""; 0]);
    assert_eq!(found.live.count(), 1);

    let failing = serving(hooks::unreachable(), injectors(true)).await;
    let mut client = failing.client().await;
    for hook in HOOKS {
        assert_eq!(ask(&mut client, hook, &body, &REFUSED).await, [""; 0]);
    }
    assert_eq!(failing.live.count(), 2, "failures are not remembered");
}

/// A source with one namespace.
fn holding(namespace: slim::Namespace) -> Fetch {
    Arc::new(move |name| {
        let found = (name == namespace.metadata.name).then(|| namespace.clone());
        async { Ok(found) }.boxed()
    })
}

/// Slices and webhook configuration; `slices` in this order.
async fn with_slices(slices: Vec<Object>, delete: Option<&str>, expected: &Expected) {
    let hooks = Hooks::start(hooks::nowhere()).await;
    let is_slice = |object: &Object| matches!(object, Object::EndpointSlice(_));
    let others = injectors(true).into_iter().filter(|o| !is_slice(o));
    let others = others.chain(namespaces()).chain([newsletter_namespace()]);
    hooks.cluster.update(|store| {
        for object in slices.into_iter().chain(others) {
            store.apply(object);
        }
    });
    if let Some(name) = delete {
        let id = ObjectId {
            kind: Kind::EndpointSlice,
            namespace: "linkerd".to_owned(),
            name: name.to_owned(),
        };
        hooks.cluster.update(|store| store.delete(id));
    }
    hooks.cluster.settle();
    let mut client = hooks.client().await;
    let wrong = ask(
        &mut client,
        Hook::Gate,
        &sample(WITHOUT_ANNOTATIONS),
        expected,
    )
    .await;
    assert_eq!(wrong, [""; 0]);
}

#[tokio::test]
async fn slices_count_by_their_label_in_any_order() {
    let slices = |number: usize| {
        let name = SLICES[number - 21];
        objects::read(name, &sample(name))
    };
    let refused = |texts| Expected::Refused(503, texts);
    with_slices(slices(21), None, &MARKED).await;
    with_slices(slices(23), None, &MARKED).await;
    let ready = "linkerd-proxy-injector-5wq2m";
    for order in orders(&slices(22)) {
        with_slices(order.clone(), None, &MARKED).await;
        with_slices(order, Some(ready), &refused(&["0 of 1 endpoints"])).await;
    }
    for order in orders(&slices(24)) {
        with_slices(order, None, &refused(&["0 of 2 endpoints"])).await;
    }
}

/// All orders of these objects.
fn orders(objects: &[Object]) -> Vec<Vec<Object>> {
    if objects.is_empty() {
        return vec![Vec::new()];
    }
    let first_and_rest = (0..objects.len()).flat_map(|first| {
        let mut rest = objects.to_vec();
        let first = rest.remove(first);
        let orders = orders(&rest).into_iter();
        orders.map(move |order| [vec![first.clone()], order].concat())
    });
    first_and_rest.collect()
}
