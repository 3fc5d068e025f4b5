//! Odd and hostile requests over TLS: an answer or a bad call, never a panic, and the next
//! request is served.

mod flood;
mod hostile;
mod lookup;
mod memory;
mod metadata;
mod stale;

use hyper::StatusCode;
use hyper::body::Bytes;
use meshgate::metrics::Hook;
use serde_json::{Value, json};

use crate::hooks::answer::Verdict;
use crate::hooks::{self, ALL_HOOKS, HOOKS, Hooks, objects, path};
use crate::support::client::{Answer, Client};

const JSON: &str = "application/json";

/// Namespace `orders` requires Linkerd, `reporting` nothing; Linkerd is up.
async fn serving() -> Hooks {
    let hooks = Hooks::start(hooks::nowhere()).await;
    let presets = hooks::presets();
    let linkerd = presets.iter().find(|i| i.profile.name == "linkerd");
    let mut all = objects::installed(&linkerd.unwrap().profile, &[], true);
    let enabled = json!({"linkerd.io/inject": "enabled"});
    all.push(objects::namespace("orders", &json!({}), &enabled));
    all.push(objects::namespace("reporting", &json!({}), &json!({})));
    hooks.hold(all);
    hooks
}

/// What the gate says to a review with this uid; it must be a proper answer.
async fn verdict(client: &mut Client, hook: Hook, uid: &str, body: impl Into<Bytes>) -> Verdict {
    let answer = hooks::send(client, hook, body).await;
    let mut wrong = Vec::new();
    let verdict = Verdict::of(hook, uid, &answer, &mut wrong);
    assert_eq!(wrong, [""; 0]);
    verdict.unwrap()
}

/// The server still does its work.
async fn assert_serves(client: &mut Client) {
    let review = hooks::review("next", "orders", hooks::plain_pod("shop-")).to_string();
    let verdict = verdict(client, Hook::Gate, "next", review).await;
    assert_eq!(verdict.decision, "mark");
}

/// A bad call: a short text and no review.
fn assert_bad_call(answer: &Answer, status: StatusCode, text: &str) {
    let found = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, status, "{found}");
    assert!(found.contains(text), "{text} in {found}");
    assert!(
        answer.header("content-type").starts_with("text/plain"),
        "{found}"
    );
    assert!(found.len() < 500 && found.ends_with('\n'), "{found}");
    assert!(!found.trim_end().contains(char::is_control), "{found}");
}

#[tokio::test]
async fn reviews_that_cannot_be_answered_are_bad_calls() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let review = hooks::review("u", "orders", hooks::plain_pod("shop-"));
    let without = |pointer: &str, key: &str| {
        let mut review = review.clone();
        let parent = review.pointer_mut(pointer).unwrap();
        parent.as_object_mut().unwrap().remove(key);
        review
    };
    let with = |key: &str, value: Value| {
        let mut review = review.clone();
        review[key] = value;
        review
    };
    let mut without_uid = review.clone();
    without_uid["request"]["uid"] = json!("");
    let calls = [
        (without("", "request"), "request"),
        (with("request", Value::Null), "request"),
        (with("request", json!([])), "AdmissionReview"),
        (with("request", json!("u")), "AdmissionReview"),
        (without("/request", "uid"), "uid"),
        (without_uid, "uid"),
        (
            with("apiVersion", json!("admission.k8s.io/v1beta1")),
            "admission.k8s.io/v1 ",
        ),
        (
            with("apiVersion", json!("admission.k8s.io/v2")),
            "admission.k8s.io/v1 ",
        ),
        (without("", "apiVersion"), "admission.k8s.io/v1"),
        (without("", "kind"), "AdmissionReview"),
        (with("kind", json!("Pod")), "AdmissionReview"),
        (json!({}), "AdmissionReview"),
        (json!(null), "AdmissionReview"),
        (json!([1, 2]), "AdmissionReview"),
        (
            json!(["admission.k8s.io/v1", "AdmissionReview", review["request"]]),
            "AdmissionReview",
        ),
        (json!("a text"), "AdmissionReview"),
        (json!(7), "AdmissionReview"),
    ];
    for (body, text) in calls {
        for hook in ALL_HOOKS {
            let answer = hooks::send(&mut client, hook, body.to_string()).await;
            assert_bad_call(&answer, StatusCode::BAD_REQUEST, text);
        }
    }
    assert_serves(&mut client).await;
    let counted =
        "meshgate_decisions_total{hook=\"gate\",decision=\"bad_call\",reason=\"bad_request\"";
    assert!(hooks.metrics.encode().contains(counted));
}

#[tokio::test]
async fn a_bad_call_repeats_no_more_than_a_little_of_what_it_was_sent() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let long = "\u{1b}[31m\n".repeat(10_000);
    let wrong_types = [
        ("request", json!(long)),
        ("request", json!({"dryRun": long})),
    ];
    for (key, value) in wrong_types
        .into_iter()
        .chain([("apiVersion", json!(long)), ("kind", json!(long))])
    {
        let mut review = hooks::review("u", "orders", json!({}));
        review[key] = value;
        let answer = hooks::send(&mut client, Hook::Gate, review.to_string()).await;
        assert_bad_call(&answer, StatusCode::BAD_REQUEST, "admission.k8s.io/v1");
    }
    let answer = client
        .post(&format!("/{}", "x".repeat(2_000)), JSON, "{}")
        .await;
    assert_bad_call(&answer, StatusCode::NOT_FOUND, "/mutate/pods");
}

