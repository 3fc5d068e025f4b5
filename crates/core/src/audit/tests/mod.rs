//! Every state and cause, each by the smallest pod that has it; and that no verdict differs from the check's.

mod bare;
mod others;
mod property;
mod stale;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::break_glass::Note;
use crate::decision::tests::{injectors, namespace};
use crate::injector::Injectors;
use crate::injector::profile::ServiceName;
use crate::readiness::installation::WebhookConfiguration;
use crate::view::metadata::MetadataView;

use super::pod::RunningPod;
use super::version::Version;
use super::{Armed, Finding, Since, Surroundings, judge, written};

/// When the pods of this table were created.
const CREATED: &str = "2026-03-02T10:00:00Z";
const BEFORE: &str = "2026-03-01T10:00:00Z";
const AFTER: &str = "2026-03-03T10:00:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A pod in `orders`, or in another namespace, and what is known around it.
#[derive(Clone)]
struct Scene {
    injectors: &'static str,
    namespace: Value,
    is_read: bool,
    pod: Value,
    armed: Armed,
    suspended: Option<(&'static str, Option<&'static str>)>,
    webhooks: Option<BTreeMap<String, WebhookConfiguration>>,
    versions: BTreeMap<ServiceName, Version>,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            injectors: "- preset: linkerd\n",
            namespace: json!({"metadata": {"name": "orders", "annotations": {"linkerd.io/inject": "enabled"}}}),
            is_read: true,
            pod: json!({
                "metadata": {
                    "name": "shop-6c9f-x", "namespace": "orders", "creationTimestamp": CREATED,
                    "ownerReferences": [{"kind": "ReplicaSet", "name": "shop-6c9f", "controller": true}],
                },
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
                "status": {"phase": "Running"},
            }),
            armed: Armed::NotBefore(time(BEFORE)),
            suspended: None,
            webhooks: None,
            versions: BTreeMap::new(),
        }
    }
}

impl Scene {
    /// Lays a JSON merge patch over the pod.
    fn pod(mut self, patch: &Value) -> Self {
        json_patch::merge(&mut self.pod, patch);
        self
    }

    fn namespace(mut self, patch: &Value) -> Self {
        json_patch::merge(&mut self.namespace, patch);
        self
    }

    fn containers(self, containers: &Value, inits: &Value) -> Self {
        self.pod(&json!({"spec": {"containers": containers, "initContainers": inits}}))
    }

    fn injected(self) -> Self {
        let app = json!([{"name": "app"}, {"name": "linkerd-proxy", "image": "proxy:edge-24.5.1"}]);
        self.containers(&app, &json!([{"name": "linkerd-init"}]))
    }

    /// Istio in mode sidecar, by a tag that stands for a revision.
    fn of_tag(self) -> Self {
        let configuration = |labels: &[(&str, &str)]| WebhookConfiguration {
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..WebhookConfiguration::default()
        };
        let known = [
            (
                "tag",
                configuration(&[("istio.io/tag", "stable"), ("istio.io/rev", "1-30")]),
            ),
            ("revision", configuration(&[("istio.io/rev", "1-29")])),
        ];
        let marks = json!({"labels": {"istio.io/rev": "stable"}, "annotations": null});
        let containers =
            json!([{"name": "app"}, {"name": "istio-proxy", "image": "proxyv2:1.29.1"}]);
        Self {
            injectors: "- preset: istio\n",
            webhooks: Some(known.map(|(name, own)| (name.to_owned(), own)).into()),
            ..self
        }
        .namespace(&json!({ "metadata": marks }))
        .containers(&containers, &json!([{"name": "istio-init"}]))
    }

    fn look<T>(&self, look: impl FnOnce(&Injectors, &[Finding]) -> T) -> T {
        let all = injectors(self.injectors).excluding("meshgate-system");
        let metadata = &self.namespace["metadata"];
        let map = |key: &str| -> Vec<(&str, &str)> {
            let map = metadata[key].as_object().into_iter().flatten();
            map.map(|(key, value)| (key.as_str(), value.as_str().unwrap()))
                .collect()
        };
        let name = metadata["name"].as_str().unwrap();
        let view = namespace(name, &map("labels"), &map("annotations"), &all);
        let text = self.namespace.to_string();
        let since = Since::of(&MetadataView::read(&text).unwrap(), all.keys());
        let pod = self.pod.to_string();
        let pod = RunningPod::read(&pod, all.keys()).unwrap();
        let note = self
            .suspended
            .map(|(note, at)| (Note::parse(note).unwrap(), at.map(time)));
        let around = Surroundings {
            injectors: &all,
            known: self.webhooks.as_ref(),
            armed: self.armed,
            suspension: note.as_ref().map(|(note, at)| (note, *at)),
            versions: &self.versions,
        };
        let known = self.is_read.then_some((&view, &since));
        look(&all, &judge(&pod, name, known, &around))
    }

