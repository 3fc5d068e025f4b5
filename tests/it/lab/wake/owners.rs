//! Owners of pods of each kind that meshgate wakes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::lab::harness::Lab;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    ReplicationController,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::ReplicationController,
    ];

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::ReplicaSet => "replicasets",
            Self::StatefulSet => "statefulsets",
            Self::DaemonSet => "daemonsets",
            Self::Job => "jobs",
            Self::ReplicationController => "replicationcontrollers",
        }
    }

    /// Below which its lists are, and the version.
    fn api(self) -> (&'static str, &'static str) {
        match self {
            Self::ReplicationController => ("/api/v1", "v1"),
            Self::Job => ("/apis/batch/v1", "batch/v1"),
            Self::ReplicaSet | Self::StatefulSet | Self::DaemonSet => ("/apis/apps/v1", "apps/v1"),
        }
    }

    pub(crate) fn list(self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.api().0, self.plural())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

impl Owner {
    pub(crate) fn new(kind: Kind, name: &str) -> Self {
        let name = name.to_owned();
        Self { kind, name }
    }

    pub(crate) fn path(&self, namespace: &str) -> String {
        format!("{}/{}", self.kind.list(namespace), self.name)
    }

    /// Two pods, or one on each Node.
    pub(crate) fn manifest(&self) -> Value {
        let labels = json!({"app": self.name});
        let restart = if self.kind == Kind::Job {
            "Never"
        } else {
            "Always"
        };
        let mut template = json!({
            "metadata": {"labels": labels},
            "spec": {
                "restartPolicy": restart,
                "containers": [{"name": "web", "image": "example.com/web"}],
            },
        });
        let matching = json!({"matchLabels": labels});
        let spec = match self.kind {
            Kind::ReplicaSet => json!({"replicas": 2, "selector": matching, "template": template}),
            Kind::StatefulSet => {
                json!({"replicas": 2, "serviceName": "web", "selector": matching, "template": template})
            }
            Kind::DaemonSet => json!({"selector": matching, "template": template}),
            Kind::Job => {
                template["metadata"] = json!({});
                json!({"parallelism": 2, "completions": 2, "template": template})
            }
            Kind::ReplicationController => {
                json!({"replicas": 2, "selector": labels, "template": template})
            }
        };
        json!({
            "apiVersion": self.kind.api().1,
            "kind": format!("{:?}", self.kind),
            "metadata": {"name": self.name},
            "spec": spec,
        })
    }
}

/// All pods of a namespace.
pub(crate) async fn pods(lab: &Lab, namespace: &str) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let list = lab.get(&path).await.unwrap();
    list["items"].as_array().unwrap().clone()
}

/// The names of those that came without a sidecar.
pub(crate) async fn bare(lab: &Lab, namespace: &str) -> Vec<String> {
    let is_bare = |pod: &Value| {
        let mut containers = pod["spec"]["containers"].as_array().unwrap().iter();
        !containers.any(|one| one["name"] == "linkerd-proxy")
    };
    let all = pods(lab, namespace).await.into_iter().filter(is_bare);
    all.map(|pod| pod["metadata"]["name"].to_string()).collect()
}

/// How many of these owners meshgate has woken.
pub(crate) async fn woken(lab: &Lab, namespace: &str, owners: &[Owner]) -> usize {
    let mut found = BTreeSet::new();
    for kind in Kind::ALL {
        let list = lab.get(&kind.list(namespace)).await.unwrap();
        for object in list["items"].as_array().unwrap() {
            if !object["metadata"]["annotations"]["meshgate.io/woken"].is_null() {
                found.insert(object["metadata"]["name"].as_str().unwrap().to_owned());
            }
        }
    }
    owners
        .iter()
        .filter(|owner| found.contains(&owner.name))
        .count()
}
