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

/// A policy. Its failure policy is always `Fail`: an error in an expression refuses the request.
pub(super) fn policy(kind: &str, name: &str, mut spec: Value, settings: &Settings) -> Value {
    spec["failurePolicy"] = FailurePolicy::Fail.as_str().into();
    let mut object = object(kind, name, settings);
    object["spec"] = spec;
    object
}

/// The binding of a validating policy to the whole cluster.
pub(super) fn validating_binding(name: &str, actions: &[&str], settings: &Settings) -> Value {
    let mut binding = object("ValidatingAdmissionPolicyBinding", name, settings);
    binding["spec"] = everywhere(name);
    binding["spec"]["validationActions"] = json!(actions);
    binding
}

/// The binding of a mutating policy to the whole cluster.
pub(super) fn mutating_binding(name: &str, settings: &Settings) -> Value {
    let mut binding = object("MutatingAdmissionPolicyBinding", name, settings);
    binding["spec"] = everywhere(name);
    binding
}

/// Spells out the whole cluster, so that an administrator who narrows it changes a field of meshgate's.
fn everywhere(policy: &str) -> Value {
    let all = json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}});
    json!({"policyName": policy, "matchResources": all})
}

/// An entry of a webhook configuration.
pub(super) struct Webhook<'a> {
    pub(super) name: String,
    pub(super) path: &'a str,
    pub(super) rules: Value,
    pub(super) namespace_selector: Value,
    pub(super) object_selector: Value,
    pub(super) conditions: Vec<Value>,
    pub(super) failure_policy: FailurePolicy,
    /// Of mutating ones.
    pub(super) reinvocation: Option<&'a str>,
}

impl Webhook<'_> {
    /// With every field that the API server would fill in (case 79).
    pub(super) fn object(self, settings: &Settings) -> Value {
        let mut object = json!({
            "name": self.name,
            "clientConfig": client_config(self.path, settings),
            "rules": self.rules,
            "namespaceSelector": self.namespace_selector,
            "objectSelector": self.object_selector,
            "failurePolicy": self.failure_policy.as_str(),
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": self.failure_policy.timeout_seconds(),
            "admissionReviewVersions": ["v1"],
        });
        if !self.conditions.is_empty() {
            object["matchConditions"] = self.conditions.into();
        }
        if let Some(policy) = self.reinvocation {
            object["reinvocationPolicy"] = policy.into();
        }
        object
    }
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

/// Rules that match the CREATE of one namespaced kind.
pub(super) fn creates(resource: &str) -> Value {
    json!([{
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": [resource],
        "scope": "Namespaced",
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
