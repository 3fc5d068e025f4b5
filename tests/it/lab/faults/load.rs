//! What goes on in a cluster: Deployments are created and scaled, pods are created, the injector
//! comes and goes.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use hyper::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Error};
use meshgate::kube_api::client;
use serde_json::{Value, json};
use tokio::time::{Instant, interval, sleep, timeout};

use crate::lab::harness::{Lab, PATIENCE, User, pod, within};

/// More than this no test waits for one call. A webhook that fails closed has given up by then, so
/// that it is said who held it up.
const PATIENT: Duration = Duration::from_secs(8);
/// Deployments per namespace.
const DEPLOYMENTS: usize = 5;
/// How long controllers may take for everything once all is well: their own back-off is the longest
/// part of it, although their owners are poked.
const SETTLED: Duration = Duration::from_secs(120);

/// The load, in two namespaces.
pub(super) struct Load<'l> {
    lab: &'l Lab,
    /// One that tries nothing again: kube's own does so with what is refused by 503.
    client: Client,
    meshed: String,
    plain: String,
    /// While it does not, its clients' calls may fail.
    pub(super) api_server_answers: Cell<bool>,
    /// How often it did not: a call may last from before one of these till after it.
    pub(super) times_away: Cell<usize>,
    created: Cell<usize>,
    /// The end has begun: nothing changes any more.
    is_over: Cell<bool>,
    last_refusal: RefCell<String>,
}

impl<'l> Load<'l> {
    pub(super) async fn new(lab: &'l Lab) -> Self {
        let marks = [("linkerd.io/inject", "enabled")];
        let file = Kubeconfig::read_from(lab.kubeconfig(User::Admin)).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        Self {
            lab,
            client: client::connect(&config.unwrap()).unwrap(),
            meshed: lab.namespace("meshed", &[], &marks).await,
            plain: lab.namespace("plain", &[], &[]).await,
            api_server_answers: Cell::new(true),
            times_away: Cell::new(0),
            created: Cell::new(0),
            is_over: Cell::new(false),
            last_refusal: RefCell::default(),
        }
    }

    pub(super) fn meshed(&self) -> &str {
        &self.meshed
    }

    /// Pods in the plain namespace so far, those of Deployments aside.
    pub(super) fn created(&self) -> usize {
        self.created.get()
    }

    /// Never ends.
    pub(super) async fn run(&self) {
        futures::join!(
            self.scales(),
            self.creates_plain(),
            self.creates_meshed(),
            self.toggles()
        );
    }

    /// Waits until pods of both kinds have come.
    pub(super) async fn is_under_way(&self) {
        within(PATIENCE, "the load is under way", async || {
            let meshed = self.pods(&self.meshed).await?;
            (self.created() > 3 && !meshed.is_empty()).then_some(())
        })
        .await;
    }

    async fn scales(&self) {
        let mut ticks = interval(Duration::from_millis(300));
        let mut number = 0;
        loop {
            ticks.tick().await;
            if self.is_over.get() {
                continue;
            }
            number += 1;
            let namespace = [&self.meshed, &self.plain][number % 2];
            let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
            let name = format!("web-{}", number / 2 % DEPLOYMENTS);
            let replicas = 1 + number / 7 % 3;
            let one = format!("{path}/{name}");
            let scale = json!({"spec": {"replicas": replicas}});
            let scaled = timeout(PATIENT, self.lab.merge(&one, &scale)).await;
            if matches!(scaled, Ok(Err(Error::Api(status))) if status.code == 404) {
                let object = deployment(&name, replicas);
                let created = timeout(PATIENT, self.lab.create(&path, &object)).await;
                // Whatever came of it, the next round sees.
                drop(created);
            }
        }
    }

    /// A pod that has nothing to do with us, again and again.
    async fn creates_plain(&self) {
        let mut ticks = interval(Duration::from_millis(200));
        loop {
            ticks.tick().await;
            let before = (self.api_server_answers.get(), self.times_away.get());
            let created = self.creates_in(&self.plain).await;
            let must_work = before == (true, self.times_away.get());
            match created {
                Ok(_) => self.created.set(self.created.get() + 1),
                Err(why) => assert!(!must_work && !blames_us(&why), "a plain pod: {why}"),
            }
        }
    }

    /// A pod that requires the injector, again and again: it comes with its sidecar or not at all.
    async fn creates_meshed(&self) {
        let mut ticks = interval(Duration::from_millis(200));
        loop {
            ticks.tick().await;
            if let Ok(created) = self.creates_in(&self.meshed).await {
                let containers = created["spec"]["containers"].as_array().unwrap();
                let mut names = containers.iter().map(|container| &container["name"]);
                assert!(names.any(|name| name == "linkerd-proxy"), "bare: {created}");
            }
        }
    }

