//! What Helm renders, without a cluster.

use std::fs;

use serde_json::Value;

use super::{LINKERD, VALUES, objects, rendered};
use crate::lab::harness::helm::{NO_REGISTRY, chart, offline, template};
use crate::manifests::{self, name, of_kind, pods, program};

#[tokio::test]
async fn helm_finds_nothing_to_say() {
    let said = offline(&[
        "lint",
        "--strict",
        "--quiet",
        &chart(),
        LINKERD,
        NO_REGISTRY,
    ])
    .await;
    assert_eq!(said.ok().trim(), "");
}

/// `install.yaml` as it is to be: what the chart renders, but for what is Helm's, with the places marked
/// that are to be edited.
fn installable(rendered: &str) -> String {
    let own: Vec<&str> = rendered
        .lines()
        .filter(|line| !line.starts_with("# Source: "))
        .collect();
    let mut text = own.join("\n");
    while text.contains("\n\n") {
        text = text.replace("\n\n", "\n");
    }
    let here = "\n# EDIT: the injectors of your cluster\ndata:\n";
    let text = text.replacen("\ndata:\n", here, 1);
    let image = "        image: \"meshgate:";
    let registry = "        # EDIT: your registry\n        image: \"meshgate:";
    format!("{HEADER}{}\n", text.replace(image, registry).trim_end())
}

const HEADER: &str = "\
# meshgate, for those who do without Helm. Made from the chart beside it, with its defaults: `make bless`.
#
# Edit what is marked with EDIT: the injectors of your cluster (kubectl get mutatingwebhookconfigurations),
# and, twice, where your nodes find the image. Then: kubectl apply --server-side -f install.yaml
#
# To change the injectors later, give the configuration another name as well, everywhere in here, so
# that pods that run with the old one keep it; docs/install.md says how, and how to go.
";

#[tokio::test]
async fn install_yaml_is_what_the_chart_renders() {
    let arguments = ["--no-hooks", LINKERD, "--set=namespace.create=true"];
    let wanted = installable(&template(&arguments).await.ok());
    if std::env::var_os("MESHGATE_BLESS").is_some() {
        fs::write(manifests::path("install.yaml"), &wanted).unwrap();
    }
    let shipped = manifests::text("install.yaml");
    assert!(shipped == wanted, "manifests/install.yaml: run make bless");
}

/// Nothing is on by itself, and who is refused is told how to find out.
#[tokio::test]
async fn injectors_must_be_named() {
    let refused = template(&[]).await;
    assert_eq!(refused.code, Some(1));
    let wanted = "injectors: name those that this cluster has, as in --set 'injectors={linkerd,vault}'. \
                  To find out which there are: kubectl get mutatingwebhookconfigurations. Presets: \
                  consul, dapr, istio, kuma, linkerd, opentelemetry, vault; for others see docs/configure.md.";
    assert!(refused.err.contains(wanted), "{}", refused.err);
}

/// Else a forgotten value would have nodes pull what another project owns.
#[tokio::test]
async fn a_registry_must_be_named() {
    let forgotten = "--set=image.allowNoRegistry=false";
    let refused = template(&[LINKERD, forgotten]).await;
    assert_eq!(refused.code, Some(1));
    let wanted = "image.registry: name the registry that your nodes pull the image from, as in \
                  --set image.registry=registry.example.com/platform. Without one, nodes would ask their \
                  default registry, mostly docker.io, where another project may own the name. If every \
                  node has the image already, set image.allowNoRegistry=true.";
    assert!(refused.err.contains(wanted), "{}", refused.err);
    let named = "--set=image.registry=registry.example.com";
    let rendered = template(&[LINKERD, forgotten, named]).await.ok();
    assert!(rendered.contains("\"registry.example.com/meshgate:"));
}

#[tokio::test]
async fn a_wrong_value_is_refused_with_its_place_and_what_fits() {
    let table = [
        (
            "--set=sevre.replicas=3",
            "additional properties 'sevre' not allowed",
        ),
        (
            "--set=serve.replica=3",
            "at '/serve': additional properties 'replica' not allowed",
        ),
        (
            "--set=serve.replicas=0",
            "at '/serve/replicas': minimum: got 0, want 1",
        ),
        (
            "--set=enforcement=both",
            "at '/enforcement': value must be one of 'webhook', 'policy'",
        ),
        (
            "--set=injectors={linkrd}",
            "at '/injectors/0': value must be one of 'consul', 'dapr'",
        ),
        (
            "--set=injectors[0].preset=istio,injectors[0].mood=warn",
            "additional properties 'mood'",
        ),
        (
            "--set=injectors=linkerd",
            "at '/injectors': got string, want array",
        ),
        (
            "--set=image.registry=https://example.com",
            "at '/image/registry'",
        ),
        ("--set=image.digest=latest", "at '/image/digest'"),
        ("--set=image.repository=a/b:1.0", "at '/image/repository'"),
        (
            "--set=serve.ports.http=8443",
            "serve.ports: https and http are both 8443",
        ),
        ("--set=serve.extraArgs={verbose}", "at '/serve/extraArgs/0'"),
    ];
    for (value, wanted) in table {
        let refused = template(&[LINKERD, value]).await;
        assert_eq!(refused.code, Some(1), "{value}");
        assert!(refused.err.contains(wanted), "{value}: {}", refused.err);
    }
}