#[tokio::test]
async fn method_path_and_content_type_are_told_apart() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    for hook in ALL_HOOKS {
        let counted = || {
            let metrics = hooks.metrics.encode();
            let of_hook = format!("hook=\"{}\",decision=\"bad_call\"", hook.as_str());
            let line = metrics.lines().find(|line| line.contains(&of_hook));
            line.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
        };
        let before: u64 = counted();
        let answer = client.get(path(hook)).await;
        assert_bad_call(&answer, StatusCode::METHOD_NOT_ALLOWED, "POST");
        assert_eq!(answer.header("allow"), "POST");
        assert_eq!(counted(), before + 1);
    }
    for wrong in [
        "/",
        "/mutate",
        "/mutate/pods/",
        "/validate/pods/x/y",
        "/metrics",
        "/readyz",
    ] {
        let answer = client.get(wrong).await;
        assert_bad_call(&answer, StatusCode::NOT_FOUND, "/validate/pods");
    }
    let review = hooks::review("u", "orders", hooks::plain_pod("shop-")).to_string();
    for fine in [
        JSON,
        "application/json; charset=utf-8",
        "Application/JSON ;x=y",
    ] {
        let answer = client.post(path(Hook::Gate), fine, review.clone()).await;
        assert_eq!(answer.status, StatusCode::OK, "{fine}");
    }
    for other in [
        "text/plain",
        "application/jsonp",
        "application/yaml",
        "",
        ";",
        "json",
    ] {
        // A connection ends with a body that was not read.
        let mut client = hooks.client().await;
        let answer = client.post(path(Hook::Gate), other, review.clone()).await;
        assert_bad_call(&answer, StatusCode::UNSUPPORTED_MEDIA_TYPE, JSON);
    }
}

#[tokio::test]
async fn optional_parts_of_a_request_may_be_missing_or_null() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let optional = [
        "kind",
        "requestKind",
        "requestResource",
        "userInfo",
        "options",
        "dryRun",
        "oldObject",
        "subResource",
        "name",
    ];
    for null in [false, true] {
        let mut review = hooks::review("u", "orders", hooks::plain_pod("shop-"));
        for key in optional {
            let request = review["request"].as_object_mut().unwrap();
            match null {
                true => drop(request.insert(key.to_owned(), Value::Null)),
                false => drop(request.remove(key)),
            }
        }
        let verdict = verdict(&mut client, Hook::Gate, "u", review.to_string()).await;
        assert_eq!(verdict.decision, "mark");
    }
}

#[tokio::test]
async fn only_a_creation_of_a_pod_is_judged_and_nothing_else_is_decoded() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let overlays = [
        json!({"operation": "DELETE", "object": null}),
        json!({"operation": "UPDATE"}),
        json!({"operation": "CONNECT"}),
        json!({"operation": null}),
        json!({"subResource": "binding"}),
        json!({"resource": null}),
        json!({"resource": {"group": "apps", "version": "v1", "resource": "deployments"}}),
    ];
    for overlay in overlays {
        for hook in HOOKS {
            let mut review = hooks::review("u", "orders", json!([{"no": "pod"}]));
            for (key, value) in overlay.as_object().unwrap() {
                review["request"][key] = value.clone();
            }
            let verdict = verdict(&mut client, hook, "u", review.to_string()).await;
            assert_eq!(verdict.reason, "not_a_pod_create", "{overlay}");
            assert!(verdict.allowed && verdict.patch.is_none());
        }
    }
}

#[tokio::test]
async fn a_dry_run_is_counted_as_one() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let mut review = hooks::review("u", "orders", hooks::plain_pod("shop-"));
    review["request"]["dryRun"] = json!(true);
    let verdict = verdict(&mut client, Hook::Gate, "u", review.to_string()).await;
    assert_eq!(verdict.decision, "mark");
    let series = "meshgate_decisions_total{hook=\"gate\",decision=\"mark\",reason=\"injector_ready\",\
                  injector=\"linkerd\",dry_run=\"true\"} 1";
    let metrics = hooks.metrics.encode();
    assert!(metrics.contains(series), "{metrics}");
    assert!(!metrics.contains("dry_run=\"false\""), "{metrics}");
}

#[tokio::test]
async fn before_the_cluster_was_read_only_what_needs_no_look_is_admitted() {
    let hooks = Hooks::start_unsynced(hooks::nowhere()).await;
    let mut client = hooks.client().await;
    let on_host = json!({"metadata": {}, "spec": {"hostNetwork": true}});
    let windows = json!({"metadata": {}, "spec": {"os": {"name": "windows"}}});
    let plain = hooks::plain_pod("shop-");
    let calls = [
        ("orders", plain.clone(), "not_synced"),
        ("orders", on_host, "host_network"),
        ("orders", windows, "os_windows"),
        ("kube-system", plain.clone(), "excluded_namespace"),
        ("meshgate-system", plain.clone(), "excluded_namespace"),
    ];
    for (namespace, pod, reason) in calls {
        for hook in HOOKS {
            let review = hooks::review("u", namespace, pod.clone()).to_string();
            let verdict = verdict(&mut client, hook, "u", review).await;
            assert_eq!(verdict.reason, reason);
            assert_eq!(verdict.allowed, reason != "not_synced");
            assert!(verdict.allowed || verdict.code == 503);
        }
    }
    assert_eq!(hooks.live.count(), 0);
    hooks.cluster.mark_synced();
    let review = hooks::review("u", "orders", plain).to_string();
    let verdict = verdict(&mut client, Hook::Gate, "u", review).await;
    assert_eq!(verdict.reason, "namespace_unknown");
}
