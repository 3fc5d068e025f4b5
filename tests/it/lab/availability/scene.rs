//! A lab with a network in which three replicas answer, and what can be done to it.

use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::load::Load;
use crate::lab::harness::helm::NO_REGISTRY;
use crate::lab::harness::{Lab, Network, Options, PATIENCE, pod, within};

/// More than the API server keeps idle connections for one entry (25).
const AT_ONCE: usize = 50;

/// Whose replicas are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// meshgate, gate and check as webhooks that fail closed.
    Webhook,
    /// meshgate, with the check in the API server.
    Policy,
    /// A webhook that says yes, fails closed and does nothing else about it.
    Plain,
}

/// The lab of one subject. Its replicas answer for the pods of one namespace.
pub(super) struct Scene {
    pub(super) lab: Lab,
    pub(super) subject: Subject,
    /// Where pods are created.
    pub(super) namespace: String,
}

/// An endpoint of the subject's Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) address: String,
    pub(super) node: String,
    pub(super) pod: String,
    pub(super) is_ready: bool,
}

impl Subject {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Policy => "policy",
            Self::Plain => "plain webhook",
        }
    }

    pub(super) fn is_ours(self) -> bool {
        self != Self::Plain
    }

    /// Namespace and name of its Deployment and its Service.
    pub(super) fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Webhook | Self::Policy => ("meshgate-system", "meshgate"),
            Self::Plain => ("plain", "plain"),
        }
    }
}

impl Scene {
    /// Starts a lab in which a Node is lost after so many seconds of silence, and waits until all is
    /// as it is to be.
    pub(super) async fn start(subject: Subject, node_grace: Option<u64>) -> Self {
        let options = Options {
            network: Some(Network { node_grace }),
            ..Options::default()
        };
        let scene = Self {
            lab: Lab::own(options).await,
            subject,
            namespace: "orders".to_owned(),
        };
        if subject.is_ours() {
            scene.lab.order("install injector").await;
            scene.install().await;
        } else {
            scene.lab.order("install plain").await;
        }
        scene.creates_namespace(&scene.namespace).await;
        scene.all_ready(3).await;
        scene
    }

    async fn creates_namespace(&self, name: &str) {
        let (label, inject) = match self.subject {
            Subject::Plain => ("lab/plain", "disabled"),
            Subject::Webhook | Subject::Policy => ("lab/meshed", "enabled"),
        };
        let namespace = json!({"metadata": {
            "name": name,
            "labels": {label: ""},
            "annotations": {"linkerd.io/inject": inject},
        }});
        self.lab
            .create("/api/v1/namespaces", &namespace)
            .await
            .unwrap();
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        within(PATIENCE, "the namespace has its account", async || {
            self.lab.get(&account).await.map(drop)
        })
        .await;
    }

    /// The chart, from this folder.
    async fn install(&self) {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/chart");
        let arguments = [
            "install",
            "meshgate",
            chart.to_str().unwrap(),
            "--namespace=meshgate-system",
            "--create-namespace",
            "--set=injectors={linkerd}",
            NO_REGISTRY,
            &format!("--set=enforcement={}", self.subject.name()),
        ];
        self.lab.helm(&arguments).await.ok();
        self.armed().await;
    }

    /// Waits until the registration is as it is to be.
    pub(super) async fn armed(&self) {
        let api = "/apis/admissionregistration.k8s.io/v1";
        let mutating = format!("{api}/mutatingwebhookconfigurations/admission.meshgate.io");
        let validating = format!("{api}/validatingwebhookconfigurations/admission.meshgate.io");
        let binding = format!("{api}/validatingadmissionpolicybindings/linkerd.check.meshgate.io");
        let fails = async |path: &str, part: &str| {
            let object = self.lab.get(path).await?;
            let entries = object["webhooks"].as_array()?.clone();
            let mut ours = entries.iter().filter(|entry| {
                entry["name"]
                    .as_str()
                    .is_some_and(|name| name.contains(part))
            });
            ours.all(|entry| entry["failurePolicy"] == "Fail")
                .then_some(())
        };
        within(2 * PATIENCE, "it is armed", async || match self.subject {
            Subject::Webhook => {
                fails(&mutating, ".gate.").await?;
                fails(&validating, ".check.").await
            }
            Subject::Policy => {
                self.lab.get(&mutating).await?;
                let actions = self.lab.get(&binding).await?;
                let actions = actions["spec"]["validationActions"].as_array()?.clone();
                actions.contains(&json!("Deny")).then_some(())
            }
            Subject::Plain => Some(()),
        })
        .await;
    }

    /// Creates that begin now.
    pub(super) async fn load(&self) -> Load {
        let requires = if self.subject.is_ours() {
            "linkerd-proxy"
        } else {
            ""
        };
        Load::start(&self.lab, &self.namespace, requires).await
    }

