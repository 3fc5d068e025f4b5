//! Objects of the API server, by their paths.

use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Request;
use kube::Error;
use serde_json::{Map, Value, json};

use super::{Lab, PATIENCE, within};

/// Labels or annotations.
pub(crate) type Marks<'a> = &'a [(&'a str, &'a str)];

impl Lab {
    /// Creates a namespace whose name begins with `name` and is no other test's, and the
    /// ServiceAccount without which no pod is admitted there. Returns its name.
    pub(crate) async fn namespace(
        &self,
        name: &str,
        labels: Marks<'_>,
        annotations: Marks<'_>,
    ) -> String {
        static CREATED: AtomicUsize = AtomicUsize::new(1);
        let name = format!("{name}-{}", CREATED.fetch_add(1, Ordering::Relaxed));
        self.ensure(&name, labels, annotations).await;
        name
    }

    /// Creates a namespace of this very name, where it is missing, and its ServiceAccount.
    pub(crate) async fn ensure_namespace(&self, name: &str) {
        self.ensure(name, &[], &[]).await;
    }

    async fn ensure(&self, name: &str, labels: Marks<'_>, annotations: Marks<'_>) {
        let metadata =
            json!({"name": name, "labels": object(labels), "annotations": object(annotations)});
        let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
        let wanted = [
            ("/api/v1/namespaces", json!({"metadata": metadata})),
            (&accounts, json!({"metadata": {"name": "default"}})),
        ];
        for (path, object) in wanted {
            match self.create(path, &object).await {
                // It is there, or the controller manager was faster.
                Err(Error::Api(status)) if status.code == 409 => {}
                created => drop(created.unwrap()),
            }
        }
    }

    /// Creates a Node that kwok plays, beside `node-1` and `node-2` which are there, and waits
    /// until it is Ready.
    pub(crate) async fn node(&self, name: &str) {
        let room =
            json!({"cpu": "32", "memory": "256Gi", "pods": "250", "ephemeral-storage": "100Gi"});
        let node = json!({
            "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"capacity": room, "allocatable": room},
        });
        self.create("/api/v1/nodes", &node).await.unwrap();
        let path = format!("/api/v1/nodes/{name}");
        let is_ready = async || {
            let node = self.get(&path).await?;
            let conditions = node["status"]["conditions"].as_array()?;
            let mut ready = conditions
                .iter()
                .filter(|condition| condition["type"] == "Ready");
            ready
                .any(|condition| condition["status"] == "True")
                .then_some(())
        };
        within(PATIENCE, "the Node is Ready", is_ready).await;
    }

    /// What is at a path of the API; nothing if it is not found.
    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        match self.try_get(path).await {
            Ok(value) => Some(value),
            Err(Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// As [`Lab::get`], for those who expect failures.
    pub(crate) async fn try_get(&self, path: &str) -> Result<Value, Error> {
        let request = Request::get(path).body(Vec::new()).unwrap();
        self.client().await.request(request).await
    }

    /// Says by a slice of its own that a Service has one endpoint, ready or not. Nothing runs behind
    /// it: slices may not hold the loopback address where everything of a lab is.
    pub(crate) async fn endpoint(&self, namespace: &str, service: &str, is_ready: bool) {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{service}-lab"),
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.7"], "conditions": {"ready": is_ready}}],
        });
        self.apply(namespace, &slice.to_string()).await;
    }

    /// Posts an object to the path of its kind.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, Error> {
        let request = Request::post(path)
            .header("Content-Type", "application/json")
            .body(object.to_string().into_bytes())
            .unwrap();
        self.client().await.request(request).await
    }

    /// Has the ReplicaSets of a namespace that are short of pods tried again: a controller that was refused has
    /// backed off.
    pub(crate) async fn poke(&self, namespace: &str) {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
        let list = self.get(&path).await.unwrap();
        for set in list["items"].as_array().unwrap() {
            if set["status"]["replicas"] != set["spec"]["replicas"] {
                let name = set["metadata"]["name"].as_str().unwrap();
                let version = &set["metadata"]["resourceVersion"];
                let poke = json!({"metadata": {"annotations": {"lab/poked": version}}});
                let path = format!("{path}/{name}");
                self.merge(&path, &poke).await.unwrap();
            }
        }
    }

    /// Merges this into the object at a path.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        let request = Request::patch(path)
            .header("Content-Type", "application/merge-patch+json")
            .body(patch.to_string().into_bytes())
            .unwrap();
        self.client().await.request(request).await
    }

    /// Deletes the object at a path, if there is one.
    pub(crate) async fn delete(&self, path: &str) {
        let request = Request::delete(path).body(Vec::new()).unwrap();
        match self.client().await.request::<Value>(request).await {
            Err(Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.unwrap()),
        }
    }
}

pub(super) fn object(marks: Marks<'_>) -> Value {
    let pairs = marks.iter();
    let pairs = pairs.map(|(key, value)| ((*key).to_owned(), json!(value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}
