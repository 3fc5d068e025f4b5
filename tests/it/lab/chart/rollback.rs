//! A rollback out of injectors, where policies enforce: the leader has the rights of the revision that is
//! restored.

use serde_json::{Value, json};

use super::life::helm;
use crate::lab::harness::{Control, HOME, Lab, PATIENCE, User, within};
use crate::lab::registration::lab;

const POLICY: &str = "--set=enforcement=policy";
const LINKERD: &str = "--set-json=injectors=[\"linkerd\"]";
const THREE: &str = r#"--set-json=injectors=["linkerd","vault",{"name":"own",
"service":{"namespace":"own","name":"own"},"webhook":"inject.own.example",
"rules":[{"when":[{"podLabel":"own","in":["true"]}],"then":"required"}],"injected":[{"sidecar":"own"}]}]"#;
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

async fn binding(lab: &Lab, injector: &str) -> Option<Value> {
    lab.get(&format!("{BINDINGS}/{injector}.check.meshgate.io"))
        .await
}

/// One with the Configuration and the rights of the release.
async fn control<'l>(lab: &'l Lab, name: &str) -> Control<'l> {
    let maps = format!("/api/v1/namespaces/{HOME}/configmaps");
    let maps = lab.get(&maps).await.unwrap();
    let mut maps = maps["items"].as_array().unwrap().iter();
    let config = maps.find_map(|map| map["data"]["meshgate.yaml"].as_str());
    let kubeconfig = lab.kubeconfig_for(HOME, "meshgate-control").await;
    let flags = ["--enforcement=policy"];
    Control::start_as(lab, (name, &kubeconfig), config.unwrap(), &flags).await
}

#[tokio::test]
async fn the_leader_goes_on_where_a_rollback_took_rights_away() {
    let lab = lab(&[], &[]).await;
    let new = ["--create-namespace", POLICY, LINKERD];
    helm(&lab, &["install", "meshgate"], &new).await;
    helm(&lab, &["upgrade", "meshgate"], &[POLICY, THREE]).await;
    let first = control(&lab, "first").await;
    within(PATIENCE, "all policies enforce", async || {
        let is_there =
            binding(&lab, "own").await.is_some() && binding(&lab, "vault").await.is_some();
        (is_there && first.ready().contains("the policy enforces")).then_some(())
    })
    .await;
    first.order("stop").await;
    let open = ["break-glass", "--for=1s", "--reason=a try", "--yes"];
    lab.tool(User::Admin, &open).await.ok();

    helm(&lab, &["rollback", "meshgate", "1"], &[]).await;
    let second = control(&lab, "second").await;
    within(PATIENCE, "the preset's policy goes", async || {
        binding(&lab, "vault").await.is_none().then_some(())
    })
    .await;
    let linkerd = binding(&lab, "linkerd").await.unwrap();
    assert_eq!(linkerd["spec"]["validationActions"], json!(["Deny"]));
    within(PATIENCE, "what it may not do is told", async || {
        let (ready, metrics) = (second.ready(), second.metrics());
        let all = [
            "the policy enforces",
            "cannot change ValidatingAdmissionPolicyBinding own.check.meshgate.io",
            "cannot delete ValidatingAdmissionPolicy own.check.meshgate.io",
            "change the ClusterRole meshgate-control or the policy",
        ];
        let is_told = all.iter().all(|one| ready.contains(one));
        (is_told && metrics.contains("meshgate_registration_refused 2")).then_some(())
    })
    .await;
    // It tries again ever more slowly, and is done once an administrator has done it.
    assert!(second.log().matches("refuses a write").count() < 20);
    let delete = "validatingadmissionpolicies,validatingadmissionpolicybindings";
    let delete = ["delete", delete, "own.check.meshgate.io"];
    lab.kubectl(&delete).await.ok();
    within(PATIENCE, "nothing is refused any more", async || {
        let metrics = second.metrics();
        let is_over = metrics.contains("meshgate_registration_refused 0");
        (is_over && !second.ready().contains("refuses")).then_some(())
    })
    .await;
}
