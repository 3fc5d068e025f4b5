//! Parts that several rendered objects have in common.

use base64::Engine;
use serde_json::{Value, json};

use crate::names::{OURS, OWNER};

use super::{Client, FailurePolicy, Settings};

/// The [`OWNER`]: a role without rights. The garbage collector removes what it owns within a second of
/// its deletion, with no meshgate running (case 77).
///
/// The chart brings it too, and Helm wants another value of the label [`OURS`]: if both wrote that label,
/// the next upgrade would stop with a conflict. So meshgate finds it by its name alone. meshgate's
/// namespace owns it: when that is deleted, the registration goes as well, also without meshgate.
pub fn owner(settings: &Settings) -> Value {
    let mut metadata = json!({"name": OWNER, "labels": names()});
    if let Some(uid) = &settings.namespace_uid {
        let namespace = settings.namespace.as_str();
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": uid,
        }]);
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [],
    })
}

fn names() -> Value {
    json!({
        "app.kubernetes.io/name": "meshgate",
        "app.kubernetes.io/part-of": "meshgate",
    })
}

/// An object of the admission registration that the [`OWNER`] owns.
fn object(kind: &str, name: &str, settings: &Settings) -> Value {
    let mut labels = names();
    let (key, value) = OURS.split_once('=').unwrap_or((OURS, ""));
    labels[key] = value.into();
    let mut metadata = json!({"name": name, "labels": labels});
    if let Some(uid) = &settings.owner_uid {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "name": OWNER,
            "uid": uid,
        }]);
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
    })
}

/// A webhook configuration.
pub(super) fn configuration(
    kind: &str,
    name: &str,
    webhooks: Vec<Value>,
    settings: &Settings,
) -> Value {
    let mut object = object(kind, name, settings);
    object["webhooks"] = webhooks.into();
    object
}

/// A validating policy and its binding, which takes these actions where the policy refuses.
pub(super) fn validating_policy(
    name: &str,
    actions: &[&str],
    spec: Value,
    settings: &Settings,
) -> [Value; 2] {
    let [policy, mut binding] = policy("ValidatingAdmissionPolicy", name, spec, settings);
    binding["spec"]["validationActions"] = json!(actions);
    [policy, binding]
}

/// A mutating policy and its binding.
pub(super) fn mutating_policy(name: &str, spec: Value, settings: &Settings) -> [Value; 2] {
    policy("MutatingAdmissionPolicy", name, spec, settings)
}

/// The failure policy is always `Fail`: an error in an expression refuses the request. The binding spells
/// out the whole cluster, so that an administrator who narrows it changes a field of meshgate's.
fn policy(kind: &str, name: &str, spec: Value, settings: &Settings) -> [Value; 2] {
    let mut policy = object(kind, name, settings);
    policy["spec"] = spec;
    policy["spec"]["failurePolicy"] = FailurePolicy::Fail.as_str().into();
    let mut binding = object(&format!("{kind}Binding"), name, settings);
    let all = json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}});
    binding["spec"] = json!({"policyName": name, "matchResources": all});
    [policy, binding]
}

/// The requests that a policy looks at: these, in namespaces that the selector matches.
pub(super) fn constraints(namespace_selector: Value, rules: Value) -> Value {
    let mut constraints = json!({"matchPolicy": "Equivalent", "objectSelector": {}});
    constraints["namespaceSelector"] = namespace_selector;
    constraints["resourceRules"] = rules;
    constraints
}

/// An entry of a webhook configuration, with every field that the API server would fill in (case 79). The
/// caller adds `rules`, `namespaceSelector` and whatever else it needs.
pub(super) fn webhook(
    name: &str,
    path: &str,
    failure_policy: FailurePolicy,
    settings: &Settings,
) -> Value {
    json!({
        "name": name,
        "clientConfig": client_config(path, settings),
        "objectSelector": {},
        "failurePolicy": failure_policy.as_str(),
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": failure_policy.timeout_seconds(),
        "admissionReviewVersions": ["v1"],
    })
}

/// How the API server calls one of meshgate's endpoints.
pub fn client_config(path: &str, settings: &Settings) -> Value {
    let mut config = match &settings.client {
        Client::Url(base) => json!({"url": format!("{}{path}", base.trim_end_matches('/'))}),
        Client::Service {
            namespace,
            name,
            port,
        } => json!({
            "service": {"namespace": namespace, "name": name, "port": port, "path": path},
        }),
    };
    if let Some(pem) = &settings.ca_bundle {
        config["caBundle"] = base64::engine::general_purpose::STANDARD.encode(pem).into();
    }
    config
}

/// Rules that match the CREATE of one namespaced kind of the core group.
pub(super) fn creates(resource: &str) -> Value {
    rules("", &["CREATE"], &[resource], "Namespaced")
}

/// Rules that match the UPDATE of one namespaced kind of the core group.
pub(super) fn updates(resource: &str) -> Value {
    rules("", &["UPDATE"], &[resource], "Namespaced")
}

/// Rules that match these operations on version v1 of resources of one API group.
pub(super) fn rules(group: &str, operations: &[&str], resources: &[&str], scope: &str) -> Value {
    json!([{
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": operations,
        "resources": resources,
        "scope": scope,
    }])
}

/// A short word that differs with the text (64-bit FNV-1a). It hides nothing.
pub fn hash(text: &str) -> String {
    format!("{:016x}", fnv(text))
}

/// 64-bit FNV-1a.
pub(super) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
