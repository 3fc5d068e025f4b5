//! A meshgate that comes back with another configuration takes nothing away before it is in force.

use std::convert::Infallible;

use futures::future::{join_all, select};
use kube::Error;
use serde_json::{Value, json};

use super::arming::Unreached;
use super::{INJECT, LABEL, SECONDS, check, gate, lab, paths, pod};
use crate::lab::harness::version::has_mutating_policies;
use crate::lab::harness::{Lab, Meshgate, within};
use crate::support::process::get;

/// The same injector by another name: entries select by another label.
const RENAMED: &str = "apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
  name: mesh
";

const RENAMED_LABEL: &str = "meshgate.io/requires.mesh";

/// Pods that are created at the same time, all the time.
const AT_ONCE: usize = 3;

/// The dry run of a pod that says nothing: what refuses it, if anything does.
async fn tried(lab: &Lab, namespace: &str) -> Option<Error> {
    let pods = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    lab.create(&pods, &pod("bare")).await.err()
}

/// Creates pods until it is dropped; one that is admitted fails the test.
async fn never_admitted(lab: &Lab, namespaces: &[&str]) -> Infallible {
    loop {
        let all = namespaces.iter().flat_map(|name| [*name; AT_ONCE]);
        let refused = join_all(all.map(async |name| (name, tried(lab, name).await))).await;
        for (name, refused) in refused {
            assert!(refused.is_some(), "a pod was admitted bare in {name}");
        }
    }
}

/// Does something while no pod is admitted.
async fn guarded<T>(lab: &Lab, namespaces: &[&str], doing: impl Future<Output = T>) -> T {
    let doing = std::pin::pin!(doing);
    let trying = std::pin::pin!(never_admitted(lab, namespaces));
    match select(doing, trying).await {
        futures::future::Either::Left((done, _)) => done,
        futures::future::Either::Right((never, _)) => match never {},
    }
}

async fn labels(lab: &Lab, namespace: &str) -> Vec<String> {
    let object = lab.get(&format!("/api/v1/namespaces/{namespace}")).await;
    let labels = object.unwrap()["metadata"]["labels"].clone();
    let keys = labels.as_object().unwrap().keys();
    keys.filter(|key| key.starts_with("meshgate.io/"))
        .cloned()
        .collect()
}

async fn selectors(lab: &Lab) -> String {
    let mut text = String::new();
    for path in [gate(), check()] {
        let object = lab.get(&path).await.unwrap();
        let entries = object["webhooks"].as_array().unwrap().iter();
        text.extend(entries.map(|entry| json!(entry["namespaceSelector"]).to_string()));
    }
    text
}

/// What is annotated while no replica answers is guarded as before. Where a webhook keeps the labels, it is
/// refused, and there is no namespace to return.
async fn annotated_meanwhile(lab: &Lab) -> Option<String> {
    if has_mutating_policies() {
        let later = lab.namespace("later", &[], &[(INJECT, "enabled")]).await;
        assert_eq!(labels(lab, &later).await, [LABEL]);
        return Some(later);
    }
    let later = json!({"metadata": {"name": "later", "annotations": {INJECT: "enabled"}}});
    let refused = lab.create("/api/v1/namespaces", &later).await.unwrap_err();
    assert!(refused.to_string().contains("namespaces.meshgate.io"));
    None
}

#[tokio::test]
async fn another_configuration_lets_no_pod_in_on_its_way() {
    let lab = lab(&[], &[]).await;
    let orders = lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    let excepted = lab.namespace("excepted", &[], &[(INJECT, "enabled")]).await;
    let before = format!(
        "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors: [{{preset: linkerd}}]\n\
         excludedNamespaces: [{excepted}]\n"
    );
    let first = Meshgate::start(&lab, &before).await;
    within(SECONDS, "pods are refused", async || {
        tried(&lab, &orders).await
    })
    .await;
    assert_eq!(labels(&lab, &orders).await, [LABEL]);
    assert_eq!(labels(&lab, &excepted).await, [""; 0]);
    assert!(tried(&lab, &excepted).await.is_none());

    // Not reached: nothing at all changes but the entry that is to prove it, and the guard, which lets
    // that entry have the new address.
    let certs = lab.folder_of("certs");
    let of_others = |path: &String| *path != gate() && *path != check() && !path.contains("guard");
    let all: Vec<String> = paths().into_iter().filter(of_others).collect();
    let settled = lab.versions(&all).await;
    let meshgate = guarded(&lab, &[&orders], async {
        first.order("stop").await;
        let meshgate = Unreached::start(&lab, RENAMED, &certs, false).await;
        within(SECONDS, "it is not reached", async || {
            let ready = get(meshgate.probes, "/readyz?verbose");
            let refuses = lab.log_of("unreached").contains("stays armed");
            (refuses && ready.contains("not reached at https://")).then_some(())
        })
        .await;
        meshgate
    })
    .await;
    assert_eq!(lab.versions(&all).await, settled);
    assert!(get(meshgate.probes, "/metrics").contains("meshgate_registration_armed 0"));
    assert!(!selectors(&lab).await.contains(RENAMED_LABEL));
    let later = annotated_meanwhile(&lab).await;
    let mut meshed = vec![&*orders];
    meshed.extend(later.as_deref());

    // Reached: all of it, and no pod on the way.
    let way = guarded(&lab, &meshed, async {
        let way = meshgate.way().await;
        within(SECONDS, "the other configuration is in force", async || {
            let is_done = !selectors(&lab).await.contains(LABEL);
            (is_done && labels(&lab, &orders).await == [RENAMED_LABEL]).then_some(())
        })
        .await;
        way
    })
    .await;
    lab.is_closed().await;
    for namespace in meshed.into_iter().chain([&*excepted]) {
        let is_exact = async || {
            let labels = labels(&lab, namespace).await;
            (labels == [RENAMED_LABEL]).then_some(())
        };
        within(SECONDS, "labels are as the other one wants them", is_exact).await;
        let refused = tried(&lab, namespace).await;
        assert!(refused.is_some_and(|error| error.to_string().contains("mesh")));
    }
    drop(way);
}

/// What it says where there is nothing to arm.
#[tokio::test]
async fn it_is_said_who_enforces_where_nothing_is_armed() {
    let lab = lab(&[], &[]).await;
    let of = |mode: &str| RENAMED.replace("  name: mesh", mode);
    let says = async |meshgate: &Meshgate<'_>, said: &str, armed: u8| {
        within(SECONDS, said, async || {
            let metric = format!("meshgate_registration_armed {armed}");
            let ready = get(meshgate.probes, "/readyz?verbose");
            (ready.contains(said) && meshgate.metrics().contains(&metric)).then_some(())
        })
        .await;
    };
    let warning = Meshgate::start(&lab, &of("  mode: warn")).await;
    says(&warning, "nothing enforces", 0).await;
    let waits = |entry: &Value| entry["timeoutSeconds"] == 2 && entry["failurePolicy"] == "Ignore";
    // It is said of the configuration, before its entries are written.
    within(SECONDS, "entries wait for an answer, briefly", async || {
        let gate = lab.get(&gate()).await?;
        gate["webhooks"].as_array()?.iter().any(waits).then_some(())
    })
    .await;
    warning.order("stop").await;
    let policy = ["--enforcement=policy"];
    let policy = Meshgate::with(&lab, &of("  mode: enforce"), &policy).await;
    says(&policy, "the policy enforces", 1).await;
}
