//! The static form: manifests on the API server's own disk (`ManifestBasedAdmissionControlConfig`),
//! which no change in the API can weaken.
//!
//! That form holds webhook configurations by URL, policies and their bindings, without owners. Names end
//! in `.static.k8s.io`, and each admission plugin reads one folder.

use serde_json::{Value, json};

use crate::injector::Injectors;
use crate::names::{CHECK_PROOF, GUARD, MIRROR_PROOF};

use super::{Client, Enforcement, Rendered, Settings, policy};

/// How names of static objects end.
pub const SUFFIX: &str = ".static.k8s.io";

/// Why there is no static form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The API server could look up a Service only in the API.
    #[error("found a Service, expected a URL: static manifests call webhooks by URL only")]
    NotByUrl,
}

/// An admission plugin, and what it reads.
struct Plugin {
    name: &'static str,
    /// Kind of its configuration.
    configuration: &'static str,
    folder: &'static str,
    /// Kinds of the objects in its folder.
    kinds: &'static [&'static str],
}

const WEBHOOKS: &str = "WebhookAdmissionConfiguration";

/// In the order of their folders.
const PLUGINS: [Plugin; 4] = [
    Plugin {
        name: "MutatingAdmissionPolicy",
        configuration: "MutatingAdmissionPolicyConfiguration",
        folder: "mutating-policies",
        kinds: &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
    },
    Plugin {
        name: "MutatingAdmissionWebhook",
        configuration: WEBHOOKS,
        folder: "mutating-webhooks",
        kinds: &["MutatingWebhookConfiguration"],
    },
    Plugin {
        name: "ValidatingAdmissionPolicy",
        configuration: "ValidatingAdmissionPolicyConfiguration",
        folder: "validating-policies",
        kinds: &[
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ],
    },
    Plugin {
        name: "ValidatingAdmissionWebhook",
        configuration: WEBHOOKS,
        folder: "validating-webhooks",
        kinds: &["ValidatingWebhookConfiguration"],
    },
];

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
        rendered
            .objects
            .extend(policy::objects(injectors, &settings));
    }
    // The API cannot weaken these, so that no guard is needed; and no leader waits for a proof.
    let is_for_api = |object: &Value| {
        let name = &object["metadata"]["name"];
        [GUARD, CHECK_PROOF, MIRROR_PROOF]
            .iter()
            .any(|own| name == own)
    };
    rendered
        .objects
        .retain(|object| folder(object).is_some() && !is_for_api(object));
    for object in &mut rendered.objects {
        for name in ["/metadata/name", "/spec/policyName"] {
            if let Some(Value::String(name)) = object.pointer_mut(name) {
                name.push_str(SUFFIX);
            }
        }
    }
    rendered.objects.sort_by_key(folder);
    Ok(rendered)
}

/// The folders, one per admission plugin.
pub fn folders() -> impl Iterator<Item = &'static str> {
    PLUGINS.iter().map(|plugin| plugin.folder)
}

/// The folder of a static object.
pub fn folder(object: &Value) -> Option<&'static str> {
    let kind = object["kind"].as_str()?;
    let plugin = PLUGINS.iter().find(|plugin| plugin.kinds.contains(&kind));
    plugin.map(|plugin| plugin.folder)
}

/// The file for `--admission-control-config-file` that makes the API server read these folders
/// below `directory`.
pub fn admission_configuration(directory: &str) -> Value {
    let plugin = |plugin: &Plugin| {
        json!({
            "name": plugin.name,
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": plugin.configuration,
                "staticManifestsDir": format!("{directory}/{}", plugin.folder),
            },
        })
    };
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": PLUGINS.iter().map(plugin).collect::<Vec<_>>(),
    })
}