/// A change of the content is another object, and so is another program that reads it (its presets may be
/// others); a change of anything else is the same.
#[tokio::test]
async fn the_hash_is_that_of_the_content() {
    let map = async |values: &[&str]| -> (String, String) {
        let objects = objects(values).await;
        let maps = of_kind(&objects, "ConfigMap");
        assert_eq!(maps.len(), 1);
        let content = maps[0]["data"]["meshgate.yaml"].as_str().unwrap();
        (name(maps[0]), content.to_owned())
    };
    let first = map(&[]).await;
    let mut contents = vec![first.clone()];
    for (what, values) in VALUES {
        let (name, content) = map(values).await;
        let (_, before) = contents[0].clone();
        let is_image = values.iter().any(|value| value.contains("image."));
        let is_same = content == before && !is_image;
        assert_eq!(name == first.0, is_same, "{what}");
        contents.push((name, content));
    }
    // The short and the long form of a preset's name mean the same.
    assert_eq!(
        map(&["--set-json", "injectors=[{\"preset\":\"linkerd\"}]"]).await,
        first
    );
    assert_ne!(
        map(&["--set-json", "injectors=[\"linkerd\",\"vault\"]"]).await,
        first
    );
}

/// Configurations that the chart renders are taken by the program, and so are the flags.
#[tokio::test]
async fn the_program_takes_what_is_rendered() {
    for (what, values) in VALUES {
        let objects = objects(values).await;
        for (whose, arguments) in program::arguments(&objects) {
            assert_eq!(program::refusal(&arguments), None, "{what}, {whose}");
        }
        for map in of_kind(&objects, "ConfigMap") {
            let text = map["data"]["meshgate.yaml"].as_str().unwrap();
            let read = meshgate_core::injector::Injectors::from_yaml(what, text.as_bytes());
            assert!(read.is_ok(), "{what}: {read:?}");
        }
    }
}

/// Marks of one's own never stand in for ours: selectors and opt-outs are as they are.
#[tokio::test]
async fn marks_of_ones_own_come_beside_ours() {
    let values = [
        "--set=podLabels.team=platform",
        "--set-json=podAnnotations={\"linkerd.io/inject\":\"enabled\",\"own\":\"yes\"}",
    ];
    for (whose, pod) in pods(&objects(&values).await) {
        let [labels, annotations] = ["labels", "annotations"].map(|field| &pod["metadata"][field]);
        assert_eq!(labels["team"], "platform", "{whose}");
        assert_eq!(labels["app.kubernetes.io/name"], "meshgate", "{whose}");
        assert_eq!(annotations["linkerd.io/inject"], "disabled", "{whose}");
        assert_eq!(annotations["own"], "yes", "{whose}");
    }
}

/// Also of a release without --namespace, which Helm puts where our Events go as well.
#[tokio::test]
async fn no_object_is_there_twice() {
    let values = ["--namespace=default", "--set=breakGlass.group=on-call"];
    let mut names: Vec<String> = Vec::new();
    for object in objects(&values).await {
        let namespace = &object["metadata"]["namespace"];
        names.push(format!("{} {namespace}", name(&object)));
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// Case 83: no budget that forbids every eviction.
#[tokio::test]
async fn a_single_replica_can_be_evicted() {
    let budgets =
        async |values: &[&str]| of_kind(&objects(values).await, "PodDisruptionBudget").len();
    assert_eq!(budgets(&[]).await, 2);
    assert_eq!(budgets(&["--set=control.replicas=1"]).await, 1);
    assert_eq!(
        budgets(&["--set=serve.replicas=1,control.replicas=1"]).await,
        0
    );
}

/// One value moves the image to another registry, and a digest pins it, the hook's included.
#[tokio::test]
async fn every_container_has_the_one_image() {
    let images = async |values: &[&str]| -> Vec<String> {
        let objects = objects(values).await;
        let of = |(_, pod): (_, &Value)| {
            pod["spec"]["containers"][0]["image"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let mut images: Vec<String> = pods(&objects).into_iter().map(of).collect();
        assert_eq!(images.len(), 3);
        images.dedup();
        images
    };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(images(&[]).await, [format!("meshgate:{version}")]);
    let registry = "--set=image.registry=registry.example.com/platform/";
    assert_eq!(
        images(&[registry]).await,
        [format!("registry.example.com/platform/meshgate:{version}")]
    );
    let digest = format!("sha256:{}", "0".repeat(64));
    let set = format!("--set=image.digest={digest}");
    assert_eq!(
        images(&[registry, &set]).await,
        [format!("registry.example.com/platform/meshgate@{digest}")]
    );
}

/// What a template leaves behind in a text.
#[tokio::test]
async fn nothing_is_left_of_templates() {
    for (what, values) in VALUES {
        let text = rendered(values).await;
        for word in ["<no value>", "%!", "map["] {
            assert!(!text.contains(word), "{what}: {word}");
        }
        let strays = text.lines().filter(|line| line.ends_with(' ')).count();
        assert_eq!(strays, 0, "{what}: blanks at ends of lines");
    }
}
