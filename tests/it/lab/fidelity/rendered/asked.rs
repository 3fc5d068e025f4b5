//! A webhook server that admits everything, and remembers who asked it about which pod.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::IntoResponse;
use meshgate_core::decision::requirement;
use meshgate_core::injector::Injectors;
use meshgate_core::injector::profile::Mode;
use meshgate_core::render::{Client, FailurePolicy, Settings, client_config, webhooks};
use meshgate_core::view::pod::PodView;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::lab::fidelity::pairs::{Namespace, Pod};
use crate::lab::fidelity::pool::{delete, try_pod};
use crate::lab::fidelity::{OWN, injectors};
use crate::lab::harness::{Lab, PATIENCE, within};
use crate::support::server::TestServer;

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    hook: String,
    configuration: String,
    entry: String,
}

/// Per pod, by its name.
type Calls = Arc<Mutex<HashMap<String, Vec<Call>>>>;

/// The running server.
pub(super) struct Recorder {
    server: TestServer,
    calls: Calls,
}

#[derive(Deserialize)]
struct Review {
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    name: String,
}

async fn admit(State(calls): State<Calls>, uri: Uri, body: Bytes) -> impl IntoResponse {
    let Review { request } = serde_json::from_slice(&body).unwrap();
    // The path that is rendered, which may name the entry too; what the recorder adds comes last.
    let steps: Vec<&str> = uri.path().split('/').skip(1).collect();
    let [hook, .., configuration, entry] = steps.as_slice() else {
        panic!("{uri}");
    };
    let call = Call {
        hook: (*hook).to_owned(),
        configuration: (*configuration).to_owned(),
        entry: (*entry).to_owned(),
    };
    calls.lock().entry(request.name).or_default().push(call);
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request.uid, "allowed": true},
    });
    (
        [(header::CONTENT_TYPE, "application/json")],
        answer.to_string(),
    )
}

/// Injectors whose registration is tried, under a name that tells it from the others.
pub(super) struct Configuration {
    pub(super) name: &'static str,
    pub(super) injectors: Injectors,
}

