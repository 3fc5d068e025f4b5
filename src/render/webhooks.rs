//! The webhook configurations: which pods are sent to gate and check, and how.

use base64::Engine;
use serde_json::{Value, json};

use crate::injector::Injectors;

use super::{CONFIGURATION, Client, Enforcement, FailurePolicy, Rendered, Settings};
use super::{REACH_ENTRY, REACH_LABEL, excluded, metadata, path, reach};

/// The label that the API server itself keeps on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The configurations for pods: the mutating one, and the validating one unless a policy is the
/// check.
pub fn objects(injectors: &Injectors, settings: &Settings) -> Rendered {
    let gate = vec![
        entry("pods", path::GATE, injectors, settings),
        reach_entry(settings),
    ];
    let mut objects = vec![configuration(
        "MutatingWebhookConfiguration",
        gate,
        settings,
    )];
    if settings.enforcement == Enforcement::Webhook {
        let check = vec![entry("pods", path::CHECK, injectors, settings)];
        objects.push(configuration(
            "ValidatingWebhookConfiguration",
            check,
            settings,
        ));
    }
    Rendered {
        objects,
        notes: Vec::new(),
    }
}

fn configuration(kind: &str, webhooks: Vec<Value>, settings: &Settings) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata(CONFIGURATION, settings),
        "webhooks": webhooks,
    })
}

fn entry(name: &str, at: &str, injectors: &Injectors, settings: &Settings) -> Value {
    json!({
        "name": format!("{name}.gate.meshgate.io"),
        "clientConfig": client_config(at, settings),
        "rules": [{
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }],
        "namespaceSelector": {"matchExpressions": [
            {"key": NAMESPACE_NAME, "operator": "NotIn", "values": excluded(injectors, settings)},
        ]},
        "objectSelector": {},
        "failurePolicy": settings.failure_policy.as_str(),
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
    })
}

/// Met by a dry run of ours alone; fails closed, so that an API server that does not reach us says
/// so.
fn reach_entry(settings: &Settings) -> Value {
    json!({
        "name": REACH_ENTRY,
        "clientConfig": client_config(&reach::entry_path(settings), settings),
        "rules": [{
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
            "scope": "Namespaced",
        }],
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: settings.namespace}},
        "objectSelector": {"matchExpressions": [{"key": REACH_LABEL, "operator": "Exists"}]},
        "failurePolicy": FailurePolicy::Fail.as_str(),
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
    })
}

/// How the API server calls one of our endpoints.
pub fn client_config(at: &str, settings: &Settings) -> Value {
    let mut config = match &settings.client {
        Client::Url(base) => json!({"url": format!("{}{at}", base.trim_end_matches('/'))}),
        Client::Service {
            namespace,
            name,
            port,
        } => json!({
            "service": {"namespace": namespace, "name": name, "port": port, "path": at},
        }),
    };
    if let Some(pem) = &settings.ca_bundle {
        let encoded = base64::engine::general_purpose::STANDARD.encode(pem);
        config["caBundle"] = json!(encoded);
    }
    config
}
