//! A whole cluster comes back: every node was gone, everything is pending at once, meshgate, the injector
//! and the certificates among it. What the cluster itself needs does not wait, and no pod of an
//! application is ever without its sidecar, in whatever order the others come.

use std::cell::Cell;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::scene::Scene;
use crate::lab::harness::within;

const NODES: [&str; 3] = ["node1", "node2", "node3"];
/// Deployments of the application, with two replicas each.
const DEPLOYMENTS: usize = 10;
/// Their controllers back off, although they are poked.
const PATIENCE: Duration = Duration::from_secs(120);
/// Until what does not wait is there.
const AT_ONCE: Duration = Duration::from_secs(45);

/// What is started, in some order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Meshgate,
    Injector,
    Application,
    /// The Secrets are gone, and made anew once `control` runs.
    Certificates,
}

const PARTS: [Part; 4] = [
    Part::Meshgate,
    Part::Injector,
    Part::Application,
    Part::Certificates,
];

/// So many runs; the first with everything at once, the others each in another order.
pub(super) async fn run(scene: &Scene, runs: usize) -> String {
    scene.creates_cluster().await;
    let seen = Cell::new(0);
    let mut took = Vec::new();
    let goes = async {
        scene.applications_are_there().await;
        for number in 0..runs {
            let order = match number {
                0 => Vec::new(),
                // All over the 24, also with few runs.
                _ => permutation(number * 7 % 24),
            };
            took.push(scene.starts_cold(&order).await);
        }
    };
    tokio::select! {
        () = goes => {}
        () = scene.watches(&seen) => {}
    }
    took.sort();
    format!(
        "{}: {runs} cold starts, {} pods of applications came, none was bare; all were there after {:.0} s (median), {:.0} s (slowest)",
        scene.subject.name(),
        seen.get(),
        took[took.len() / 2].as_secs_f32(),
        took[took.len() - 1].as_secs_f32(),
    )
}

/// The parts in one of their 24 orders.
fn permutation(mut number: usize) -> Vec<Part> {
    let mut rest = PARTS.to_vec();
    let mut order = Vec::new();
    while !rest.is_empty() {
        order.push(rest.remove(number % rest.len()));
        number /= rest.len() + 1;
    }
    order
}

impl Scene {
    /// What every cluster has besides: a network, a DNS; and an application.
    async fn creates_cluster(&self) {
        for (path, name, spec) in [
            (
                "daemonsets",
                "cni",
                json!({"hostNetwork": true, "tolerations": [{"operator": "Exists"}]}),
            ),
            ("deployments", "dns", json!({})),
        ] {
            let path = format!("/apis/apps/v1/namespaces/kube-system/{path}");
            self.lab.create(&path, &workload(name, spec)).await.unwrap();
        }
        let path = format!("/apis/apps/v1/namespaces/{}/deployments", self.namespace);
        for number in 0..DEPLOYMENTS {
            let mut object = workload(&format!("app-{number}"), json!({}));
            object["spec"]["replicas"] = json!(2);
            self.lab.create(&path, &object).await.unwrap();
        }
    }

    /// Everything goes, comes back in this order, and is as before; returns how long that took.
    async fn starts_cold(&self, order: &[Part]) -> Duration {
        for part in order {
            self.scales(*part, false).await;
        }
        for node in NODES {
            self.lab.order(&format!("kill {node}")).await;
            self.lab.delete(&format!("/api/v1/nodes/{node}")).await;
        }
        // As the garbage collector does a minute later.
        let all = [
            "delete",
            "pods",
            "--all",
            "--all-namespaces",
            "--force",
            "--grace-period=0",
        ];
        self.lab.kubectl(&all).await.ok();
        let begin = Instant::now();
        for node in NODES {
            self.lab.order(&format!("start {node}")).await;
        }
        for part in order {
            self.scales(*part, true).await;
            self.has_begun(*part).await;
        }
        let system = ["meshgate-system", "linkerd", "kube-system"];
        for namespace in system {
            while let Err(missing) = self.are_complete(namespace).await {
                let late = begin.elapsed() > AT_ONCE;
                assert!(!late, "in {namespace}, started as {order:?}: {missing}");
                sleep(Duration::from_millis(200)).await;
            }
        }
        for namespace in system {
            self.were_never_refused(namespace).await;
        }
        self.armed().await;
        self.applications_are_there().await;
        begin.elapsed()
    }

