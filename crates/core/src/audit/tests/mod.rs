//! Every state and cause, each by the smallest pod that has it; and that no verdict differs from the check's.

mod property;

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
fn bare_pods_and_the_first_cause_that_fits() {
    let plain = Scene::default;
    let native = json!([{"name": "linkerd-proxy", "image": "p:1"}, {"name": "linkerd-init"}]);
    let app = json!([{"name": "app"}]);
    let placeholder = json!([{"name": "istio-proxy", "image": "auto"}]);
    let no_init = json!([{"name": "linkerd-proxy", "image": "p:1"}]);
    let mark = marked(&json!({"meshgate.io/admitted": "consul,linkerd"}));
    let suspended = |note, at| Scene {
        suspended: Some((note, at)),
        ..Scene::default()
    };
    let soon = "jane: INC-1; until=2026-03-02T18:00:00Z";
    let later = "jane: INC-1; until=2026-03-04T10:10:00Z";
    let maybe = marked(&json!({"linkerd.io/inject": "maybe"}));
    let no = marked(&json!({"linkerd.io/inject": "disabled"}));
    let since = |times: &[&str]| {
        let fields: Vec<Value> = times.iter().map(|at| managed(at)).collect();
        Scene::default().namespace(&json!({"metadata": {"managedFields": fields}}))
    };
    let forbidding = Scene {
        injectors: "- preset: linkerd\n  optOut: forbid\n",
        ..Scene::default()
    };
    let limited = Scene {
        injectors: "- preset: linkerd\n  injected: [{sidecar: linkerd-proxy, images: [cr.l5d.io/linkerd/]}]\n",
        ..Scene::default()
    };
    let warning = Scene {
        injectors: "- preset: linkerd\n  mode: warn\n",
        ..Scene::default()
    };
    for (case, scene, expected) in [
        (
            37,
            plain().of_tag().containers(&placeholder, &json!([])),
            "placeholderImage",
        ),
        (2, plain().containers(&no_init, &json!([])), "initMissing"),
        (
            36,
            plain().containers(&app, &native),
            "sidecarNotRestartable",
        ),
        (38, limited.clone().injected(), "sidecarImage"),
        (23, plain().pod(&mark), "markedButBare"),
        // What is wrong with the containers comes first.
        (
            37,
            plain().pod(&mark).containers(&no_init, &json!([])),
            "initMissing",
        ),
        (96, suspended(soon, None), "enforcementSuspended"),
        (96, suspended(later, None), "unknown"),
        (96, suspended(later, Some(BEFORE)), "enforcementSuspended"),
        (96, suspended(soon, Some(AFTER)), "unknown"),
        (
            96,
            suspended(
                "jane: INC-1; until=2026-03-02T18:00:00Z; injector=vault",
                None,
            ),
            "unknown",
        ),
        (96, suspended(soon, None).pod(&mark), "markedButBare"),
        (25, plain().pod(&maybe), "invalidValue"),
        (
            96,
            suspended(soon, None).pod(&maybe),
            "enforcementSuspended",
        ),
        (26, forbidding.pod(&no), "optOutForbidden"),
        (88, since(&[AFTER]), "olderThanRequirement"),
        (88, since(&[AFTER, BEFORE]), "unknown"),
        (88, since(&[CREATED]), "unknown"),
        (
            88,
            since(&[AFTER]).pod(&json!({"metadata": {"creationTimestamp": null}})),
            "unknown",
        ),
        (
            76,
            Scene {
                armed: Armed::Never,
                ..plain()
            },
            "notArmed",
        ),
        (
            76,
            Scene {
                armed: Armed::NotBefore(time(AFTER)),
                ..plain()
            },
            "notArmed",
        ),
        (
            88,
            Scene {
                armed: Armed::Never,
                ..since(&[AFTER])
            },
            "olderThanRequirement",
        ),
        (
            76,
            Scene {
                armed: Armed::Unknown,
                ..plain()
            },
            "unknown",
        ),
        (93, warning.clone(), "modeWarn"),
        (
            93,
            Scene {
                armed: Armed::Never,
                ..warning
            },
            "notArmed",
        ),
        (93, plain(), "unknown"),
        // A Pending pod counts as well, and one whose phase nobody knows.
        (
            37,
            plain().pod(&json!({"status": {"phase": "Pending"}})),
            "unknown",
        ),
        (37, plain().pod(&json!({"status": null})), "unknown"),
    ] {
        let expected = format!("bare {expected}");
        let words = scene.words();
        let found: Vec<_> = words
            .iter()
            .filter_map(|word| word.split_once(' '))
            .collect();
        assert!(
            matches!(found.as_slice(), [(_, found)] if *found == expected),
            "case {case}: {words:?} {expected}: {}",
            scene.pod
        );
    }
}

