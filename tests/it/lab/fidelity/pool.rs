//! Namespaces of a lab and pods that are tried in them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::BodyExt;
use hyper::Request;
use kube::client::Body;
use meshgate_core::injector::{ALWAYS_EXCLUDED, Injectors};
use serde_json::{Value, json};

use super::draw::Draw;
use super::marks::{Marks, Vocabulary};
use super::pairs::{NODE, Namespace};
use crate::lab::harness::{Lab, PATIENCE, within};

/// What came of a request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Value,
    /// Texts of the warnings that came with it.
    pub(super) warnings: Vec<String>,
}

impl Answer {
    pub(super) fn is_allowed(&self) -> bool {
        self.code < 300
    }

    pub(super) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// Sends a request, whatever comes of it. `as_node`: in the name of the Node's kubelet.
async fn send(lab: &Lab, request: hyper::http::request::Builder, body: &Value) -> Answer {
    let request = request
        .body(Body::from(body.to_string().into_bytes()))
        .unwrap();
    let response = lab.client().await.send(request).await.unwrap();
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let warnings = head.headers.get_all("warning").iter();
    Answer {
        code: head.status.as_u16(),
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
        warnings: warnings
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect(),
    }
}

/// A dry-run create. `as_node`: asked for by the Node's kubelet.
pub(super) async fn try_pod(lab: &Lab, namespace: &str, pod: &Value, as_node: bool) -> Answer {
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let mut request = Request::post(path).header("Content-Type", "application/json");
    if as_node {
        request = request
            .header("Impersonate-User", format!("system:node:{NODE}"))
            .header("Impersonate-Group", "system:nodes");
    }
    send(lab, request, pod).await
}

/// A merge patch of a namespace or of its subresource.
pub(super) async fn patch(lab: &Lab, path: &str, change: &Value) -> Value {
    let path = format!("/api/v1/namespaces/{path}");
    let request = Request::patch(&path).header("Content-Type", "application/merge-patch+json");
    let answer = send(lab, request, change).await;
    assert!(answer.is_allowed(), "{path}: {answer:?}");
    answer.body
}

/// Takes all labels and annotations off a namespace, those that are mirrored with them.
pub(super) async fn unmark(lab: &Lab, name: &str) {
    let none = json!({"metadata": {"labels": null, "annotations": null}});
    patch(lab, name, &none).await;
}

/// Deletes what is at a path.
pub(super) async fn delete(lab: &Lab, path: &str) {
    let answer = send(lab, Request::delete(path), &json!({})).await;
    assert!(answer.is_allowed(), "{path}: {answer:?}");
}

/// Namespaces with random marks: `count` ordinary ones, and all that profiles name.
pub(super) async fn namespaces(
    lab: &Lab,
    injectors: &Injectors,
    (vocabulary, draw): (&Vocabulary, &mut Draw),
    count: usize,
) -> Vec<Namespace> {
    let mut names: BTreeSet<String> = ALWAYS_EXCLUDED.map(str::to_owned).into();
    for injector in injectors.iter() {
        names.insert(injector.profile.service.namespace.clone());
        names.extend(injector.profile.namespaces.except.iter().cloned());
    }
    let excluded = injectors.excluded().iter().cloned();
    names.extend(excluded);
    names.extend((0..count).map(|number| format!("n-{number}")));
    let mut all = Vec::new();
    for name in names {
        let marks = vocabulary.namespace(draw);
        lab.ensure_namespace(&name).await;
        unmark(lab, &name).await;
        let change = json!({"metadata": marks.metadata(&name)});
        let made = patch(lab, &name, &change).await;
        let marks = Marks::of(&made);
        all.push(Namespace { name, marks });
    }
    all
}

/// The UID of a Node without anything behind it.
pub(super) async fn node(lab: &Lab) -> String {
    let node = json!({"metadata": {"name": NODE}});
    let made = match lab.get(&format!("/api/v1/nodes/{NODE}")).await {
        Some(there) => there,
        None => lab.create("/api/v1/nodes", &node).await.unwrap(),
    };
    made["metadata"]["uid"].as_str().unwrap().to_owned()
}

const CANARY: &str = "fidelity.example.com/canary";

/// Waits until whatever was written before of namespaces, policies and bindings is what the API
/// server goes by: it has seen a policy that was written after them, and a namespace's label.
pub(super) async fn settled(lab: &Lab) {
    static NUMBER: AtomicUsize = AtomicUsize::new(1);
    let seen = format!("seen-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods"], "scope": "Namespaced"});
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "metadata": {"name": seen},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {CANARY: seen}},
                "resourceRules": [rule],
            },
            "validations": [{"expression": "false", "message": seen}],
        },
    });
    let binding = json!({
        "metadata": {"name": seen},
        "spec": {"policyName": seen, "validationActions": ["Deny"]},
    });
    for (kind, object) in [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ] {
        lab.create(&format!("{group}/{kind}"), &object)
            .await
            .unwrap();
    }
    lab.ensure_namespace("settled").await;
    let labels = json!({"metadata": {"labels": {CANARY: seen}}});
    patch(lab, "settled", &labels).await;
    let pod = json!({
        "metadata": {"name": "settled"},
        "spec": {"containers": [{"name": "web", "image": "example.com/web"}]},
    });
    within(PATIENCE, "the API server has seen it all", async || {
        let answer = try_pod(lab, "settled", &pod, false).await;
        answer.message().contains(&seen).then_some(())
    })
    .await;
}