    async fn scales(&self, part: Part, is_up: bool) {
        let deployments = match part {
            Part::Meshgate => vec![("meshgate-system", "meshgate".to_owned(), 3)],
            Part::Injector => vec![("linkerd", "linkerd-proxy-injector".to_owned(), 2)],
            Part::Certificates => vec![("meshgate-system", "meshgate-control".to_owned(), 2)],
            Part::Application => (0..DEPLOYMENTS)
                .map(|number| (self.namespace.as_str(), format!("app-{number}"), 2))
                .collect(),
        };
        for (namespace, name, replicas) in deployments {
            let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
            let replicas = if is_up { replicas } else { 0 };
            let scale = json!({"spec": {"replicas": replicas}});
            self.lab.merge(&path, &scale).await.unwrap();
        }
        if part == Part::Certificates && !is_up {
            for secret in ["meshgate-tls", "meshgate-ca"] {
                let path = format!("/api/v1/namespaces/meshgate-system/secrets/{secret}");
                self.lab.delete(&path).await;
            }
        }
    }

    /// So that the next one comes later: its pods were created, or refused.
    async fn has_begun(&self, part: Part) {
        let namespace = match part {
            Part::Meshgate | Part::Certificates => "meshgate-system",
            Part::Injector => "linkerd",
            Part::Application => &self.namespace,
        };
        let path = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
        within(AT_ONCE, "its ReplicaSets are looked at", async || {
            let list = self.lab.get(&path).await?;
            let mut sets = list["items"].as_array()?.iter();
            sets.all(|set| {
                let is_seen = set["status"]["observedGeneration"] == set["metadata"]["generation"];
                let has_pods = set["status"]["replicas"] == set["spec"]["replicas"];
                is_seen && (has_pods || set["status"]["conditions"].is_array())
            })
            .then_some(())
        })
        .await;
    }

    /// No controller was told by a webhook or a policy that there can be no pod.
    async fn were_never_refused(&self, namespace: &str) {
        let path =
            format!("/api/v1/namespaces/{namespace}/events?fieldSelector=reason=FailedCreate");
        let list = self.lab.get(&path).await.unwrap();
        for event in list["items"].as_array().unwrap() {
            let message = event["message"].as_str().unwrap_or_default();
            let is_ours = ["webhook", "meshgate", "ValidatingAdmissionPolicy"];
            let is_ours = is_ours.iter().any(|word| message.contains(word));
            assert!(!is_ours, "{namespace}: {message}");
        }
    }

    /// Every Deployment and DaemonSet of the namespace has all its pods, and they are ready; else what
    /// is missing.
    async fn are_complete(&self, namespace: &str) -> Result<(), String> {
        for (kind, wanted, ready) in [
            ("deployments", "/spec/replicas", "/status/readyReplicas"),
            (
                "daemonsets",
                "/status/desiredNumberScheduled",
                "/status/numberReady",
            ),
        ] {
            let path = format!("/apis/apps/v1/namespaces/{namespace}/{kind}");
            let list = self.lab.get(&path).await.unwrap();
            for object in list["items"].as_array().unwrap() {
                let number = |pointer| object.pointer(pointer).and_then(Value::as_u64);
                let (wanted, ready) = (number(wanted).unwrap_or(0), number(ready).unwrap_or(0));
                if wanted != ready || wanted == 0 {
                    let (name, status) = (&object["metadata"]["name"], &object["status"]);
                    return Err(format!("{name} has {ready} of {wanted}: {status}"));
                }
            }
        }
        Ok(())
    }

    /// Waits for all pods of the application, and pokes the controllers that have backed off.
    async fn applications_are_there(&self) {
        let begin = Instant::now();
        while self.are_complete(&self.namespace).await.is_err() {
            assert!(
                begin.elapsed() < PATIENCE,
                "pods are missing: {}",
                self.refusals().await
            );
            self.lab.poke(&self.namespace).await;
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn refusals(&self) -> String {
        let path = format!("/apis/apps/v1/namespaces/{}/replicasets", self.namespace);
        let list = self.lab.get(&path).await.unwrap();
        let sets = list["items"].as_array().unwrap();
        let conditions = sets
            .iter()
            .map(|set| set["status"]["conditions"].to_string());
        conditions.filter(|text| text != "null").collect()
    }

    /// Never ends, but in a panic: when a pod of the application has no sidecar.
    async fn watches(&self, seen: &Cell<usize>) {
        let pods: Api<Pod> = Api::namespaced(self.lab.client().await.clone(), &self.namespace);
        let mut events = std::pin::pin!(watcher(pods, Config::default()));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod)) => {
                    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
                    let mut names = containers.map(|container| container.name.as_str());
                    assert!(names.any(|name| name == "linkerd-proxy"), "bare: {pod:?}");
                    let is_new = pod
                        .status
                        .as_ref()
                        .is_none_or(|status| status.host_ip.is_none());
                    seen.set(seen.get() + usize::from(is_new));
                }
                Ok(Event::Init | Event::InitDone) => {}
                // It goes on where it was, or lists anew.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// A Deployment or a DaemonSet of one container, with this in its pods' spec.
fn workload(name: &str, mut pod: Value) -> Value {
    pod["containers"] = json!([{"name": name, "image": format!("example.com/{name}")}]);
    json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    })
}
