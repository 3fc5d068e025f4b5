//! Pods in manifests: a pod itself, the template of whatever makes pods, the object of a review.

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// One pod to explain.
#[derive(Debug)]
pub(super) struct Subject {
    /// Kind of the object it was found in, `Deployment`.
    pub(super) kind: String,
    /// Name of that object.
    pub(super) name: String,
    /// The namespace the pod would be in.
    pub(super) namespace: String,
    /// File and line.
    pub(super) origin: String,
    /// True unless it is a pod itself.
    pub(super) is_template: bool,
    /// Keys of labels on the object around a template that the template lacks.
    pub(super) owner_labels: Vec<String>,
    /// The same of annotations.
    pub(super) owner_annotations: Vec<String>,
    /// Groups of the user who asks, where a review says it.
    pub(super) groups: Vec<String>,
    /// The pod's JSON.
    pub(super) pod: String,
}

/// Where a pod template may be: of workloads, of a CronJob, of a PodTemplate.
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
        let namespace = text(value, "/metadata/namespace");
        let namespace = if namespace.is_empty() {
            default_namespace
        } else {
            namespace
        }
        .to_owned();
        let name = name(value);
        let subject = |pod: &Value, is_template| Self {
            kind: kind.to_owned(),
            name: name.clone(),
            namespace: namespace.clone(),
            origin: origin.to_owned(),
            is_template,
            owner_labels: Vec::new(),
            owner_annotations: Vec::new(),
            groups: Vec::new(),
            pod: pod.to_string(),
        };
        if kind == "Pod" {
            return Ok(Some(subject(value, false)));
        }
        let mut templates = TEMPLATES.iter().filter_map(|path| value.pointer(path));
        let template = templates.find(|template| template.pointer("/spec/containers").is_some());
        Ok(template.map(|template| Self {
            owner_labels: only_on(value, template, "/metadata/labels"),
            owner_annotations: only_on(value, template, "/metadata/annotations"),
            ..subject(&from_template(template, value, kind, &name), true)
        }))
    }

    fn of_review(value: &Value, origin: &str) -> anyhow::Result<Self> {
        let request = value
            .get("request")
            .with_context(|| format!("{origin}: no request"))?;
        let subresource = text(request, "/subResource");
        if (
            text(request, "/operation"),
            text(request, "/resource/resource"),
            subresource,
        ) != ("CREATE", "pods", "")
        {
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
            is_template: false,
            owner_labels: Vec::new(),
            owner_annotations: Vec::new(),
            groups: groups.map(str::to_owned).collect(),
            pod: pod.to_string(),
        })
    }
}

/// The pod that a controller would make of a template: with an owner that tries again.
fn from_template(template: &Value, owner: &Value, kind: &str, name: &str) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}});
    for part in ["metadata", "spec"] {
        if let Some(value) = template.get(part).filter(|value| value.is_object()) {
            pod[part] = value.clone();
        }
    }
    let name = if name.is_empty() { "pod" } else { name };
    pod["metadata"]["generateName"] = format!("{name}-").into();
    let version = text(owner, "/apiVersion");
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": version, "kind": kind, "name": name, "controller": true}]);
    pod
}

/// Keys of a map that the owner has and the template has not.
fn only_on(owner: &Value, template: &Value, path: &str) -> Vec<String> {
    let keys = owner
        .pointer(path)
        .and_then(Value::as_object)
        .map(|map| map.keys().cloned());
    let is_there = |key: &String| {
        template
            .pointer(path)
            .is_some_and(|map| map.get(key).is_some())
    };
    keys.into_iter()
        .flatten()
        .filter(|key| !is_there(key))
        .collect()
}

fn name(value: &Value) -> String {
    match text(value, "/metadata/name") {
        "" => text(value, "/metadata/generateName").to_owned(),
        name => name.to_owned(),
    }
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
