//! The creates that are measured.

use std::time::{Duration, Instant};

use hyper::Request;
use kube::Client;
use serde_json::{Value, json};

use super::Result;
use super::plane::Plane;

/// Namespaces: one whose pods require the injector, one whose pods require nothing.
pub(super) const MESHED: &str = "meshed";
pub(super) const PLAIN: &str = "plain";

const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/linkerd/endpointslices/measured";

const OBJECTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: meshed, annotations: {linkerd.io/inject: enabled}}
---
apiVersion: v1
kind: Namespace
metadata: {name: plain}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: meshed}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: plain}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: measured
  namespace: linkerd
  labels: {kubernetes.io/service-name: linkerd-proxy-injector}
addressType: IPv4
endpoints:
- addresses: [192.0.2.7]
  conditions: {ready: true}
";

/// Makes the namespaces, and the injector's slice with one ready endpoint.
pub(super) fn prepare(plane: &Plane) -> Result<()> {
    plane.apply(OBJECTS)
}

/// Says whether the injector is ready; returns when the API server has taken it.
pub(super) async fn set_ready(client: &Client, is_ready: bool) -> Result<()> {
    let endpoints = json!([{"addresses": ["192.0.2.7"], "conditions": {"ready": is_ready}}]);
    let request = Request::patch(SLICE)
        .header("Content-Type", "application/merge-patch+json")
        .body(json!({"endpoints": endpoints}).to_string().into_bytes())?;
    client.request::<Value>(request).await?;
    Ok(())
}

/// What one create came to.
pub(super) struct Created {
    pub(super) took: Duration,
    /// The pod, or why it was refused.
    pub(super) pod: kube::Result<Value>,
}

/// Whether anything is stored.
#[derive(Clone, Copy)]
pub(super) enum Storing {
    DryRun,
    Stored,
}

/// Creates a pod as a controller's would be. A meshed one carries the mark: the stand-in injects what
/// does, so that it has the same work whether there is a meshgate, which sets the mark anew, or none.
pub(super) async fn create(client: &Client, namespace: &str, storing: Storing) -> Result<Created> {
    let marks = match namespace {
        MESHED => json!({"meshgate.io/admitted": "linkerd"}),
        _ => json!({}),
    };
    let pod = json!({
        "metadata": {
            "generateName": "web-7c5ddbdf54-",
            "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54"},
            "annotations": marks,
        },
        "spec": {"containers": [{
            "name": "web", "image": "example.com/web:1.2.3",
            "ports": [{"containerPort": 8080}],
            "env": [{"name": "LOG_LEVEL", "value": "info"}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        }]},
    });
    let dry_run = match storing {
        Storing::DryRun => "?dryRun=All",
        Storing::Stored => "",
    };
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/pods{dry_run}"))
        .header("Content-Type", "application/json")
        .body(pod.to_string().into_bytes())?;
    let begin = Instant::now();
    let pod = client.request(request).await;
    Ok(Created {
        took: begin.elapsed(),
        pod,
    })
}

/// Deletes a pod that was stored.
pub(super) async fn delete(client: &Client, pod: &Value) -> Result<()> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let request = Request::delete(format!("/api/v1/namespaces/{MESHED}/pods/{name}"))
        .header("Content-Type", "application/json")
        .body(json!({"gracePeriodSeconds": 0}).to_string().into_bytes())?;
    client.request::<Value>(request).await?;
    Ok(())
}

/// Whether the stand-in has put its sidecar in.
pub(super) fn is_injected(pod: &Value) -> bool {
    let containers = pod["spec"]["containers"].as_array();
    let mut containers = containers.into_iter().flatten();
    containers.any(|container| container["name"] == "linkerd-proxy")
}
