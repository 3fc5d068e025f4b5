//! What meshgate has written goes; what another tool installed stays, and its command is said.

use serde_json::{Value, json};

use super::harness::{Lab, Meshgate, User, within};
use super::registration::{CONFIG, INJECT, SECONDS, lab};

/// What a chart installs, and what meshgate writes beside it.
const MANIFESTS: &str = "
{kind: Deployment, apiVersion: apps/v1, metadata: {name: meshgate, LABELS}, spec: {replicas: 0, SPEC}}
---
{kind: Deployment, apiVersion: apps/v1, metadata: {name: meshgate-control, LABELS}, spec: {replicas: 1, SPEC}}
---
{kind: Service, apiVersion: v1, metadata: {name: meshgate, LABELS}, spec: {ports: [{port: 443}]}}
---
{kind: ConfigMap, apiVersion: v1, metadata: {name: meshgate-1f2e, LABELS}}
---
{kind: Secret, apiVersion: v1, metadata: {name: meshgate-ca, OURS}}
---
{kind: Secret, apiVersion: v1, metadata: {name: meshgate-tls, OURS}}
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

/// What a chart installs elsewhere.
const ELSEWHERE: &str = "{kind: Role, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: meshgate, LABELS}, rules: []}";

/// What meshgate has written into its own namespace.
const OWN: [&str; 3] = [
    "/api/v1/namespaces/meshgate-system/secrets/meshgate-ca",
    "/api/v1/namespaces/meshgate-system/secrets/meshgate-tls",
    "/apis/coordination.k8s.io/v1/namespaces/meshgate-system/leases/meshgate-control",
];

const CONTROL: &str = "/apis/apps/v1/namespaces/meshgate-system/deployments/meshgate-control";

/// What stays.
const INSTALLED: [&str; 12] = [
    "/apis/apps/v1/namespaces/meshgate-system/deployments/meshgate",
    CONTROL,
    "/api/v1/namespaces/meshgate-system/services/meshgate",
    "/api/v1/namespaces/meshgate-system/configmaps/meshgate-1f2e",
    "/apis/policy/v1/namespaces/meshgate-system/poddisruptionbudgets/meshgate",
    "/api/v1/namespaces/meshgate-system/serviceaccounts/meshgate-control",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/meshgate-serve",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/meshgate-serve",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/meshgate",
    "/api/v1/namespaces/meshgate-system",
    "/api/v1/namespaces/meshgate-system/configmaps/others",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/others",
];

/// As Helm installs it, or kubectl.
async fn installed(lab: &Lab, by_helm: bool) {
    const NAME: &str = "app.kubernetes.io";
    const HELM: &str = "meta.helm.sh";
    let mut marks = format!("labels: {{{NAME}/part-of: meshgate}}");
    if by_helm {
        marks.push_str(&format!(
            ", annotations: {{{HELM}/release-name: mg, {HELM}/release-namespace: meshgate-system}}"
        ));
    }
    let role =
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: meshgate-serve}";
    let spec = "selector: {matchLabels: {a: a}}, template: {metadata: {labels: {a: a}}, spec: {containers: \
                [{name: a, image: a.test/a}]}}";
    lab.apply("default", &ELSEWHERE.replace("LABELS", &marks))
        .await;
    let manifests = MANIFESTS
        .replace("LABELS", &marks)
        .replace("OURS", &format!("labels: {{{NAME}/managed-by: meshgate}}"))
        .replace("ROLE", role)
        .replace("SPEC", spec);
    lab.apply("meshgate-system", &manifests).await;
}

