//! The registration as a real API server has it: written in order, armed when reached, kept, and
//! taken away again.

pub(super) mod arming;
mod keeping;
mod labels;
mod mirror;
mod restart;
mod rights;

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::version::has_mutating_policies;
use super::harness::{Lab, Options, Outcome, User, within};

/// One injector, which needs the mirror.
pub(super) const CONFIG: &str = "apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
";

pub(super) const LABEL: &str = "meshgate.io/requires.linkerd";
pub(super) const INJECT: &str = "linkerd.io/inject";

/// "Within seconds", on a machine that does much else.
pub(super) const SECONDS: Duration = Duration::from_secs(30);

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/meshgate";

/// A control plane of one's own, as the registration is the cluster's.
pub(super) async fn lab(more: &[&'static str], api_server_flags: &[&str]) -> Lab {
    let only = ["etcd", "kube-apiserver"].iter().chain(more);
    Lab::own(Options {
        only: only.copied().collect(),
        api_server_flags: api_server_flags
            .iter()
            .map(|&flag| flag.to_owned())
            .collect(),
        ..Options::default()
    })
    .await
}

/// The paths of all that is written, in order: the owner, the mirror, the entries, the guard.
pub(super) fn paths() -> Vec<String> {
    let mirror: &[&str] = match has_mutating_policies() {
        true => &[
            "mutatingadmissionpolicies/namespaces.meshgate.io",
            "mutatingadmissionpolicybindings/namespaces.meshgate.io",
            "mutatingadmissionpolicies/in-force.namespaces.meshgate.io",
            "mutatingadmissionpolicybindings/in-force.namespaces.meshgate.io",
        ],
        false => &["mutatingwebhookconfigurations/namespaces.meshgate.io"],
    };
    let of = |rest: &str| format!("{ADMISSION}/{rest}");
    let mut paths = vec![ROLE.to_owned()];
    paths.extend(mirror.iter().map(|path| of(path)));
    paths.extend([
        gate(),
        check(),
        of("validatingadmissionpolicies/guard.meshgate.io"),
        of("validatingadmissionpolicybindings/guard.meshgate.io"),
    ]);
    paths
}

/// How many entries [`CONFIG`] has to arm: those for pods, and the mirror's where it is a webhook.
pub(super) fn entries() -> usize {
    match has_mutating_policies() {
        true => 4,
        false => 5,
    }
}

pub(super) fn gate() -> String {
    format!("{ADMISSION}/mutatingwebhookconfigurations/admission.meshgate.io")
}

pub(super) fn check() -> String {
    format!("{ADMISSION}/validatingwebhookconfigurations/admission.meshgate.io")
}

impl Lab {
    /// `metadata.resourceVersion` of each; `None` for what is not there.
    pub(super) async fn versions(&self, paths: &[String]) -> Vec<Option<u64>> {
        let mut versions = Vec::new();
        for path in paths {
            let object = self.get(path).await;
            versions.push(object.as_ref().map(version));
        }
        versions
    }

    /// The failure policies of the entries for pods, of gate and check.
    pub(super) async fn policies(&self) -> Vec<String> {
        let mut policies = Vec::new();
        for path in [gate(), check()] {
            let object = self.get(&path).await.unwrap_or_default();
            let entries = object["webhooks"].as_array().into_iter().flatten();
            let entries = entries.filter(|entry| entry["name"] != "reach.meshgate.io");
            let text = |entry: &Value| entry["failurePolicy"].as_str().unwrap().to_owned();
            policies.extend(entries.map(text));
        }
        policies
    }

    /// Waits until all entries for pods fail closed.
    pub(super) async fn is_closed(&self) {
        let closed = async || {
            let policies = self.policies().await;
            let all = policies.len() >= 4 && policies.iter().all(|one| one == "Fail");
            all.then_some(())
        };
        within(SECONDS, "all entries are armed", closed).await;
    }

    /// `kubectl patch --type json` of an object by its path.
    pub(super) async fn patch_as(&self, user: User, path: &str, patch: &Value) -> Outcome {
        let mut parts = path.rsplit('/');
        let (name, plural) = (parts.next().unwrap(), parts.next().unwrap());
        let patch = patch.to_string();
        let arguments = ["patch", plural, name, "--type=json", "-p", &patch];
        self.kubectl_as(user, &arguments, "").await
    }

    pub(super) async fn delete_as(&self, user: User, path: &str) -> Outcome {
        let mut parts = path.rsplit('/');
        let (name, plural) = (parts.next().unwrap(), parts.next().unwrap());
        self.kubectl_as(user, &["delete", plural, name, "--wait=false"], "")
            .await
    }

    /// Whether a namespace carries the label.
    pub(super) async fn is_labelled(&self, namespace: &str) -> bool {
        let object = self.get(&format!("/api/v1/namespaces/{namespace}")).await;
        object.is_some_and(|object| object["metadata"]["labels"].get(LABEL).is_some())
    }

    /// Everything of ours that is in the cluster, labels included.
    pub(super) async fn remains(&self) -> Vec<String> {
        let mut found = Vec::new();
        for plural in [
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ] {
            // Not all are served everywhere.
            let list = self
                .get(&format!("{ADMISSION}/{plural}"))
                .await
                .unwrap_or_default();
            let names = list["items"].as_array().into_iter().flatten();
            let names = names.filter_map(|object| object["metadata"]["name"].as_str());
            let ours = names.filter(|name| name.ends_with("meshgate.io"));
            found.extend(ours.map(|name| format!("{plural}/{name}")));
        }
        found.extend(self.get(ROLE).await.map(|_| ROLE.to_owned()));
        let namespaces = self.get("/api/v1/namespaces").await.unwrap();
        for namespace in namespaces["items"].as_array().unwrap() {
            let metadata = &namespace["metadata"];
            let labels = metadata["labels"].to_string();
            // One that is being deleted takes its labels with it.
            if metadata["deletionTimestamp"].is_null() && labels.contains("meshgate.io/") {
                found.push(labels);
            }
        }
        found
    }
}

pub(super) fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap();
    text.parse().unwrap()
}

/// A pod of one container.
pub(super) fn pod(name: &str) -> Value {
    let containers = json!([{"name": "a", "image": "a.test/a"}]);
    let metadata = json!({"name": name});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}})
}
