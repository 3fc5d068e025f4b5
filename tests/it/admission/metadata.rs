//! The hooks that look at metadata only: the labels of namespaces, and the proof of being reached.

use meshgate::metrics::Hook;
use serde_json::{Value, json};

use super::{JSON, serving, verdict};
use crate::hooks;
use crate::hooks::answer::Verdict;
use crate::support::client::Client;

const LABEL: &str = "meshgate.io/requires.linkerd";
const INJECT: &str = "linkerd.io/inject";

/// A review of a namespace.
fn review(operation: &str, part: &str, metadata: &Value) -> Value {
    let mut review = hooks::review("u", "orders", json!({"metadata": metadata}));
    let request = &mut review["request"];
    request["resource"] = json!({"group": "", "version": "v1", "resource": "namespaces"});
    request["operation"] = json!(operation);
    if !part.is_empty() {
        request["subResource"] = json!(part);
    }
    review
}

async fn ask(client: &mut Client, review: &Value) -> Verdict {
    let verdict = verdict(client, Hook::Namespaces, "u", review.to_string()).await;
    assert!(verdict.allowed, "{verdict:?}");
    verdict
}

/// The labels after the patch, as the API server applies it.
fn labels_after(review: &Value, verdict: &Verdict) -> Value {
    let mut object = review["request"]["object"].clone();
    if let Some(patch) = &verdict.patch {
        let patch: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
    }
    object["metadata"]["labels"].take()
}

/// Metadata as it comes, and the labels that it is to end with.
fn metadata_and_labels() -> [(Value, Value); 8] {
    let name = "orders";
    let yes = json!({INJECT: "enabled"});
    [
        (
            json!({"name": name, "annotations": yes}),
            json!({LABEL: ""}),
        ),
        (
            json!({"generateName": "o-", "annotations": yes}),
            json!({LABEL: ""}),
        ),
        (
            json!({"name": name, "annotations": yes, "labels": {"a": "b"}}),
            json!({"a": "b", LABEL: ""}),
        ),
        (
            json!({"name": name, "annotations": yes, "labels": null}),
            json!({LABEL: ""}),
        ),
        (
            json!({"name": name, "annotations": {INJECT: "ingress"}, "labels": {}}),
            json!({LABEL: ""}),
        ),
        (
            json!({"name": name, "annotations": {INJECT: "disabled"}, "labels": {LABEL: ""}}),
            json!({}),
        ),
        (
            json!({"name": name, "labels": {LABEL: "", "a": "b"}}),
            json!({"a": "b"}),
        ),
        (
            json!({"name": name, "labels": {"meshgate.io/requires.gone": ""}}),
            json!({}),
        ),
    ]
}

#[tokio::test]
async fn labels_of_namespaces_follow_their_annotations() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    for (metadata, expected) in metadata_and_labels() {
        for (operation, part) in [
            ("CREATE", ""),
            ("UPDATE", ""),
            ("UPDATE", "status"),
            ("UPDATE", "finalize"),
        ] {
            let review = review(operation, part, &metadata);
            let first = ask(&mut client, &review).await;
            let after = labels_after(&review, &first);
            assert_eq!(
                (&after, &*first.reason),
                (&expected, "labels_corrected"),
                "{metadata}"
            );
            // What it has patched it leaves alone.
            let mut again = review.clone();
            again["request"]["object"]["metadata"]["labels"] = after;
            let second = ask(&mut client, &again).await;
            assert_eq!((second.patch, &*second.reason), (None, "labels_agree"));
        }
    }
    assert!(
        hooks
            .metrics
            .encode()
            .contains("hook=\"namespaces\",decision=\"admit\"")
    );
}

#[tokio::test]
async fn what_is_no_write_of_a_namespace_is_let_through() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let wanting = json!({"name": "orders", "annotations": {INJECT: "enabled"}});
    let with = |key: &str, value: Value| {
        let mut review = review("UPDATE", "", &wanting);
        review["request"][key] = value;
        review
    };
    let pods = json!({"group": "", "version": "v1", "resource": "pods"});
    let others = json!({"group": "x.io", "version": "v1", "resource": "namespaces"});
    let table = [
        (with("operation", json!("DELETE")), "not_a_namespace_write"),
        (with("operation", json!("CONNECT")), "not_a_namespace_write"),
        (with("subResource", json!("scale")), "not_a_namespace_write"),
        (with("resource", pods), "not_a_namespace_write"),
        (with("resource", others), "not_a_namespace_write"),
        (
            review(
                "UPDATE",
                "finalize",
                &json!({
                    "name": "orders",
                    "annotations": {INJECT: "enabled"},
                    "deletionTimestamp": "2026-01-01T00:00:00Z",
                }),
            ),
            "namespace_deleted",
        ),
        (
            review(
                "UPDATE",
                "",
                &json!({"name": "kube-system", "annotations": {INJECT: "enabled"}}),
            ),
            "labels_agree",
        ),
    ];
    for (review, reason) in table {
        let verdict = ask(&mut client, &review).await;
        assert_eq!(
            (verdict.patch, &*verdict.reason),
            (None, reason),
            "{review}"
        );
    }
    for odd in [
        json!(null),
        json!([]),
        json!({"metadata": null}),
        json!({"metadata": {"labels": 7}}),
    ] {
        let review = with("object", odd).to_string();
        let verdict = verdict(&mut client, Hook::Namespaces, "u", review).await;
        assert_eq!((verdict.allowed, verdict.code), (false, 400));
        assert!(
            verdict.message.contains("as a namespace"),
            "{}",
            verdict.message
        );
    }
}

/// Needs nothing of the cluster: the answer is the same before anything was listed.
#[tokio::test]
async fn neither_waits_for_the_view() {
    let hooks = hooks::Hooks::start_unsynced(hooks::unreachable()).await;
    let mut client = hooks.client().await;
    let wanting = json!({"name": "orders", "annotations": {INJECT: "enabled"}});
    let verdict = ask(&mut client, &review("CREATE", "", &wanting)).await;
    assert!(verdict.patch.is_some());
}

#[tokio::test]
async fn the_proof_of_the_path_is_written_into_what_asks_for_it_and_nothing_else() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let reach = |metadata: Value, resource: &str| {
        let mut review = hooks::review("u", "meshgate-system", json!({"metadata": metadata}));
        review["request"]["resource"] = json!({"group": "", "version": "v1", "resource": resource});
        review
    };
    let asking = || json!({"generateName": "x-", "labels": {"meshgate.io/reach": ""}});
    let table = [
        (
            "/mutate/reach/0a1b",
            reach(asking(), "configmaps"),
            Some("0a1b"),
        ),
        ("/mutate/reach/7", reach(asking(), "configmaps"), Some("7")),
        ("/mutate/reach/0A", reach(asking(), "configmaps"), None),
        (
            "/mutate/reach/0a1b",
            reach(json!({"name": "x"}), "configmaps"),
            None,
        ),
        ("/mutate/reach/0a1b", reach(asking(), "secrets"), None),
    ];
    for (path, review, expected) in table {
        let answer = client.post(path, JSON, review.to_string()).await;
        let mut wrong = Vec::new();
        let verdict = Verdict::of(Hook::Reach, "u", &answer, &mut wrong).unwrap();
        assert_eq!(wrong, [""; 0]);
        assert!(verdict.allowed);
        let mut object = review["request"]["object"].clone();
        if let Some(patch) = verdict.patch {
            let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
            json_patch::patch(&mut object, &patch).unwrap();
        }
        let found = object["metadata"]["annotations"]["meshgate.io/reached"].as_str();
        assert_eq!(found, expected, "{path} {review}");
    }
}