/// What a meshgate wrote until it was killed, and what [`installed`] it.
async fn written(lab: &Lab, by_helm: bool) {
    let meshgate = Meshgate::start(lab, CONFIG).await;
    lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    meshgate.order("kill").await;
    installed(lab, by_helm).await;
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

async fn replicas(lab: &Lab) -> i64 {
    let control = lab.get(CONTROL).await.unwrap();
    control["spec"]["replicas"].as_i64().unwrap()
}

#[tokio::test]
async fn what_meshgate_has_written_goes_and_nothing_else() {
    let lab = lab(&[], &[]).await;
    written(&lab, true).await;

    let dry_run = async || {
        let would = lab
            .tool(User::Admin, &["uninstall", "--dry-run", "-o=json"])
            .await;
        let answer: Value = serde_json::from_str(&would.out).unwrap();
        (would.code, answer)
    };
    let (code, would) = dry_run().await;
    assert_eq!(code, Some(1), "{would}");
    // The rights under which the lab runs meshgate carry its label too, and Helm did not install them.
    let commands: Vec<&str> = would["commands"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let (helm, kubectl) = commands.split_first().unwrap();
    assert_eq!(*helm, "helm uninstall mg --namespace meshgate-system");
    let are_rights =
        |command: &&str| command.contains("rbac.authorization") && !command.contains("deployments");
    assert!(kubectl.iter().all(are_rights), "{kubectl:?}");
    assert_eq!(would["controlRuns"], true);
    let listed = |answer: &Value, list: &str, name: &str| {
        let mut objects = answer[list].as_array().unwrap().iter();
        objects.any(|object| object["name"] == name)
    };
    assert!(listed(&would, "objects", "meshgate-ca"));
    assert!(listed(&would, "installed", "meshgate-serve"));
    // The ClusterRole that owns the registration goes with it.
    assert!(listed(&would, "objects", "meshgate") && !listed(&would, "objects", "others"));
    assert_eq!(there(&lab, &OWN).await, OWN);
    assert_eq!(replicas(&lab).await, 1);

    let done = lab.tool(User::Admin, &["uninstall", "--yes"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let scaled = "scaled Deployment meshgate-system/meshgate-control to 0 replicas";
    assert!(done.err.contains(scaled), "{done:?}");
    assert_eq!(replicas(&lab).await, 0);
    assert_eq!(there(&lab, &OWN).await, [""; 0]);
    assert_eq!(there(&lab, &INSTALLED).await, INSTALLED);
    assert_eq!(lab.remains().await, [""; 0]);

    let again = lab.tool(User::Admin, &["uninstall", "--yes"]).await;
    assert_eq!(again.code, Some(0), "{again:?}");
    let (code, would) = dry_run().await;
    assert_eq!(code, Some(0), "{would}");
    assert!(listed(&would, "installed", "meshgate-control"), "{would}");
}

/// What kubectl installed has no release: the commands that the dry run says remove it.
#[tokio::test]
async fn the_commands_that_are_said_remove_the_rest() {
    let lab = lab(&[], &[]).await;
    lab.ensure_namespace("meshgate-system").await;
    installed(&lab, false).await;
    // A control that runs would write the registration again.
    let running = lab.tool(User::Admin, &["uninstall", "--dry-run"]).await;
    assert_eq!(running.code, Some(1), "{running:?}");
    lab.tool(User::Admin, &["uninstall", "--yes"]).await.ok();
    let would = lab
        .tool(User::Admin, &["uninstall", "--dry-run", "-o=json"])
        .await
        .ok();
    let would: Value = serde_json::from_str(&would).unwrap();
    let commands = would["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 3, "{would}");
    for command in commands {
        let mut words = command.as_str().unwrap().split(' ');
        assert_eq!(words.next(), Some("kubectl"));
        let words: Vec<&str> = words.collect();
        lab.kubectl(&words).await.ok();
    }
    // The namespace has no label of the installation.
    assert_eq!(there(&lab, &INSTALLED).await, INSTALLED[9..]);
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
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments/scale"], "resourceNames": ["meshgate-control"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["meshgate-ca", "meshgate-tls"], "verbs": ["get", "delete"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["meshgate-control"], "verbs": ["get", "delete"]},
    ])
}

#[tokio::test]
async fn the_chart_s_hook_stops_the_writer_and_leaves_the_chart_s_own() {
    let lab = lab(&[], &[]).await;
    written(&lab, true).await;
    lab.allow_alice("meshgate-uninstall", &rights()).await;
    // A pod of control that takes its time.
    let labels =
        json!({"app.kubernetes.io/part-of": "meshgate", "app.kubernetes.io/component": "control"});
    let mut pod = super::registration::pod("control");
    pod["metadata"]["labels"] = labels;
    pod["metadata"]["finalizers"] = json!(["example.test/slow"]);
    let pods = "/api/v1/namespaces/meshgate-system/pods";
    lab.ensure_namespace("meshgate-system").await;
    lab.create(pods, &pod).await.unwrap();
    let path = format!("{pods}/control");
    let arguments = ["uninstall", "--yes"];
    let ends = async {
        within(SECONDS, "control is scaled to zero", async || {
            (replicas(&lab).await == 0).then_some(())
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
    assert_eq!(there(&lab, &OWN).await, [""; 0]);
    assert_eq!(there(&lab, &INSTALLED).await, INSTALLED);
}

#[tokio::test]
async fn what_may_not_be_removed_holds_up_nothing_else() {
    let lab = lab(&[], &[]).await;
    written(&lab, true).await;
    let mut rights = rights();
    for rule in rights.as_array_mut().unwrap() {
        if rule["resources"] == json!(["secrets"]) || rule["resources"] == json!(["pods"]) {
            rule["verbs"] = json!(["get"]);
        }
    }
    lab.allow_alice("meshgate-uninstall", &rights).await;
    let arguments = ["uninstall", "--yes", "-o=json"];
    let done = lab.tool(User::Alice, &arguments).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    let refused = "cannot delete secrets meshgate-system/meshgate-ca";
    assert!(done.err.contains(refused), "{done:?}");
    let unseen = "cannot list pods of namespace meshgate-system: pods is forbidden";
    assert!(done.err.contains(unseen), "{done:?}");
    let answer: Value = serde_json::from_str(&done.out).unwrap();
    let left = answer["left"].as_array().unwrap().iter();
    let left: Vec<&Value> = left.map(|object| &object["name"]).collect();
    assert_eq!(left, ["meshgate-ca", "meshgate-tls"], "{answer}");
    assert_eq!(there(&lab, &OWN).await, OWN[..2]);
    // Also the ClusterRole that owns the registration.
    assert_eq!(lab.remains().await, [""; 0]);
}