    /// Creates a pod and deletes it. Returns it, or why it was not created.
    async fn creates_in(&self, namespace: &str) -> Result<Value, String> {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let mut pod = pod(&[], &[]);
        // It is gone before a scheduler could do anything with it.
        pod["spec"]["schedulerName"] = json!("none");
        let request = Request::post(&pods)
            .header("Content-Type", "application/json")
            .body(pod.to_string().into_bytes())
            .unwrap();
        let created = timeout(PATIENT, self.client.request::<Value>(request)).await;
        let created = created.map_err(|_| format!("no answer within {PATIENT:?}"))?;
        let created = created.map_err(|error| error.to_string())?;
        let name = created["metadata"]["name"].as_str().unwrap();
        let request = Request::delete(format!("{pods}/{name}"))
            .header("Content-Type", "application/json")
            .body(json!({"gracePeriodSeconds": 0}).to_string().into_bytes())
            .unwrap();
        let deleted = self.client.request::<Value>(request);
        // What stays disturbs no test.
        drop(timeout(PATIENT, deleted).await);
        Ok(created)
    }

    async fn toggles(&self) {
        let mut ticks = interval(Duration::from_secs(2));
        let mut replicas = 1;
        loop {
            ticks.tick().await;
            let wanted = if self.is_over.get() { 1 } else { replicas };
            replicas = 1 - replicas;
            drop(timeout(PATIENT, self.lab.scale_linkerd(wanted)).await);
        }
    }

    /// Creates pods in the meshed namespace until one is refused because no replica was asked.
    pub(super) async fn refused_meshed_pod(&self) -> String {
        within(PATIENCE, "a meshed pod is refused", async || {
            let refused = self.lab.try_pod(&self.meshed, &pod(&[], &[])).await;
            refused.err().map(|status| status.message)
        })
        .await
    }

    /// Waits until every Deployment has the pods that it wants. Whether they run is not for admission
    /// to say: a scheduler that lost the API server may let a pod wait for five minutes. So that the
    /// injector's own pod is none of those, it has an endpoint more.
    pub(super) async fn settles(&self) {
        self.is_over.set(true);
        let (namespace, service) = ("linkerd", "linkerd-proxy-injector");
        self.lab.endpoint(namespace, service, true).await;
        let begin = Instant::now();
        let mut missing = String::new();
        while begin.elapsed() < SETTLED {
            missing.clear();
            for namespace in [&self.meshed, &self.plain] {
                missing.push_str(&self.missing(namespace).await);
            }
            if missing.is_empty() {
                let took = begin.elapsed().as_secs_f32();
                crate::support::figures(&format!("all pods were there after {took:.1} s"));
                return;
            }
            // As a controller that has backed off is woken.
            self.lab.poke(&self.meshed).await;
            sleep(Duration::from_secs(1)).await;
        }
        panic!(
            "after {SETTLED:?} still missing: {missing}; {}",
            self.last_refusal.borrow()
        );
    }

    /// Deployments that have not all their pods yet.
    async fn missing(&self, namespace: &str) -> String {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
        let list = self.lab.get(&path).await.unwrap();
        let deployments = list["items"].as_array().unwrap();
        assert_eq!(deployments.len(), DEPLOYMENTS, "{namespace}");
        let mut missing = String::new();
        for deployment in deployments {
            let (spec, status) = (&deployment["spec"], &deployment["status"]);
            let wanted = spec["replicas"].as_u64();
            let there = status["replicas"].as_u64();
            let is_seen = status["observedGeneration"] == deployment["metadata"]["generation"];
            if there != wanted || !is_seen {
                let name = &deployment["metadata"]["name"];
                missing.push_str(&format!("{namespace}/{name} {there:?} of {wanted:?}, "));
                let conditions = deployment["status"]["conditions"].to_string();
                self.last_refusal.replace(conditions);
            }
        }
        missing
    }

    async fn pods(&self, namespace: &str) -> Option<Vec<Value>> {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        self.lab.get(&path).await?["items"].as_array().cloned()
    }
}

/// Whether a refusal has to do with us, or with any webhook.
fn blames_us(text: &str) -> bool {
    ["meshgate", "webhook"]
        .iter()
        .any(|word| text.contains(word))
}

fn deployment(name: &str, replicas: usize) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "example.com/web"}]},
            },
        },
    })
}
