//! Objects of a cluster, as the API server has them.

use meshgate::cluster::manifest::{self, Item};
use meshgate::cluster::object::Object;
use meshgate_core::injector::profile::{Profile, ServiceName};
use serde_json::{Value, json};

/// Reads manifests as `serve --standalone` reads a file.
///
/// # Panics
/// If anything in them is not an object that the view holds.
pub(crate) fn read(origin: &str, text: &[u8]) -> Vec<Object> {
    let items = manifest::items(origin, text).unwrap_or_else(|error| panic!("{error}"));
    let object = |item| match item {
        Item::Object(object) => object,
        Item::Configuration(_) => panic!("{origin}: a Configuration is no object"),
        Item::Other { kind, .. } => panic!("{origin}: the view does not hold a {kind}"),
    };
    items.into_iter().map(object).collect()
}

/// One object as a watch gets it, `None` if it cannot be read: the watch leaves it out (case 41).
pub(crate) fn watched(value: &Value) -> Option<Object> {
    let text = value.to_string();
    manifest::items("object.json", text.as_bytes()).ok()?;
    Some(object(value))
}

/// One object.
pub(crate) fn object(value: &Value) -> Object {
    let mut objects = read("object.json", value.to_string().as_bytes());
    assert_eq!(objects.len(), 1, "{value}");
    objects.remove(0)
}

/// A Namespace with the label that the API server puts on each.
pub(crate) fn namespace(name: &str, labels: &Value, annotations: &Value) -> Object {
    let mut labels = labels.as_object().cloned().unwrap_or_default();
    labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    object(&json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
    }))
}

/// A Service with one endpoint, ready or not.
pub(crate) fn service(name: &ServiceName, ready: bool) -> Vec<Object> {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": name.namespace, "name": name.name},
        "spec": {"selector": {"app": name.name}},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": name.namespace,
            "name": format!("{}-x7k2p", name.name),
            "labels": {"kubernetes.io/service-name": name.name},
        },
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": ["10.42.0.17"],
            "conditions": {"ready": ready, "serving": ready, "terminating": false},
        }],
    });
    vec![object(&service), object(&slice)]
}

/// A webhook configuration with one entry that calls a Service.
pub(crate) fn webhooks(
    name: &str,
    labels: &Value,
    entry: &str,
    service: &ServiceName,
    path: &str,
) -> Object {
    object(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name, "labels": labels},
        "webhooks": [{
            "name": entry,
            "clientConfig": {
                "service": {"namespace": service.namespace, "name": service.name, "path": path},
            },
        }],
    }))
}

/// A webhook configuration that belongs to no injector of a case.
pub(crate) fn foreign_webhooks() -> Object {
    let service = ServiceName {
        namespace: "policies".to_owned(),
        name: "policy-webhook".to_owned(),
    };
    let entry = "mutate.policies.example.test";
    webhooks("policy-webhook-cfg", &json!({}), entry, &service, "/")
}

/// An injector that is installed as its profile says, with one endpoint per Service. `instances`
/// are the copies that there are, for a profile that has copies.
pub(crate) fn installed(profile: &Profile, instances: &[&str], ready: bool) -> Vec<Object> {
    let entry = profile.webhook.as_ref().map(|name| name.as_str());
    let entry = entry.unwrap_or("injector.example.test").replace('*', "ns.");
    let path = profile.path.as_deref().unwrap_or("/");
    let Some(copies) = &profile.instances else {
        let configuration = format!("{}-injector", profile.name);
        let configuration = webhooks(&configuration, &json!({}), &entry, &profile.service, path);
        let mut objects = service(&profile.service, ready);
        objects.push(configuration);
        return objects;
    };
    let label = copies.webhook_labels.first().unwrap();
    let copy = |instance: &&str| {
        let name = match *instance {
            "default" => profile.service.clone(),
            other => copies.fallback(other),
        };
        let configuration = format!("{}-injector-{instance}", profile.name);
        let labels = json!({label: instance});
        let mut objects = service(&name, ready);
        objects.push(webhooks(&configuration, &labels, &entry, &name, path));
        objects
    };
    instances.iter().flat_map(copy).collect()
}
