//! Helm's whole round against a real control plane: install, upgrade, an upgrade that fails, rollback,
//! uninstall. The nodes are kwok's, so pods are there and no meshgate runs in them.

use std::collections::BTreeSet;

use meshgate_core::render::{Client, Settings};
use serde_json::Value;

use super::LINKERD;
use crate::lab::harness::helm::{NO_REGISTRY, chart};
use crate::lab::harness::{Lab, PATIENCE, User, within};
use crate::manifests;

const HOME: &str = "meshgate-system";
const BOTH: &str = "--set=injectors={linkerd,istio}";
const VAULT: &str = "--set=injectors={vault}";

pub(super) async fn helm(lab: &Lab, verb: &[&str], values: &[&str]) {
    let (chart, all) = (chart(), ["--namespace", HOME]);
    let chart: &[&str] = match verb[0] {
        "install" | "upgrade" => &[&chart, NO_REGISTRY],
        _ => &[],
    };
    lab.helm(&[verb, chart, &all, values].concat()).await.ok();
}

async fn items(lab: &Lab, path: &str) -> Vec<Value> {
    let list = lab.get(path).await.unwrap();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Hashes of the ConfigMaps that there are.
async fn configurations(lab: &Lab) -> BTreeSet<String> {
    let maps = items(lab, "/api/v1/namespaces/meshgate-system/configmaps").await;
    let names = maps
        .iter()
        .map(|map| map["metadata"]["name"].as_str().unwrap().to_owned());
    let own = names.filter_map(|name| Some(name.strip_prefix("meshgate-")?.to_owned()));
    own.collect()
}

/// The configuration of the values, by what the Deployment has.
async fn current(lab: &Lab) -> String {
    let path = "/apis/apps/v1/namespaces/meshgate-system/deployments/meshgate";
    let deployment = lab.get(path).await.unwrap();
    let label = &deployment["spec"]["template"]["metadata"]["labels"]["meshgate.io/configuration"];
    label.as_str().unwrap().to_owned()
}

/// Waits until both Deployments have all their pods ready, of the newest kind only.
async fn rolled_out(lab: &Lab) {
    for name in ["meshgate", "meshgate-control"] {
        let path = format!("/apis/apps/v1/namespaces/meshgate-system/deployments/{name}");
        within(PATIENCE, &format!("{name} is rolled out"), async || {
            let deployment = lab.get(&path).await?;
            let status = &deployment["status"];
            let wanted = &deployment["spec"]["replicas"];
            let is_seen = status["observedGeneration"] == deployment["metadata"]["generation"];
            let counts = ["replicas", "updatedReplicas", "readyReplicas"];
            (is_seen && counts.iter().all(|count| status[count] == *wanted)).then_some(())
        })
        .await;
    }
}

/// Everything that mentions meshgate, by kind.
async fn remains(lab: &Lab) -> Vec<String> {
    let mut kinds = vec!["namespaces".to_owned()];
    for scope in ["--namespaced=true", "--namespaced=false"] {
        let list = ["api-resources", scope, "--verbs=list,create", "-o=name"];
        let list = lab.kubectl(&list).await.ok();
        kinds.extend(
            list.lines()
                .filter(|kind| !kind.starts_with("events"))
                .map(str::to_owned),
        );
    }
    let all = [
        "get",
        &kinds.join(","),
        "-A",
        "--ignore-not-found",
        "-o=name",
    ];
    let found = lab.kubectl(&all).await.ok();
    let ours = found.lines().filter(|name| name.contains("meshgate"));
    ours.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_release_leaves_nothing_behind_at_any_step() {
    let lab = Lab::alone().await;
    gone(&lab).await;
    helm(
        &lab,
        &["install", "meshgate"],
        &["--create-namespace", LINKERD],
    )
    .await;
    rolled_out(&lab).await;
    let first = current(&lab).await;
    assert_eq!(configurations(&lab).await, BTreeSet::from([first.clone()]));

    // What `control` writes of the owner does not stand in Helm's way.
    let ours = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--field-manager=meshgate",
        "-f=-",
    ];
    let namespace = lab.get("/api/v1/namespaces/meshgate-system").await.unwrap();
    let mut settings = Settings::new(Client::Url(String::new()), "meshgate-system");
    settings.namespace_uid = namespace["metadata"]["uid"].as_str().map(str::to_owned);
    let owner = meshgate_core::render::owner(&settings).to_string();
    lab.kubectl_as(User::Admin, &ours, &owner).await.ok();

    // What ran when the upgrade began may have to be started again while it lasts.
    helm(&lab, &["upgrade", "meshgate"], &[BOTH]).await;
    let second = current(&lab).await;
    let both = BTreeSet::from([first.clone(), second.clone()]);
    assert_eq!(configurations(&lab).await, both);
    rolled_out(&lab).await;

    // The same again is a new revision, which does not need the first any more.
    helm(&lab, &["upgrade", "meshgate"], &[BOTH]).await;
    assert_eq!(configurations(&lab).await, BTreeSet::from([second.clone()]));

    // One that never comes up, and one after it: the one that serves is kept through both.
    let nowhere = "--set=scheduling.nodeSelector.no=where";
    helm(&lab, &["upgrade", "meshgate"], &[LINKERD, nowhere]).await;
    within(
        PATIENCE,
        "the ReplicaSet that cannot be scheduled",
        async || {
            let pods = items(&lab, "/api/v1/namespaces/meshgate-system/pods").await;
            pods.iter()
                .any(|pod| pod["metadata"]["labels"]["meshgate.io/configuration"] == first)
                .then_some(())
        },
    )
    .await;
    helm(&lab, &["upgrade", "meshgate"], &[VAULT, nowhere]).await;
    assert!(configurations(&lab).await.contains(&second));

    // Back to the second: it comes with its configuration, and with no other.
    helm(&lab, &["rollback", "meshgate", "3"], &[]).await;
    rolled_out(&lab).await;
    assert_eq!(current(&lab).await, second);
    assert_eq!(configurations(&lab).await, BTreeSet::from([second.clone()]));
    helm(&lab, &["rollback", "meshgate", "1"], &[]).await;
    rolled_out(&lab).await;
    assert_eq!(configurations(&lab).await, BTreeSet::from([first]));

    helm(&lab, &["uninstall", "meshgate", "--wait"], &[]).await;
    let left = async || (remains(&lab).await == ["namespace/meshgate-system"]).then_some(());
    within(PATIENCE, "nothing but the namespace is left", left).await;
    gone(&lab).await;
}

/// By kubectl, and with nothing but the namespace deleted, what is cluster-wide is left for a second
/// command, which docs/operate.md names.
#[tokio::test]
async fn what_kubectl_applies_it_takes_away() {
    let lab = Lab::alone().await;
    gone(&lab).await;
    lab.apply_whole(&manifests::text("install.yaml")).await;
    rolled_out(&lab).await;
    let pods = items(&lab, "/api/v1/namespaces/meshgate-system/pods").await;
    let nodes: Vec<&str> = pods
        .iter()
        .filter(|pod| pod["metadata"]["labels"]["app.kubernetes.io/component"] == "serve")
        .map(|pod| pod["spec"]["nodeName"].as_str().unwrap())
        .collect();
    // Three on two nodes, and never all on one.
    assert_eq!(nodes.len(), 3);
    assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), 2, "{nodes:?}");
    let file = manifests::path("install.yaml").display().to_string();
    let delete = ["delete", "--ignore-not-found", "--wait=false", "-f", &file];
    lab.kubectl(&delete).await.ok();
    within(PATIENCE, "nothing is left", async || {
        remains(&lab).await.is_empty().then_some(())
    })
    .await;
}

/// Takes our namespace away, which other tests leave as well.
async fn gone(lab: &Lab) {
    let delete = [
        "delete",
        "namespace",
        HOME,
        "--wait=false",
        "--ignore-not-found",
    ];
    lab.kubectl(&delete).await.ok();
    within(PATIENCE, "nothing is left", async || {
        remains(lab).await.is_empty().then_some(())
    })
    .await;
}
