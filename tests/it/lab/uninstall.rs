//! Everything of an installation goes, and nothing else; by somebody with the rights for it.

use serde_json::{Value, json};

use super::harness::{Lab, Meshgate, User, within};
use super::registration::{CONFIG, INJECT, SECONDS, lab};

/// What a chart brings, and what meshgate makes beside it.
const MANIFESTS: &str = "
{kind: Deployment, apiVersion: apps/v1, metadata: {name: meshgate, LABELS}, spec: {replicas: 0, SPEC}}
---
{kind: Deployment, apiVersion: apps/v1, metadata: {name: meshgate-control, LABELS}, spec: {replicas: 0, SPEC}}
---
{kind: Service, apiVersion: v1, metadata: {name: meshgate, LABELS}, spec: {ports: [{port: 443}]}}
---
{kind: ConfigMap, apiVersion: v1, metadata: {name: meshgate-1f2e, LABELS}}
---
{kind: Secret, apiVersion: v1, metadata: {name: meshgate-ca, OURS}}
---
{kind: Secret, apiVersion: v1, metadata: {name: meshgate-tls, OURS}}
---
{kind: Secret, apiVersion: v1, metadata: {name: sh.helm.release.v1.mg.v3, labels: {owner: helm, name: mg}}}
---
{kind: Lease, apiVersion: coordination.k8s.io/v1, metadata: {name: meshgate-control, OURS}}
---
{kind: PodDisruptionBudget, apiVersion: policy/v1, metadata: {name: meshgate, LABELS}, spec: {maxUnavailable: 1}}
---
{kind: ServiceAccount, apiVersion: v1, metadata: {name: meshgate-control, LABELS}}
---
{kind: ClusterRole, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: meshgate-serve, LABELS}, rules: []}
---
{kind: ClusterRoleBinding, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: meshgate-serve, LABELS}, ROLE}
---
{kind: ConfigMap, apiVersion: v1, metadata: {name: others}}
---
{kind: ClusterRole, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: others}, rules: []}
";

/// What a chart brings elsewhere.
const ELSEWHERE: &str = "{kind: Role, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: meshgate, LABELS}, rules: []}";

const PATHS: [&str; 14] = [
    "/apis/apps/v1/namespaces/meshgate-system/deployments/meshgate",
    "/apis/apps/v1/namespaces/meshgate-system/deployments/meshgate-control",
    "/api/v1/namespaces/meshgate-system/services/meshgate",
    "/api/v1/namespaces/meshgate-system/configmaps/meshgate-1f2e",
    "/api/v1/namespaces/meshgate-system/secrets/meshgate-ca",
    "/api/v1/namespaces/meshgate-system/secrets/meshgate-tls",
    "/api/v1/namespaces/meshgate-system/secrets/sh.helm.release.v1.mg.v3",
    "/apis/coordination.k8s.io/v1/namespaces/meshgate-system/leases/meshgate-control",
    "/apis/policy/v1/namespaces/meshgate-system/poddisruptionbudgets/meshgate",
    "/api/v1/namespaces/meshgate-system/serviceaccounts/meshgate-control",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/meshgate-serve",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/meshgate-serve",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/meshgate",
    "/api/v1/namespaces/meshgate-system",
];

const OTHERS: [&str; 2] = [
    "/api/v1/namespaces/meshgate-system/configmaps/others",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/others",
];

async fn installed(lab: &Lab) {
    const NAME: &str = "app.kubernetes.io";
    let labels = format!("{NAME}/part-of: meshgate, {NAME}/instance: mg, {NAME}/managed-by: Helm");
    let role =
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: meshgate-serve}";
    let spec = "selector: {matchLabels: {a: a}}, template: {metadata: {labels: {a: a}}, spec: {containers: \
                [{name: a, image: a.test/a}]}}";
    let labels = format!("labels: {{{labels}}}");
    lab.apply("default", &ELSEWHERE.replace("LABELS", &labels))
        .await;
    let manifests = MANIFESTS
        .replace("LABELS", &labels)
        .replace("OURS", &format!("labels: {{{NAME}/managed-by: meshgate}}"))
        .replace("ROLE", role)
        .replace("SPEC", spec);
    lab.apply("meshgate-system", &manifests).await;
}

/// Those that are there, and not about to go.
async fn there<'p>(lab: &Lab, paths: &[&'p str]) -> Vec<&'p str> {
    let mut there = Vec::new();
    for path in paths {
        let object = lab.get(path).await;
        let stays = |object: &Value| object["metadata"]["deletionTimestamp"].is_null();
        there.extend(object.filter(stays).map(|_| *path));
    }
    there
}

