//! Another configuration is put in force once all serving replicas have it, and nothing before one
//! of them is ready.

use serde_json::{Value, json};

use super::{CONFIG, HOME, SOON, lab, leads};
use crate::lab::harness::{Control, Guest, Lab, PATIENCE, User, within};
use crate::lab::registration::{LABEL, check, gate, paths};
use crate::support::in_hours;

const RENAMED: &str = "apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
  name: mesh
";
const RENAMED_LABEL: &str = "meshgate.io/requires.mesh";

/// Starts what the API server calls; by which address it does.
pub(in crate::lab) async fn serve(lab: &Lab) -> String {
    let [https, probes] = lab.ports().await;
    let config = lab.folder_of("serve").join("config.yaml");
    std::fs::write(&config, CONFIG).unwrap();
    let flags = [
        (
            "kubeconfig",
            lab.kubeconfig(User::Admin).display().to_string(),
        ),
        ("config", config.display().to_string()),
        ("tls-secret", "meshgate-tls".to_owned()),
        ("listen", format!("127.0.0.1:{https}")),
        ("admin-listen", format!("127.0.0.1:{probes}")),
    ];
    let args = flags.map(|(flag, value)| format!("--{flag}={value}"));
    let guest = Guest {
        program: env!("CARGO_BIN_EXE_meshgate").into(),
        args: ["serve".to_owned()].into_iter().chain(args).collect(),
        ..Guest::default()
    };
    lab.add("serve", &guest).await;
    let spec =
        json!({"type": "ExternalName", "externalName": "localhost", "ports": [{"port": https}]});
    let service = json!({"metadata": {"name": "meshgate"}, "spec": spec});
    let services = format!("/api/v1/namespaces/{HOME}/services");
    lab.create(&services, &service).await.unwrap();
    format!("--service-port={https}")
}

/// A pod that looks like a serving replica.
async fn replica(lab: &Lab, name: &str, hash: &str) -> String {
    let labels = json!({
        "app.kubernetes.io/name": "meshgate",
        "app.kubernetes.io/component": "serve",
        "meshgate.io/configuration": hash,
    });
    let containers = json!([{"name": "a", "image": "a.test/a"}]);
    let pod = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": containers},
    });
    let pods = format!("/api/v1/namespaces/{HOME}/pods");
    lab.create(&pods, &pod).await.unwrap();
    format!("{pods}/{name}")
}

async fn is_ready(lab: &Lab, replica: &str) {
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let path = format!("{replica}/status");
    lab.merge(&path, &status).await.unwrap();
}

async fn says(control: &Control<'_>, all: &[&str]) {
    within(PATIENCE, &all.join(" and "), async || {
        let ready = control.ready();
        all.iter().all(|one| ready.contains(one)).then_some(())
    })
    .await;
}

async fn selects_by(lab: &Lab, label: &str) -> bool {
    let mut all = Vec::new();
    for path in [gate(), check()] {
        all.push(lab.get(&path).await.unwrap_or_default());
    }
    all.iter().all(|object| object.to_string().contains(label))
}

#[tokio::test]
async fn a_configuration_waits_for_the_replicas_that_are_to_answer_by_it() {
    let lab = lab().await;
    let url = serve(&lab).await;
    let flags = |hash: &str| [url.clone(), format!("--configuration-hash={hash}")];
    let start = async |name, config, hash| {
        let flags = flags(hash);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Control::start(&lab, name, config, &flags).await
    };
    let before = start("before", CONFIG, "a").await;
    let first = "nothing is written before a serving replica is ready; no serving replica";
    says(&before, &[first]).await;
    let first = replica(&lab, "replica-1", "a").await;
    says(&before, &["0 of 1 serving replicas are ready"]).await;
    assert!(lab.versions(&paths()).await.iter().all(Option::is_none));
    is_ready(&lab, &first).await;
    lab.is_closed().await;

    // A rollout begins: what is armed stays armed, and is put back.
    let second = replica(&lab, "replica-2", "b").await;
    let differs = "1 of 2 serving replicas have another configuration: replica-2";
    says(&before, &["armed: 4 of 4 entries", differs]).await;
    let note = format!("test deletes it; until={}", in_hours(1));
    let glass = json!({"metadata": {"annotations": {"meshgate.io/break-glass": note}}});
    lab.merge(&check(), &glass).await.unwrap();
    lab.delete(&check()).await;
    within(SOON, "it comes back armed", async || {
        let object = lab.get(&check()).await?;
        let is_new = object["metadata"]["annotations"]["meshgate.io/break-glass"] == Value::Null;
        (is_new && lab.policies().await.iter().all(|one| one == "Fail")).then_some(())
    })
    .await;

    // The other one leads, and takes nothing away.
    let after = start("after", RENAMED, "b").await;
    before.order("stop").await;
    leads(PATIENCE, &[&after]).await;
    let differs = "1 of 2 serving replicas have another configuration: replica-1";
    let waits = "armed for another configuration, until all serving replicas have this one";
    says(&after, &[waits, differs]).await;
    assert!(selects_by(&lab, LABEL).await && !selects_by(&lab, RENAMED_LABEL).await);
    assert!(lab.policies().await.iter().all(|one| one == "Fail"));

    // All of them have it.
    is_ready(&lab, &second).await;
    lab.delete(&first).await;
    says(&after, &["armed: 4 of 4 entries"]).await;
    within(PATIENCE, "it is in force", async || {
        let is_new = selects_by(&lab, RENAMED_LABEL).await && !selects_by(&lab, LABEL).await;
        is_new.then_some(())
    })
    .await;
    lab.is_closed().await;
}
