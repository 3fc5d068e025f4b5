mod entries;
mod foreign_conditions;
mod observed;
mod proof;
mod status;

use serde_json::{Value, json};

use super::observed::Object;
use crate::kube_api::kind::Kind;
use meshgate_core::injector::Injectors;

/// An object as it came from the API server; a webhook configuration if it does not say its kind.
fn parsed(object: &Value) -> Object {
    let mut object = object.clone();
    if object["kind"].is_null() {
        object["kind"] = json!(Kind::MutatingWebhooks.as_str());
    }
    object["metadata"]["name"] = json!(object["metadata"]["name"].as_str().unwrap_or("x"));
    Object::parse(object).unwrap()
}

fn injectors(list: &str) -> Injectors {
    let config =
        format!("apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors: {list}\n");
    Injectors::from_yaml("test", config.as_bytes()).unwrap()
}
