//! Profiles that forbid opt-outs and limit the sidecar's image, in both forms, on a real API server.

use serde_json::{Value, json};

use super::guarded::meshed;
use super::injector::{Linkerd, PASSED_BY};
use crate::lab::harness::{Answer, Caller, Lab, Meshgate, Options, PATIENCE, Who, pod, within};

const CONFIG: &str = "
apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
  optOut: forbid
  injected:
  - {sidecar: linkerd-proxy, init: [linkerd-init], images: [cr.l5d.io/linkerd/]}
excludedNamespaces: [unguarded]
";

const OWN: &str = "cr.l5d.io/linkerd/proxy:edge-26.8.2";
const FOREIGN: &str = "cr.l5d.io/linkerd-evil/proxy:1";
const ONLY: &str =
    "and the sidecar of linkerd may only run images that begin with cr.l5d.io/linkerd/";
const STRATEGIC: &str = "strategic-merge-patch";

/// A pod as the injector would leave it, which passes this one by.
fn injected(image: &str) -> Value {
    let mut pod = pod(&[(PASSED_BY, "")], &[]);
    pod["spec"]["initContainers"] =
        json!([{"name": "linkerd-init", "image": "cr.l5d.io/linkerd/proxy-init:v2.4.3"}]);
    let containers = pod["spec"]["containers"].as_array_mut().unwrap();
    containers.push(json!({"name": "linkerd-proxy", "image": image}));
    pod
}

/// The sidecar with another image.
fn with_image(image: &str) -> Value {
    json!({"spec": {"containers": [{"name": "linkerd-proxy", "image": image}]}})
}

/// A firm refusal that holds these texts.
fn is_refused(answer: &Answer, texts: &[&str]) {
    let message = answer.message();
    assert!(
        answer.code == 403 && texts.iter().all(|text| message.contains(text)),
        "expected {texts:?}: {answer:?}"
    );
}

async fn tries_all(enforcement: &str) {
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver", "kube-controller-manager"],
        ..Options::default()
    })
    .await;
    let _linkerd = Linkerd::install(&lab).await;
    lab.endpoint("linkerd", "linkerd-proxy-injector", true)
        .await;
    let flag = format!("--enforcement={enforcement}");
    let meshgate = Meshgate::with(&lab, CONFIG, &[&flag]).await;
    let admin = lab.call(Who::Admin);
    let namespace = meshed(&lab).await;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let opting_out = pod(&[], &[("linkerd.io/inject", "disabled")]);

    within(PATIENCE, "opting out is refused", async || {
        let answer = admin.post(&pods, &opting_out).await;
        (answer.code == 403).then_some(answer)
    })
    .await;
    let answer = admin.post(&pods, &opting_out).await;
    is_refused(
        &answer,
        &[
            &format!(
                "in namespace {namespace} opts out of linkerd (annotation linkerd.io/inject=disabled)"
            ),
            "opting out is not allowed here",
        ],
    );
    let plain = lab.namespace("plain", &[], &[]).await;
    let elsewhere = format!("/api/v1/namespaces/{plain}/pods");
    let answer = admin.post(&elsewhere, &opting_out).await;
    assert!(answer.is_ok(), "nothing requires it there: {answer:?}");

    other_images_are_refused(&meshgate, &admin, &namespace).await;
}

/// At the creation of a pod, and at an update of one that has its sidecar.
async fn other_images_are_refused(meshgate: &Meshgate<'_>, admin: &Caller<'_>, namespace: &str) {
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let named = |image: &str| format!("the image of container linkerd-proxy is {image}");
    within(PATIENCE, "another image is refused", async || {
        let answer = admin.post(&pods, &injected(FOREIGN)).await;
        (answer.code == 403).then_some(())
    })
    .await;
    let answer = admin.post(&pods, &injected(FOREIGN)).await;
    is_refused(&answer, &[&named(FOREIGN), ONLY]);
    let answer = admin.post(&pods, &injected(OWN)).await;
    assert!(answer.is_ok(), "{answer:?}");
    let name = answer.body["metadata"]["name"].as_str().unwrap();
    let path = format!("{pods}/{name}");

    let calls = meshgate.calls();
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let web = json!({"spec": {"containers": [{"name": "web", "image": "example.com/web:2"}]}});
    for change in [
        labelled,
        web,
        with_image("cr.l5d.io/linkerd/proxy:edge-26.9.1"),
    ] {
        let answer = admin.patch(&path, STRATEGIC, &change).await;
        assert!(answer.is_ok(), "{change}: {answer:?}");
    }
    assert_eq!(meshgate.calls(), calls, "a harmless update was sent");
    // What a user may write changes nothing.
    let annotated = json!({"metadata": {"annotations": {"linkerd.io/inject": "disabled"}}});
    assert!(admin.patch(&path, STRATEGIC, &annotated).await.is_ok());
    for how in ["", "?dryRun=All"] {
        let path = format!("{path}{how}");
        let answer = admin.patch(&path, STRATEGIC, &with_image(FOREIGN)).await;
        let change = format!(
            "Pod {name} in namespace {namespace} changes the image of container linkerd-proxy to"
        );
        is_refused(&answer, &[&change, FOREIGN, ONLY]);
    }
}

#[tokio::test]
async fn webhooks_refuse_opt_outs_and_other_images() {
    tries_all("webhook").await;
}

#[tokio::test]
async fn policies_refuse_opt_outs_and_other_images() {
    tries_all("policy").await;
}
