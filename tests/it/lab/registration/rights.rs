//! An uninstall by a user who may not do all that it takes.

use serde_json::{Value, json};
use tokio::process::Command;

use super::{CONFIG, INJECT, gate, lab};
use crate::lab::harness::{Lab, Meshgate, PATIENCE, User};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Gives Alice these verbs on what meshgate writes, and on namespaces.
async fn allow(lab: &Lab, name: &str, ours: &[&str], namespaces: &[&str]) {
    let rules = json!([
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ours},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ours},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": namespaces},
    ]);
    let metadata = json!({"name": name});
    let role = json!({"metadata": metadata, "rules": rules});
    lab.create(ROLES, &role).await.unwrap();
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    });
    lab.create(BINDINGS, &binding).await.unwrap();
}

/// What the uninstall says that fails.
async fn fails(lab: &Lab) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_meshgate"))
        .args(["uninstall", "--yes", "--kubeconfig"])
        .arg(lab.kubeconfig(User::Alice))
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, output).await;
    let output = output.expect("it does not try until its deadline").unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn an_uninstall_without_a_right_says_which_and_leaves_no_glass_broken() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    meshgate.order("stop").await;

    allow(&lab, "marks", &["get", "list", "patch"], &["get", "list"]).await;
    let said = fails(&lab).await;
    let right = "User \"alice\" cannot delete resource \"mutatingwebhookconfigurations\"";
    assert_eq!(said.matches(right).count(), 1, "{said}");
    assert!(said.contains("was taken off it again"), "{said}");
    let left = lab.get(&gate()).await.unwrap();
    let glass = &left["metadata"]["annotations"]["meshgate.io/break-glass"];
    assert_eq!(*glass, Value::Null);

    allow(&lab, "removes", &["delete"], &["get"]).await;
    let said = fails(&lab).await;
    let right = "User \"alice\" cannot patch resource \"namespaces\"";
    assert_eq!(said.matches(right).count(), 1, "{said}");
    assert_eq!(lab.get(&gate()).await, None);

    allow(&lab, "labels", &["get"], &["patch"]).await;
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]);
    lab.allow_alice("looks", &everything).await;
    let remains = async || lab.remains().await;
    assert_eq!(remains().await.len(), 2, "a label, and the owner");
    let again = Command::new(env!("CARGO_BIN_EXE_meshgate"))
        .args(["uninstall", "--yes", "--kubeconfig"])
        .arg(lab.kubeconfig(User::Alice))
        .kill_on_drop(true)
        .output();
    let again = tokio::time::timeout(PATIENCE, again)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    assert_eq!(remains().await, [""; 0]);
}
