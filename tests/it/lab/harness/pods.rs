//! Pods that are created or only tried, and what an injector did to them.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Error;
use kube::core::Status;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::objects::{Marks, object};
use super::{Lab, PATIENCE};

/// What a create came to: what was or would be stored, or the refusal.
pub(crate) type Tried = Result<Value, Status>;

/// A namespace that the Configurations of tests with a real injector exclude: what is created there
/// meets the injector alone.
pub(crate) const UNGUARDED: &str = "unguarded";

/// What an injector put into a pod: the containers that were not in what was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Injection {
    /// Among `containers`.
    pub(crate) containers: BTreeSet<String>,
    /// Among `initContainers`, with `restartPolicy: Always`.
    pub(crate) native: BTreeSet<String>,
    /// Among `initContainers`, without it.
    pub(crate) init: BTreeSet<String>,
}

impl Injection {
    /// Compares a pod as it was sent with what the API server made of it.
    pub(crate) fn between(sent: &Value, made: &Value) -> Self {
        let is_native = |container: &&Value| container["restartPolicy"] == "Always";
        let new = |list: &str, keep: &dyn Fn(&&Value) -> bool| -> BTreeSet<String> {
            let name = |container: &Value| container["name"].as_str().map(str::to_owned);
            let before = entries(sent, list).filter_map(name);
            let before: BTreeSet<String> = before.collect();
            let after = entries(made, list).filter(keep).filter_map(name);
            after.filter(|name| !before.contains(name)).collect()
        };
        Self {
            containers: new("containers", &|_| true),
            native: new("initContainers", &is_native),
            init: new("initContainers", &|container| !is_native(container)),
        }
    }

    /// The pod is as bare as it was sent.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

fn entries<'v>(pod: &'v Value, list: &str) -> impl Iterator<Item = &'v Value> {
    pod["spec"][list].as_array().into_iter().flatten()
}

/// A pod of one container with these labels and annotations; the API server finds a name.
pub(crate) fn pod(labels: Marks<'_>, annotations: Marks<'_>) -> Value {
    json!({
        "metadata": {
            "generateName": "web-",
            "labels": object(labels),
            "annotations": object(annotations),
        },
        "spec": {"containers": [{"name": "web", "image": "example.com/web"}]},
    })
}

impl Lab {
    /// Creates a pod. What was stored, or the refusal.
    pub(crate) async fn create_pod(&self, namespace: &str, pod: &Value) -> Tried {
        self.post_pod(namespace, pod, "").await
    }

    /// The same as a dry run: the API server asks every webhook and stores nothing.
    pub(crate) async fn try_pod(&self, namespace: &str, pod: &Value) -> Tried {
        self.post_pod(namespace, pod, "?dryRun=All").await
    }

    /// What the injectors of this cluster do to a pod that is created there, by a dry run.
    ///
    /// In a namespace that meshgate guards, its refusal is the answer.
    pub(crate) async fn injection(
        &self,
        namespace: &str,
        pod: &Value,
    ) -> Result<Injection, Status> {
        let made = self.try_pod(namespace, pod).await?;
        Ok(Injection::between(pod, &made))
    }

    async fn post_pod(&self, namespace: &str, pod: &Value, how: &str) -> Tried {
        let path = format!("/api/v1/namespaces/{namespace}/pods{how}");
        match self.create(&path, pod).await {
            Ok(made) => Ok(made),
            Err(Error::Api(status)) => Err(*status),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Waits until a dry run is refused with all of these words; returns the refusal.
    pub(crate) async fn refuses(&self, namespace: &str, pod: &Value, words: &[&str]) -> Status {
        let says = |text: &str| words.iter().all(|word| text.contains(word));
        let is_so = |answer: &Tried| matches!(answer, Err(status) if says(&status.message));
        let what = format!("a refusal with {words:?}");
        let answer = self.until((namespace, pod), &what, is_so).await;
        answer.unwrap_err()
    }

    /// Waits until a dry run is admitted; returns what would be stored.
    pub(crate) async fn admits(&self, namespace: &str, pod: &Value) -> Value {
        let answer = self.until((namespace, pod), "admitted", Result::is_ok);
        answer.await.unwrap()
    }

    /// Waits until a dry run is admitted with this sidecar put into it; returns what was put.
    pub(crate) async fn injects(&self, namespace: &str, pod: &Value, sidecar: &str) -> Injection {
        let has = |injection: &Injection| {
            injection.containers.contains(sidecar) || injection.native.contains(sidecar)
        };
        let is_so =
            |answer: &Tried| matches!(answer, Ok(made) if has(&Injection::between(pod, made)));
        let what = format!("injected with {sidecar}");
        let answer = self.until((namespace, pod), &what, is_so).await;
        Injection::between(pod, &answer.unwrap())
    }

    async fn until(
        &self,
        (namespace, pod): (&str, &Value),
        what: &str,
        is_so: impl Fn(&Tried) -> bool,
    ) -> Tried {
        let begin = Instant::now();
        loop {
            let answer = self.try_pod(namespace, pod).await;
            if is_so(&answer) {
                return answer;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "in {namespace}: not {what}, but {answer:?}"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }
}
