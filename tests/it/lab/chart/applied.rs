//! What an API server makes of what Helm renders: it takes it as it is, and adds nothing to it.

use serde_json::{Map, Value, json};

use super::{VALUES, objects, rendered};
use crate::lab::harness::{Lab, User};
use crate::manifests::{self, name};

const STRICT: [&str; 6] = [
    "apply",
    "--server-side",
    "--dry-run=server",
    "--validate=strict",
    "-o=json",
    "-f=-",
];

/// Kinds of operators that the lab does not have: their own schemas are theirs.
const FOREIGN: [(&str, &str, &str); 3] = [
    ("monitoring.coreos.com", "v1", "ServiceMonitor"),
    ("monitoring.coreos.com", "v1", "PrometheusRule"),
    ("cert-manager.io", "v1", "Certificate"),
];

async fn ready(lab: &Lab) {
    lab.ensure_namespace("meshgate-system").await;
    for (group, version, kind) in FOREIGN {
        let plural = format!("{}s", kind.to_lowercase());
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural},
                "versions": [{"name": version, "served": true, "storage": true, "schema": schema}],
            },
        });
        lab.apply_whole(&definition.to_string()).await;
    }
    let all = [
        "wait",
        "--for=condition=Established",
        "crd",
        "--all",
        "--timeout=50s",
    ];
    lab.kubectl(&all).await.ok();
}

/// Server-side validation, and Pod Security `restricted` for the templates (`warn` in install.yaml's
/// namespace speaks of Deployments too).
#[tokio::test]
async fn an_api_server_takes_all_of_it() {
    let lab = Lab::shared().await;
    ready(&lab).await;
    for (what, values) in VALUES {
        let text = rendered(values).await;
        let outcome = lab.kubectl_as(User::Admin, &STRICT, &text).await;
        assert_eq!((outcome.code, &*outcome.err), (Some(0), ""), "{what}");
    }
}

/// Pods are judged as Pod Security judges them in a namespace that enforces `restricted`.
#[tokio::test]
async fn pods_are_restricted() {
    let lab = Lab::shared().await;
    let level = [("pod-security.kubernetes.io/enforce", "restricted")];
    let namespace = lab.namespace("restricted", &level, &[]).await;
    for (what, values) in VALUES {
        if what == "the host network" {
            continue;
        }
        for (whose, template) in manifests::pods(&objects(values).await) {
            let mut pod = template.clone();
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["metadata"]["name"] = "judged".into();
            // The accounts are in another namespace.
            let spec = pod["spec"].as_object_mut().unwrap();
            spec.retain(|key, _| key != "serviceAccountName" && key != "serviceAccount");
            let arguments = [
                "create",
                "--dry-run=server",
                "--validate=strict",
                "-n",
                &namespace,
                "-f=-",
            ];
            let outcome = lab
                .kubectl_as(User::Admin, &arguments, &pod.to_string())
                .await;
            assert_eq!(
                (outcome.code, &*outcome.err),
                (Some(0), ""),
                "{what}, {whose}"
            );
        }
    }
}

/// Fields that an API server fills in with values that cannot be known before.
const FILLED_IN: [&str; 11] = [
    "/metadata/creationTimestamp",
    "/metadata/generation",
    "/metadata/resourceVersion",
    "/metadata/uid",
    "/metadata/managedFields",
    "/spec/clusterIP",
    "/spec/clusterIPs",
    "/spec/ipFamilies",
    "/spec/finalizers",
    "/spec/template/metadata/creationTimestamp",
    "/status",
];

/// Where `live` has something that `wanted` does not say.
fn added(at: &str, wanted: &Value, live: &Value, found: &mut Vec<String>) {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            for (key, value) in live {
                let at = format!("{at}/{key}");
                match wanted.get(key) {
                    None if value.is_null() || FILLED_IN.contains(&&*at) => {}
                    None => found.push(format!("{at}: {value}")),
                    Some(wanted) => added(&at, wanted, value, found),
                }
            }
        }
        (Value::Array(wanted), Value::Array(live)) => {
            for (index, (wanted, live)) in wanted.iter().zip(live).enumerate() {
                added(&format!("{at}/{index}"), wanted, live, found);
            }
            if wanted.len() != live.len() {
                found.push(format!("{at}: {} of {}", wanted.len(), live.len()));
            }
        }
        _ if wanted == live => {}
        _ => found.push(format!("{at}: {live} in place of {wanted}")),
    }
}

/// `Kind/name in NAMESPACE`.
fn place(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str();
    format!("{} in {}", name(object), namespace.unwrap_or_default())
}

/// Case 79: every field that would be defaulted is there, so that no tool reports a drift. Hooks are no
/// part of what is compared.
#[tokio::test]
async fn an_api_server_adds_nothing() {
    let lab = Lab::shared().await;
    ready(&lab).await;
    for (what, values) in VALUES {
        let objects = objects(values).await;
        let text = rendered(values).await;
        let outcome = lab.kubectl_as(User::Admin, &STRICT, &text).await.ok();
        let list: Value = serde_json::from_str(&outcome).unwrap();
        let live: Map<String, Value> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|object| (place(object), object.clone()))
            .collect();
        for object in objects {
            let name = place(&object);
            let is_hook = object["metadata"]["annotations"]
                .get("helm.sh/hook")
                .is_some();
            if is_hook || name == "Namespace/meshgate-system in " {
                continue;
            }
            let mut found = Vec::new();
            added("", &object, &live[&name], &mut found);
            assert_eq!(found, [""; 0], "{what}: {name}");
        }
    }
}

#[tokio::test]
async fn kustomize_takes_the_base_and_an_overlay() {
    let lab = Lab::shared().await;
    let base = manifests::path("").display().to_string();
    let built = lab.kubectl(&["kustomize", &base]).await.ok();
    let mut names = [manifests::objects(&built), manifests::installed()]
        .map(|objects| objects.iter().map(name).collect::<Vec<_>>());
    names.iter_mut().for_each(|names| names.sort_unstable());
    assert_eq!(names[0], names[1]);

    let page = std::fs::read_to_string(manifests::path("../docs/install.md")).unwrap();
    let (_, overlay) = page.split_once("# kustomization.yaml\n").unwrap();
    let (overlay, _) = overlay.split_once("```").unwrap();
    let folder = tempfile::tempdir_in(manifests::path("../target")).unwrap();
    let relative = "../../manifests";
    let text = overlay.replace(
        "https://example.com/meshgate//manifests?ref=v0.1.0",
        relative,
    );
    std::fs::write(folder.path().join("kustomization.yaml"), text).unwrap();
    let folder = folder.path().display().to_string();
    let built = lab.kubectl(&["kustomize", &folder]).await.ok();
    assert!(
        built.contains("image: registry.example.com/platform/meshgate:0.1.0"),
        "{built}"
    );
    assert!(built.contains("    - preset: istio\n"), "{built}");
    assert!(!built.contains("preset: linkerd"), "{built}");
}