    /// How many calls of webhooks the API server went on without.
    async fn fail_opens(&self) -> u64 {
        let request = hyper::Request::get("/metrics").body(Vec::new()).unwrap();
        let metrics = self.lab.client().await.request_text(request).await.unwrap();
        let name = "apiserver_admission_webhook_fail_open_count{";
        let counts = metrics.lines().filter(|line| line.starts_with(name));
        let counts = counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        counts.sum()
    }

    /// Until nothing is left that leads to a replica that is gone: calls that began before it was known, and
    /// idle connections of the API server's, each of which fails one call. So many creates at once that
    /// all of them are met, until all is well.
    async fn forgets(&self) {
        let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", self.namespace);
        let pod = pod(&[], &[]);
        within(PATIENCE, "nothing leads to what is gone", async || {
            let before = self.fail_opens().await;
            let creates = (0..AT_ONCE).map(|_| self.lab.create(&path, &pod));
            let all = join_all(creates).await;
            let is_well = all.iter().all(Result::is_ok) && self.fail_opens().await == before;
            is_well.then_some(())
        })
        .await;
    }

    /// The phase after a replica is gone, once that is known everywhere: no request to meshgate waits for it.
    pub(super) async fn goes_on_without(&self, load: &mut Load) {
        self.forgets().await;
        let before = self.fail_opens().await;
        load.phase("after that").await;
        load.goes_on_for(Duration::from_secs(5)).await;
        if self.subject.is_ours() {
            assert_eq!(self.fail_opens().await, before, "no request waited for it");
        }
    }

    /// The endpoints of the subject's Service.
    pub(super) async fn endpoints(&self) -> Vec<Endpoint> {
        let (namespace, service) = self.subject.place();
        let path = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io/service-name={service}"
        );
        let Ok(list) = self.lab.try_get(&path).await else {
            return Vec::new();
        };
        let slices = list["items"].as_array().into_iter().flatten();
        let endpoints =
            slices.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        endpoints
            .map(|endpoint| Endpoint {
                address: text(&endpoint["addresses"][0]),
                node: text(&endpoint["nodeName"]),
                pod: format!("{namespace}/{}", text(&endpoint["targetRef"]["name"])),
                is_ready: endpoint["conditions"]["ready"] == true,
            })
            .collect()
    }

    /// Waits until so many replicas are ready, and no other replica is an endpoint.
    pub(super) async fn all_ready(&self, count: usize) {
        within(2 * PATIENCE, "all replicas are ready", async || {
            let endpoints = self.endpoints().await;
            let all = endpoints.len() == count;
            (all && endpoints.iter().all(|endpoint| endpoint.is_ready)).then_some(())
        })
        .await;
    }

    /// The replica on this Node.
    pub(super) async fn replica_on(&self, node: &str) -> Endpoint {
        within(PATIENCE, "there is a replica on the Node", async || {
            let mut all = self.endpoints().await.into_iter();
            all.find(|endpoint| endpoint.node == node && endpoint.is_ready)
        })
        .await
    }

    /// Whether kube-proxy's rules lead any client to this one.
    pub(super) async fn leads_to(&self, replica: &Endpoint) -> bool {
        let answer = self.lab.order(&format!("routes {}", replica.address)).await;
        answer["leads"] == true
    }

    /// Waits until this one is no endpoint that a client would call, and kube-proxy leads no client there; returns
    /// how long the first took.
    pub(super) async fn is_withdrawn(&self, replica: &Endpoint, limit: Duration) -> Duration {
        let begin = Instant::now();
        within(limit, "the endpoint is gone", async || {
            let all = self.endpoints().await;
            let mut same = all.iter().filter(|other| other.address == replica.address);
            same.all(|other| !other.is_ready).then_some(())
        })
        .await;
        let took = begin.elapsed();
        within(PATIENCE, "kube-proxy knows that it is gone", async || {
            (!self.leads_to(replica).await).then_some(())
        })
        .await;
        took
    }

    /// What a replica says on its listener for probes, by way of the API server.
    pub(super) async fn ask(&self, replica: &Endpoint, path: &str) -> String {
        let (namespace, pod) = replica.pod.split_once('/').unwrap();
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:8080/proxy{path}");
        let request = hyper::Request::get(path).body(Vec::new()).unwrap();
        let answer = self.lab.client().await.request_text(request).await;
        answer.unwrap_or_default()
    }

    /// `kubectl rollout restart` of a Deployment of the subject's, until it is done.
    pub(super) async fn restarts(&self, deployment: &str) {
        let (namespace, _) = self.subject.place();
        let name = format!("deployment/{deployment}");
        self.lab
            .kubectl(&["-n", namespace, "rollout", "restart", &name])
            .await
            .ok();
        let status = ["-n", namespace, "rollout", "status", &name, "--timeout=50s"];
        self.lab.kubectl(&status).await.ok();
    }
}
