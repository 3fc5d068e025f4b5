//! The static form: manifests on the API server's own disk (`ManifestBasedAdmissionControlConfig`),
//! which nothing in the API can weaken.
//!
//! What that form can hold: webhook configurations by URL, policies and their bindings, no owner,
//! names that end in `.static.k8s.io`; one folder per admission plugin.

use serde_json::{Value, json};

use crate::injector::Injectors;

use super::{Client, Enforcement, GUARD, Rendered, Settings, in_force};

/// How names of static objects end.
pub const SUFFIX: &str = ".static.k8s.io";

/// Why there is no static form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A Service is looked up in the API.
    #[error("found a Service, expected a URL: static manifests call webhooks by URL only")]
    NotByUrl,
}

/// Everything in the static form, policies included.
///
/// # Errors
/// The client is a Service.
pub fn objects(injectors: &Injectors, settings: &Settings) -> Result<Rendered, Problem> {
    if let Client::Service { .. } = settings.client {
        return Err(Problem::NotByUrl);
    }
    let settings = Settings {
        owner_uid: None,
        ..settings.clone()
    };
    let mut rendered = super::registration(injectors, &settings);
    if settings.enforcement == Enforcement::Webhook {
        rendered.add(super::policy::objects(injectors, &settings));
    }
    // Nothing in the API can weaken these, so that there is nothing to guard; nor anybody who waits
    // for a proof.
    let is_for_api = |object: &Value| {
        let name = &object["metadata"]["name"];
        [GUARD, in_force::NAME, in_force::MIRROR_NAME]
            .iter()
            .any(|own| name == own)
    };
    rendered
        .objects
        .retain(|object| folder(object).is_some() && !is_for_api(object));
    for object in &mut rendered.objects {
        for place in ["/metadata/name", "/spec/policyName"] {
            if let Some(Value::String(name)) = object.pointer_mut(place) {
                name.push_str(SUFFIX);
            }
        }
    }
    rendered.objects.sort_by_key(folder);
    Ok(rendered)
}

/// The folders, one per admission plugin.
pub const FOLDERS: [&str; 4] = [
    "mutating-policies",
    "mutating-webhooks",
    "validating-policies",
    "validating-webhooks",
];

/// The folder of a static object, by the plugin that reads it.
pub fn folder(object: &Value) -> Option<&'static str> {
    match object.get("kind")?.as_str()? {
        "MutatingWebhookConfiguration" => Some("mutating-webhooks"),
        "ValidatingWebhookConfiguration" => Some("validating-webhooks"),
        "MutatingAdmissionPolicy" | "MutatingAdmissionPolicyBinding" => Some("mutating-policies"),
        "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => {
            Some("validating-policies")
        }
        _ => None,
    }
}

/// The file for `--admission-control-config-file` that makes the API server read these folders
/// below `directory`.
pub fn admission_configuration(directory: &str) -> Value {
    const WEBHOOKS: &str = "WebhookAdmissionConfiguration";
    let plugin = |(name, kind, folder): (&str, &str, &str)| {
        json!({
            "name": name,
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": kind,
                "staticManifestsDir": format!("{directory}/{folder}"),
            },
        })
    };
    let plugins = [
        (
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyConfiguration",
            "mutating-policies",
        ),
        ("MutatingAdmissionWebhook", WEBHOOKS, "mutating-webhooks"),
        (
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyConfiguration",
            "validating-policies",
        ),
        (
            "ValidatingAdmissionWebhook",
            WEBHOOKS,
            "validating-webhooks",
        ),
    ];
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": plugins.map(plugin),
    })
}
