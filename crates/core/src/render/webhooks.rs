//! The webhook configurations: which pods are sent to gate and check, and how.
//!
//! Injectors in mode `warn` have entries of their own that never block, so that those that
//! enforce stay as few; a pod that requires injectors of both modes is sent twice.

use base64::Engine;
use serde_json::{Value, json};

use crate::injector::profile::Mode;
use crate::injector::{Injector, Injectors};

use super::condition::cel::Scope;
use super::entries::{self, Entry, Limits};
use super::exemptions;
use super::{ASKED_FOR, CONFIGURATION, Client, Enforcement, FailurePolicy, Rendered, Settings};
use super::{REACH_ENTRY, REACH_LABEL, REQUIRED, excluded, path, reach, webhooks_metadata};

/// The label that the API server itself keeps on every namespace.
pub(super) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Gate or check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hook {
    Gate,
    Check,
}

impl Hook {
    fn kind(self) -> &'static str {
        match self {
            Self::Gate => "MutatingWebhookConfiguration",
            Self::Check => "ValidatingWebhookConfiguration",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Gate => path::GATE,
            Self::Check => path::CHECK,
        }
    }

    /// How names of entries end.
    fn suffix(self) -> &'static str {
        match self {
            Self::Gate => "gate.meshgate.io",
            Self::Check => "check.meshgate.io",
        }
    }
}

/// The configurations for pods: the mutating one, and the validating one unless a policy is the
/// check. Both have the same selectors and conditions.
pub fn objects(injectors: &Injectors, settings: &Settings) -> Rendered {
    let excluded = excluded(injectors, settings);
    let in_mode = |mode: Mode| -> Vec<&Injector> {
        injectors
            .iter()
            .filter(|injector| injector.profile.mode == mode)
            .collect()
    };
    let enforced = entries::of(&in_mode(Mode::Enforce), &excluded, Limits::USUAL);
    let warned = entries::of(&in_mode(Mode::Warn), &excluded, Limits::USUAL);
    let hook = |hook: Hook| -> Vec<Value> {
        let webhook = |entry: &Entry, mode| webhook(entry, hook, mode, &excluded, settings);
        let enforced = enforced
            .list
            .iter()
            .map(|entry| webhook(entry, Mode::Enforce));
        let warned = warned.list.iter().map(|entry| webhook(entry, Mode::Warn));
        enforced.chain(warned).collect()
    };
    let asked_for = |hook: Hook| -> Value {
        let name = |entry: &Entry, mode| name(entry, hook, mode);
        let enforced = enforced.list.iter().map(|one| (one, Mode::Enforce));
        let all = enforced.chain(warned.list.iter().map(|one| (one, Mode::Warn)));
        let all = all.map(|(one, mode)| (name(one, mode), json!(one.injectors())));
        Value::Object(all.collect())
    };
    let mut gate = hook(Hook::Gate);
    gate.push(reach_entry(settings));
    let mut objects = vec![configuration(Hook::Gate, &gate, settings)];
    if settings.enforcement == Enforcement::Webhook {
        objects.push(configuration(Hook::Check, &hook(Hook::Check), settings));
    }
    for (object, hook) in objects.iter_mut().zip([Hook::Gate, Hook::Check]) {
        object["metadata"]["annotations"][ASKED_FOR] = json!(asked_for(hook).to_string());
    }
    Rendered {
        objects,
        notes: enforced.notes.into_iter().chain(warned.notes).collect(),
    }
}

fn configuration(hook: Hook, webhooks: &[Value], settings: &Settings) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": hook.kind(),
        "metadata": webhooks_metadata(CONFIGURATION, settings),
        "webhooks": webhooks,
    })
}

fn name(entry: &Entry, hook: Hook, mode: Mode) -> String {
    let infix = if mode == Mode::Warn { "warn." } else { "" };
    format!("{}.{infix}{}", entry.name, hook.suffix())
}

/// One webhook with every field that the API server would fill in (case 79).
fn webhook(entry: &Entry, hook: Hook, mode: Mode, excluded: &[&str], settings: &Settings) -> Value {
    let is_policy = settings.enforcement == Enforcement::Policy;
    let failure_policy = if is_policy || mode == Mode::Warn {
        FailurePolicy::Ignore
    } else {
        settings.failure_policy
    };
    let mut conditions = exemptions::conditions();
    let parts = entry.asked_for.iter().map(|(_, expr)| expr.clone());
    let required = Scope::Pod.alternatives(&parts.collect::<Vec<_>>());
    conditions.push(json!({"name": REQUIRED, "expression": required}));
    let mut webhook = json!({
        "name": name(entry, hook, mode),
        "clientConfig": client_config(hook.path(), settings),
        "rules": [rule("pods")],
        "namespaceSelector": selector(entry, excluded),
        "objectSelector": {},
        "matchConditions": conditions,
        "failurePolicy": failure_policy.as_str(),
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": failure_policy.timeout_seconds(),
        "admissionReviewVersions": ["v1"],
    });
    if hook == Hook::Gate {
        webhook["reinvocationPolicy"] = json!("Never");
    }
    webhook
}

/// CREATE of one namespaced kind.
pub(super) fn rule(resource: &str) -> Value {
    json!({
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": [resource],
        "scope": "Namespaced",
    })
}

fn selector(entry: &Entry, excluded: &[&str]) -> Value {
    let mut terms = vec![json!({"key": NAMESPACE_NAME, "operator": "NotIn", "values": excluded})];
    for term in &entry.selector {
        let mut value = json!({"key": term.label, "operator": term.operator});
        if !term.values.is_empty() {
            value["values"] = json!(term.values);
        }
        terms.push(value);
    }
    json!({"matchExpressions": terms})
}

/// Met by a dry run of ours alone; fails closed, so that an API server that does not reach us says
/// so.
fn reach_entry(settings: &Settings) -> Value {
    json!({
        "name": REACH_ENTRY,
        "clientConfig": client_config(&reach::entry_path(settings), settings),
        "rules": [rule("configmaps")],
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: settings.namespace}},
        "objectSelector": {"matchExpressions": [{"key": REACH_LABEL, "operator": "Exists"}]},
        "failurePolicy": FailurePolicy::Fail.as_str(),
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "sideEffects": "None",
        "timeoutSeconds": FailurePolicy::Fail.timeout_seconds(),
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
