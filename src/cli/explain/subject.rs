//! Pods in manifests: a pod itself, the pod template of a workload, the object of a review.

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::{Value, json};

/// One pod to explain. The answer repeats what users know it by.
#[derive(Debug, Default, Serialize)]
pub(super) struct Subject {
    /// Kind of the object that holds the pod, `Deployment`.
    pub(super) kind: String,
    pub(super) name: String,
    /// The namespace the pod would be in.
    pub(super) namespace: String,
    /// File and line.
    pub(super) origin: String,
    /// False for a pod that stands in the file itself.
    #[serde(rename = "template")]
    pub(super) is_template: bool,
    /// Keys of labels on the object around a template that the template lacks.
    #[serde(skip)]
    pub(super) owner_labels: Vec<String>,
    /// The same for annotations.
    #[serde(skip)]
    pub(super) owner_annotations: Vec<String>,
    /// Groups of the user who creates the pod; only a review states them.
    #[serde(skip)]
    pub(super) groups: Vec<String>,
    /// The pod as JSON.
    #[serde(skip)]
    pub(super) pod: String,
}

/// Where a pod template may be: in workloads, in a CronJob, in a PodTemplate.
const TEMPLATES: [&str; 3] = [
    "/spec/template",
    "/spec/jobTemplate/spec/template",
    "/template",
];

impl Subject {
    /// The pod in an object, `None` if it has none.
    ///
    /// # Errors
    /// A review that does not create a pod.
    pub(super) fn of(
        kind: &str,
        value: &Value,
        origin: &str,
        default_namespace: &str,
    ) -> anyhow::Result<Option<Self>> {
        if kind == "AdmissionReview" {
            return Self::of_review(value, origin).map(Some);
        }
        let namespace = match text(value, "/metadata/namespace") {
            "" => default_namespace,
            own => own,
        };
        let subject = Self {
            kind: kind.to_owned(),
            name: name(value),
            namespace: namespace.to_owned(),
            origin: origin.to_owned(),
            ..Self::default()
        };
        if kind == "Pod" {
            let pod = value.to_string();
            return Ok(Some(Self { pod, ..subject }));
        }
        let mut templates = TEMPLATES.iter().filter_map(|path| value.pointer(path));
        let template = templates.find(|template| template.pointer("/spec/containers").is_some());
        Ok(template.map(|template| Self {
            is_template: true,
            owner_labels: only_on(value, template, "/metadata/labels"),
            owner_annotations: only_on(value, template, "/metadata/annotations"),
            pod: subject.pod_of(template, text(value, "/apiVersion")),
            ..subject
        }))
    }

    fn of_review(value: &Value, origin: &str) -> anyhow::Result<Self> {
        let request = value.get("request");
        let request = request.with_context(|| format!("{origin}: no request"))?;
        let asked = ["/operation", "/resource/resource", "/subResource"];
        if asked.map(|path| text(request, path)) != ["CREATE", "pods", ""] {
            bail!("{origin}: the review does not create a pod, and meshgate allows all else");
        }
        let pod = request.get("object").filter(|object| object.is_object());
        let pod = pod.with_context(|| format!("{origin}: the review has no object"))?;
        let groups = request
            .pointer("/userInfo/groups")
            .and_then(Value::as_array);
        let groups = groups.into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            kind: "Pod".to_owned(),
            name: name(pod),
            namespace: text(request, "/namespace").to_owned(),
            origin: origin.to_owned(),
            groups: groups.map(str::to_owned).collect(),
            pod: pod.to_string(),
            ..Self::default()
        })
    }

    /// The pod that a controller would make from a template: its owner tries again.
    fn pod_of(&self, template: &Value, api_version: &str) -> String {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}});
        for part in ["metadata", "spec"] {
            if let Some(value) = template.get(part).filter(|value| value.is_object()) {
                pod[part] = value.clone();
            }
        }
        let name = match self.name.as_str() {
            "" => "pod",
            name => name,
        };
        pod["metadata"]["generateName"] = format!("{name}-").into();
        pod["metadata"]["ownerReferences"] = json!([
            {"apiVersion": api_version, "kind": self.kind, "name": name, "controller": true},
        ]);
        pod.to_string()
    }
}

/// Keys of a map that the owner has and the template has not.
fn only_on(owner: &Value, template: &Value, path: &str) -> Vec<String> {
    let keys = |value: &Value| value.pointer(path).and_then(Value::as_object).cloned();
    let there = keys(template).unwrap_or_default();
    let own = keys(owner).unwrap_or_default().into_iter();
    own.map(|(key, _)| key)
        .filter(|key| !there.contains_key(key))
        .collect()
}

fn name(value: &Value) -> String {
    match text(value, "/metadata/name") {
        "" => text(value, "/metadata/generateName").to_owned(),
        name => name.to_owned(),
    }
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    let text = value.pointer(path).and_then(Value::as_str);
    text.unwrap_or_default()
}