const KINDS: [(&str, &str); 2] = [
    (
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
    (
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
];

impl Recorder {
    pub(super) async fn start() -> Self {
        let calls = Calls::default();
        let router = Router::new().fallback(admit).with_state(Arc::clone(&calls));
        Self {
            server: TestServer::start(router).await,
            calls,
        }
    }

    /// As for a server of meshgate, armed.
    pub(super) fn settings(&self) -> Settings {
        let url = format!("https://{}", self.server.addr);
        Settings {
            ca_bundle: Some(self.server.ca_pem.clone()),
            failure_policy: FailurePolicy::Fail,
            ..Settings::new(Client::Url(url), OWN)
        }
    }

    /// Writes what is rendered, as it is but for its name, the URLs, which tell the entries apart,
    /// and more time than a busy machine takes. Returns once the API server goes by it.
    pub(super) async fn register(&self, lab: &Lab, configurations: &[Configuration]) {
        for configuration in configurations {
            let rendered = webhooks::objects(&configuration.injectors, &self.settings());
            assert_eq!(rendered.notes, []);
            assert_eq!(rendered.objects.len(), KINDS.len());
            for object in rendered.objects {
                self.write(lab, configuration.name, object).await;
            }
        }
        self.is_seen(lab).await;
    }

    /// Takes them away again.
    pub(super) async fn unregister(&self, lab: &Lab, configurations: &[Configuration]) {
        let names = configurations.iter().map(|one| one.name);
        for name in names.chain(["canary"]) {
            for (_, plural) in KINDS {
                delete(lab, &format!("{}/{}", group(plural), full(name))).await;
            }
        }
    }

    async fn write(&self, lab: &Lab, name: &str, mut object: Value) {
        object["metadata"]["name"] = json!(full(name));
        for entry in object["webhooks"].as_array_mut().unwrap() {
            let url = entry["clientConfig"]["url"].as_str().unwrap();
            let own = entry["name"].as_str().unwrap();
            entry["clientConfig"]["url"] = json!(format!("{url}/{name}/{own}"));
            entry["timeoutSeconds"] = json!(30);
        }
        let (_, plural) = *KINDS
            .iter()
            .find(|(kind, _)| object["kind"] == *kind)
            .unwrap();
        lab.create(&group(plural), &object).await.unwrap();
    }

    /// An entry for one pod is written after all others; once it is called, so are they.
    async fn is_seen(&self, lab: &Lab) {
        const CANARY: &str = "fidelity.example.com/canary";
        for ((kind, _), path) in KINDS.into_iter().zip(["mutate", "validate"]) {
            let rendered = client_config(&format!("/{path}/pods"), &self.settings());
            let entry = json!({
                "name": "all.canary.example.com",
                "clientConfig": rendered,
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["pods"]}],
                "objectSelector": {"matchLabels": {CANARY: "true"}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            });
            let object = json!({"kind": kind, "metadata": {}, "webhooks": [entry],
                "apiVersion": "admissionregistration.k8s.io/v1"});
            self.write(lab, "canary", object).await;
        }
        let pod = json!({
            "metadata": {"name": "canary", "labels": {CANARY: "true"}},
            "spec": {"containers": [{"name": "web", "image": "example.com/web"}]},
        });
        lab.ensure_namespace("seen").await;
        within(PATIENCE, "the webhooks are called", async || {
            try_pod(lab, "seen", &pod, false).await;
            let calls = self.calls("canary");
            let by_canary = calls.iter().filter(|call| call.configuration == "canary");
            (by_canary.count() == KINDS.len()).then_some(())
        })
        .await;
    }

    fn calls(&self, pod: &str) -> Vec<Call> {
        self.calls.lock().remove(pod).unwrap_or_default()
    }

    /// How often each hook was asked about a pod, now that it was tried, and what is wrong with
    /// who it was.
    pub(super) fn asked(
        &self,
        configurations: &[Configuration],
        (namespace, pod, json): (&Namespace, &Pod, &str),
    ) -> (usize, Vec<Wrong>) {
        let calls = self.calls(&pod.name);
        let count = calls.iter().filter(|call| call.hook == "mutate").count();
        let mut wrongs = Vec::new();
        for one in configurations {
            let wanted = one.wanted(namespace, pod, json);
            for (mode, is_wanted) in wanted {
                let asked = |hook: &str| -> Vec<&str> {
                    let mine = calls.iter().filter(|call| {
                        let is_warn = call.entry.contains(".warn.");
                        call.hook == hook
                            && call.configuration == one.name
                            && is_warn == (mode == Mode::Warn)
                    });
                    mine.map(|call| call.entry.as_str()).collect()
                };
                let (gate, check) = (asked("mutate"), asked("validate"));
                let entry = |entries: &[&str]| entries.first().map(|name| stem(name));
                let problem = match (is_wanted, gate.len(), check.len()) {
                    (true, 1, 1) if entry(&gate) == entry(&check) => continue,
                    (false, 0, 0) => continue,
                    (true, 0, _) | (true, _, 0) => Problem::Narrower,
                    (false, 1, 1) => Problem::Wider,
                    _ => Problem::Twice,
                };
                wrongs.push(Wrong {
                    problem,
                    text: format!(
                        "{problem:?} in {} ({mode:?}): gate {gate:?}, check {check:?}; {} {:?}; \
                         {:?} {:?}",
                        one.name, namespace.name, namespace.marks, pod.shape, pod.marks
                    ),
                });
            }
        }
        (count, wrongs)
    }
}

/// How the API server asked otherwise than it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// Not about a pod that requires an injector.
    Narrower,
    /// About one that requires none.
    Wider,
    /// By several entries of one hook, or by one of each that do not match.
    Twice,
}

#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) problem: Problem,
    pub(super) text: String,
}

impl Configuration {
    pub(super) fn new(name: &'static str, list: &str) -> Self {
        Self {
            name,
            injectors: injectors(list),
        }
    }

    /// Whether the entries that enforce and those that only warn are to ask about the pod.
    fn wanted(&self, namespace: &Namespace, pod: &Pod, json: &str) -> [(Mode, bool); 2] {
        let view = PodView::read(json, self.injectors.keys()).unwrap();
        let is_exempt = pod.is_exempt(&view, namespace, &self.injectors);
        let place = namespace.view(&self.injectors);
        let requirement = requirement::of(&view, &place, &self.injectors);
        [Mode::Enforce, Mode::Warn].map(|mode| {
            let mut claims = requirement.matches.iter();
            let requires = claims.any(|claim| claim.injector.profile.mode == mode);
            (mode, requires && !is_exempt)
        })
    }
}

fn full(name: &str) -> String {
    format!("{name}.fidelity.example.com")
}

fn group(plural: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{plural}")
}

/// The name of an entry without its hook's.
fn stem(entry: &str) -> String {
    let hooks = ["gate", "check"];
    let words = entry.split(['.', '-']).filter(|word| !hooks.contains(word));
    words.collect::<Vec<_>>().join(".")
}