#[test]
fn other_states() {
    let plain = Scene::default;
    let host = json!({"spec": {"hostNetwork": true}});
    let windows = json!({"spec": {"os": {"name": "windows"}}});
    let mirror = marked(&json!({"kubernetes.io/config.mirror": "0a1b"}));
    let of_node = json!({"metadata": {"ownerReferences": [{"kind": "Node", "name": "n", "controller": true}]}});
    let named = |name: &str| json!({"metadata": {"name": name}});
    let home = plain().namespace(&named("meshgate-system"));
    let unread = Scene {
        is_read: false,
        injectors: "- preset: linkerd\n- preset: vault\n- {preset: dapr, mode: disabled}\n- {preset: kuma, namespaces: {only: [other]}}\n",
        ..plain()
    };
    let secret = marked(&json!({"vault.hashicorp.com/agent-inject": "true"}));
    let broken = json!({"spec": {"containers": 5}});
    let one = |word: &str| vec![word.to_owned()];
    let none = Vec::new;
    for (case, scene, expected) in [
        (
            2,
            plain().injected(),
            one("linkerd injected sidecarPresent"),
        ),
        (
            26,
            plain().pod(&marked(&json!({"linkerd.io/inject": "disabled"}))),
            one("linkerd optedOut podOptOut"),
        ),
        (32, plain().pod(&host), one("linkerd exempt hostNetwork")),
        (34, plain().pod(&windows), one("linkerd exempt osWindows")),
        (
            35,
            plain().pod(&mirror).pod(&of_node),
            one("linkerd exempt mirrorPod"),
        ),
        // The annotation alone exempts no pod.
        (35, plain().pod(&mirror), one("linkerd bare unknown")),
        (73, home, one("linkerd exempt excludedNamespace")),
        // Nothing asks for these, or they are none of its business.
        (
            39,
            plain().namespace(&json!({"metadata": {"annotations": null}})),
            none(),
        ),
        (
            32,
            plain()
                .namespace(&json!({"metadata": {"annotations": null}}))
                .pod(&host),
            none(),
        ),
        (72, plain().namespace(&named("kube-system")), none()),
        (
            26,
            plain()
                .namespace(&json!({"metadata": {"annotations": null}}))
                .pod(&marked(&json!({"linkerd.io/inject": "disabled"}))),
            none(),
        ),
        (
            89,
            plain().pod(&json!({"status": {"phase": "Succeeded"}})),
            none(),
        ),
        (
            89,
            plain().pod(&json!({"status": {"phase": "Failed"}})),
            none(),
        ),
        (
            89,
            plain().pod(&json!({"metadata": {"deletionTimestamp": CREATED}})),
            none(),
        ),
        (
            21,
            unread.clone(),
            vec![
                "linkerd unknown namespaceUnknown".to_owned(),
                "vault unknown namespaceUnknown".to_owned(),
            ],
        ),
        (
            32,
            unread.clone().pod(&host).pod(&secret),
            one("vault exempt hostNetwork"),
        ),
        (
            8,
            plain().pod(&broken),
            one("linkerd unknown unreadableObject"),
        ),
        (
            8,
            plain().namespace(&named("kube-system")).pod(&broken),
            none(),
        ),
        // A value that is no longer valid takes no sidecar away.
        (
            25,
            plain()
                .injected()
                .pod(&marked(&json!({"linkerd.io/inject": "maybe"}))),
            one("linkerd injected sidecarPresent"),
        ),
    ] {
        assert_eq!(scene.words(), expected, "case {case}: {}", scene.pod);
    }
}