    /// `INJECTOR STATE CAUSE` of each finding.
    fn words(&self) -> Vec<String> {
        self.look(|all, findings| {
            let words = findings.iter().map(|one| {
                let name = &all.get(one.injector).unwrap().profile.name;
                format!("{name} {} {}", one.state.as_str(), one.cause.as_str())
            });
            words.collect()
        })
    }

    fn message(&self) -> String {
        self.look(|_, findings| findings[0].message.clone())
    }
}

fn marked(annotations: &Value) -> Value {
    json!({"metadata": {"annotations": annotations}})
}

/// Written by one client at one time, as `kubectl get --show-managed-fields` shows it.
fn managed(time: &str) -> Value {
    let annotations = json!({"f:linkerd.io/inject": {}, ".": {}});
    let fields = json!({"f:metadata": {"f:annotations": annotations}});
    json!({"manager": "kubectl-annotate", "operation": "Update", "time": time, "fieldsV1": fields})
}

#[test]
fn a_sentence_says_the_fact_the_cause_and_what_to_do() {
    let bare = "Namespace orders requires linkerd (annotation linkerd.io/inject=enabled) but the pod has no container \
                linkerd-proxy (looked for in containers, and in initContainers with restartPolicy Always): linkerd's \
                webhook did not add it";
    let never = Scene {
        armed: Armed::Never,
        ..Scene::default()
    };
    let tail = "; meshgate was not armed when the pod was created; restart its owner";
    assert_eq!(never.message(), format!("{bare}{tail}"));
    let alone = never.pod(&json!({"metadata": {"ownerReferences": null}}));
    let absent = Scene {
        webhooks: Some(BTreeMap::new()),
        ..alone
    };
    let tail = "; meshgate was not armed when the pod was created; linkerd is not installed; install linkerd, then \
                create the pod again";
    assert_eq!(absent.message(), format!("{bare}{tail}"));
    for (scene, end) in [
        (
            Scene::default().pod(&marked(&json!({"linkerd.io/inject": "maybe"}))),
            "accepted values are enabled, ingress, disabled; correct the value, then restart its owner",
        ),
        (
            Scene::default().pod(&json!({"spec": {"hostNetwork": true}})),
            "but injectors pass by pods on the host network",
        ),
        (
            Scene {
                is_read: false,
                ..Scene::default()
            },
            "give the Namespace among the files, or grant the right to read it",
        ),
        (
            Scene::default().pod(&marked(&json!({"linkerd.io/inject": "disabled"}))),
            "opts out of linkerd (annotation linkerd.io/inject=disabled)",
        ),
    ] {
        let message = scene.message();
        assert!(message.ends_with(end), "{message}");
    }
}

#[test]
fn a_note_has_the_time_at_which_it_was_written() {
    let object = |key: &str, times: &[&str]| {
        let fields = json!({"f:metadata": {"f:annotations": {format!("f:{key}"): {}}}});
        let fields: Vec<Value> = times
            .iter()
            .map(|at| json!({"time": at, "fieldsV1": fields}))
            .collect();
        json!({"metadata": {"name": "a", "managedFields": fields}}).to_string()
    };
    for (text, expected) in [
        (
            object("meshgate.io/break-glass", &[AFTER, BEFORE]),
            Some(BEFORE),
        ),
        (object("other", &[BEFORE]), None),
        (r#"{"metadata": {"managedFields": 5}}"#.to_owned(), None),
        (
            r#"{"metadata": {"managedFields": [{"time": "today"}]}}"#.to_owned(),
            None,
        ),
    ] {
        let view = MetadataView::read(&text).unwrap();
        let found = written(&view, "meshgate.io/break-glass");
        assert_eq!(found, expected.map(time), "{text}");
    }
}
