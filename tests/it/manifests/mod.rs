//! What ships to install meshgate with: `manifests/`. What takes Helm or an API server is below
//! `lab::chart`; that `install.yaml` is what the chart renders is held there, so that looking at it
//! here is looking at the chart.

mod alerts;
mod injectors;
pub(crate) mod program;
mod rights;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};

use meshgate_core::yaml;
use serde_json::Value;

/// A file or folder of `manifests/`.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("manifests")
        .join(name)
}

pub(crate) fn text(name: &str) -> String {
    let path = path(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of a YAML text.
pub(crate) fn objects(text: &str) -> Vec<Value> {
    let documents = yaml::documents("manifests", text.as_bytes()).unwrap();
    let read = documents.iter().map(|one| one.parse().unwrap());
    read.collect()
}

/// The objects of `install.yaml`.
pub(crate) fn installed() -> Vec<Value> {
    objects(&text("install.yaml"))
}

/// Those of a kind.
pub(crate) fn of_kind<'o>(objects: &'o [Value], kind: &str) -> Vec<&'o Value> {
    let found = objects.iter().filter(|object| object["kind"] == kind);
    found.collect()
}

/// `Kind/name`.
pub(crate) fn name(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap();
    format!("{}/{name}", object["kind"].as_str().unwrap())
}

/// The pod templates, with the names of what has them.
pub(crate) fn pods(objects: &[Value]) -> Vec<(String, &Value)> {
    let templates = objects.iter().filter_map(|object| {
        let template = object.pointer("/spec/template")?;
        Some((name(object), template))
    });
    templates.collect()
}

/// What is not for Helm alone: nothing is said to be Helm's, and nothing is a hook.
#[test]
fn install_yaml_has_no_owner() {
    let text = text("install.yaml");
    for word in ["helm.sh", "managed-by", "# Source"] {
        assert!(!text.contains(word), "{word}");
    }
    let objects = installed();
    assert_eq!(name(&objects[0]), "Namespace/meshgate-system");
    let namespaces = objects
        .iter()
        .filter_map(|o| o["metadata"]["namespace"].as_str());
    // Events about what belongs to no namespace are in `default`.
    let is_known = |name| name == "meshgate-system" || name == "default";
    assert!(namespaces.into_iter().all(is_known));
}

/// Case 56: what others write at run time is not in any file.
#[test]
fn no_file_has_key_material_or_a_ca_bundle() {
    for object in installed() {
        assert_ne!(object["kind"], "Secret", "{}", name(&object));
        let kind = object["kind"].as_str().unwrap();
        assert!(!kind.ends_with("WebhookConfiguration"), "{}", name(&object));
    }
    let mut folders = vec![path("chart/templates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let text = fs::read_to_string(&entry).unwrap();
            for word in [
                "caBundle:",
                "genCA",
                "genSelfSigned",
                "genSigned",
                "kind: Secret",
            ] {
                assert!(!text.contains(word), "{word} in {}", entry.display());
            }
        }
    }
}

/// Named after its content, and every part that is told the hash is told the same.
#[test]
fn one_configuration_has_one_hash() {
    let objects = installed();
    let maps = of_kind(&objects, "ConfigMap");
    let [map] = maps[..] else { panic!("{maps:?}") };
    let name = map["metadata"]["name"].as_str().unwrap();
    let hash = name.strip_prefix("meshgate-").unwrap();
    assert_eq!(map["immutable"], true);
    assert_eq!(map["metadata"]["labels"]["meshgate.io/configuration"], hash);
    let pods = pods(&objects);
    assert_eq!(pods.len(), 2);
    for (whose, pod) in pods {
        let label = &pod["metadata"]["labels"]["meshgate.io/configuration"];
        assert_eq!(label, hash, "{whose}");
        let mounted = &pod["spec"]["volumes"][0]["configMap"]["name"];
        assert_eq!(mounted, name, "{whose}");
    }
    assert!(text("install.yaml").contains(&format!("--configuration-hash={hash}\n")));
    assert!(text("../docs/install.md").contains(&format!("s/{hash}/")));
    let configuration = map["data"]["meshgate.yaml"].as_str().unwrap();
    let read = meshgate_core::injector::Injectors::from_yaml(name, configuration.as_bytes());
    assert!(read.is_ok(), "{read:?}");
}