#[tokio::test]
async fn everything_goes_and_nothing_else() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    meshgate.order("kill").await;
    installed(&lab).await;

    // The namespace is somebody else's: it stays, and what is in it that is not ours.
    let would = lab
        .tool(User::Admin, &["uninstall", "--dry-run", "-o=json"])
        .await;
    assert_eq!(would.code, Some(1), "{would:?}");
    let would: Value = serde_json::from_str(&would.out).unwrap();
    assert_eq!(would["foreignNamespace"], "meshgate-system");
    assert_eq!(there(&lab, &PATHS).await, PATHS);
    let done = lab.tool(User::Admin, &["uninstall", "--yes"]).await.ok();
    assert_eq!(
        done.matches("sh.helm.release.v1.mg.v3").count(),
        1,
        "{done}"
    );
    assert!(done.contains("Namespace meshgate-system stays"), "{done}");
    assert_eq!(there(&lab, &PATHS).await, PATHS[13..]);
    assert_eq!(there(&lab, &OTHERS).await, OTHERS);
    assert_eq!(lab.remains().await, [""; 0]);

    // Ours goes with all that is in it.
    let labels = json!({"metadata": {"labels": {"app.kubernetes.io/part-of": "meshgate"}}});
    lab.merge(PATHS[13], &labels).await.unwrap();
    installed(&lab).await;
    let done = lab.tool(User::Admin, &["uninstall", "--yes"]).await.ok();
    assert!(
        done.contains("Namespace meshgate-system is on its way"),
        "{done}"
    );
    assert_eq!(there(&lab, &PATHS).await, [""; 0]);
    let again = lab.tool(User::Admin, &["uninstall", "--yes"]).await;
    assert_eq!(again.code, Some(0), "{again:?}");
}

#[tokio::test]
async fn what_may_not_be_removed_holds_up_nothing_else() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    meshgate.order("kill").await;
    installed(&lab).await;
    let reads = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "patch"]});
    let mut rules = vec![reads];
    let deletes = PATHS.iter().filter_map(|path| path.rsplit('/').nth(1));
    let deletes: Vec<&str> = deletes
        .filter(|plural| *plural != "services")
        .chain([
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ])
        .collect();
    rules.push(json!({"apiGroups": ["*"], "resources": deletes, "verbs": ["delete"]}));
    lab.allow_alice("meshgate-removes", &json!(rules)).await;
    let done = lab.tool(User::Alice, &["uninstall", "--yes"]).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.err.contains("cannot delete Service meshgate"),
        "{done:?}"
    );
    assert_eq!(there(&lab, &PATHS).await, [PATHS[2], PATHS[13]]);
    assert_eq!(lab.remains().await, [""; 0]);
}

/// What the chart's hook may do.
fn rights() -> Value {
    let (write, group) = (
        ["get", "list", "patch", "delete"],
        "admissionregistration.k8s.io",
    );
    json!([
        {"apiGroups": [group], "resources": ["*"], "verbs": write},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["meshgate"],
         "verbs": ["get", "delete"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["meshgate-control"], "verbs": ["get", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["meshgate-ca", "meshgate-tls"], "verbs": ["get", "delete"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["meshgate-control"], "verbs": ["get", "delete"]},
    ])
}

#[tokio::test]
async fn the_chart_s_hook_stops_the_writer_and_leaves_the_chart_s_own() {
    let lab = lab(&[], &[]).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    meshgate.order("kill").await;
    installed(&lab).await;
    lab.allow_alice("meshgate-uninstall", &rights()).await;
    // A pod of the writer's that takes its time.
    let labels =
        json!({"app.kubernetes.io/part-of": "meshgate", "app.kubernetes.io/component": "control"});
    let mut pod = super::registration::pod("control");
    pod["metadata"]["labels"] = labels;
    pod["metadata"]["finalizers"] = json!(["example.test/slow"]);
    let pods = "/api/v1/namespaces/meshgate-system/pods";
    lab.ensure_namespace("meshgate-system").await;
    lab.create(pods, &pod).await.unwrap();
    let path = format!("{pods}/control");
    let arguments = ["uninstall", "--registration-only", "--yes"];
    let ends = async {
        within(SECONDS, "the Deployment is gone", async || {
            lab.get(PATHS[1]).await.is_none().then_some(())
        })
        .await;
        assert!(!lab.remains().await.is_empty(), "it waits for the pod");
        lab.delete(&path).await;
        let finalizers = json!({"metadata": {"finalizers": null}});
        lab.merge(&path, &finalizers).await.unwrap();
    };
    let (done, ()) = tokio::join!(lab.tool(User::Alice, &arguments), ends);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(lab.remains().await, [""; 0]);
    let gone = [PATHS[1], PATHS[4], PATHS[5], PATHS[7]];
    let stay: Vec<&str> = PATHS
        .into_iter()
        .filter(|path| !gone.contains(path))
        .collect();
    assert_eq!(there(&lab, &PATHS).await, stay);
}