#[test]
fn sidecars_of_another_revision() {
    let fresh = "istio injected sidecarPresent";
    let stale = "istio stale otherRevision";
    let status =
        |revision: &str| format!(r#"{{"containers":["istio-proxy"],"revision":"{revision}"}}"#);
    for (annotations, expected) in [
        (json!({"istio.io/rev": "1-30"}), fresh),
        (json!({"istio.io/rev": "1-29"}), stale),
        (json!({"sidecar.istio.io/status": status("1-29")}), stale),
        (json!({"sidecar.istio.io/status": status("1-30")}), fresh),
        (
            json!({"istio.io/rev": "1-30", "sidecar.istio.io/status": status("1-29")}),
            fresh,
        ),
        (json!({"sidecar.istio.io/status": "{}"}), fresh),
        (json!({"sidecar.istio.io/status": "{broken"}), fresh),
        (json!({}), fresh),
    ] {
        let scene = Scene::default().of_tag().pod(&marked(&annotations));
        assert_eq!(scene.words(), [expected], "case 31: {annotations}");
    }
    let old = Scene::default()
        .of_tag()
        .pod(&marked(&json!({"istio.io/rev": "1-29"})));
    let labelled = |rev: &str| {
        old.clone()
            .namespace(&json!({"metadata": {"labels": {"istio.io/rev": rev}}}))
    };
    assert_eq!(labelled("1-29").words(), [fresh]);
    // Which copy injects now is not known.
    assert_eq!(labelled("gone").words(), [fresh]);
    assert_eq!(
        Scene {
            webhooks: None,
            ..old.clone()
        }
        .words(),
        [fresh]
    );
    let message = old.message();
    assert_eq!(
        message,
        "Namespace orders requires istio (label istio.io/rev=stable) of revision 1-30, but revision 1-29 has \
         injected the pod; restart its owner"
    );
}

#[test]
fn sidecars_that_are_too_old() {
    let service = ServiceName {
        namespace: "linkerd".to_owned(),
        name: "linkerd-proxy-injector".to_owned(),
    };
    let scene = |injectors: &'static str, newer: &str| Scene {
        injectors,
        versions: [(service.clone(), Version::of_image(newer).unwrap())].into(),
        ..Scene::default()
    };
    let fresh = "linkerd injected sidecarPresent";
    let stale = "linkerd stale olderProxy";
    let two = "- {preset: linkerd, staleness: 2}\n";
    for (injectors, newer, expected) in [
        (two, "a:edge-24.5.3", fresh),
        (two, "a:edge-24.6.1", fresh),
        (two, "a:edge-24.7.1", stale),
        (two, "a:edge-25.1.1", stale),
        (two, "a:edge-24.1.1", fresh),
        ("- preset: linkerd\n", "a:edge-24.7.1", fresh),
    ] {
        assert_eq!(
            scene(injectors, newer).injected().words(),
            [expected],
            "{newer}"
        );
    }
    let unknown = Scene {
        versions: BTreeMap::new(),
        ..scene(two, "a:1.1")
    };
    assert_eq!(unknown.injected().words(), [fresh]);
    assert_eq!(
        scene(two, "a:edge-24.7.1").injected().message(),
        "the sidecar of linkerd has version 24.5, but linkerd has version 24.7; restart its owner"
    );
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
    let alone = never
        .clone()
        .pod(&json!({"metadata": {"ownerReferences": null}}));
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
