//! The control plane does what a cluster's does.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::harness::version::{has_mutating_policies, minor, without_mutating_policies};
use super::harness::{Lab, Options, PATIENCE, User, within};
use crate::support::figures;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - {name: web, image: example.com/web}
";

/// The aim on an idle machine is 15 s; the bound is for one that is busy with other tests.
#[tokio::test]
async fn it_is_up_in_seconds() {
    let begin = Instant::now();
    let lab = Lab::own(Options::default()).await;
    let took = begin.elapsed();
    figures(&format!(
        "a control plane is up in {:.1} s",
        took.as_secs_f32()
    ));
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(lab.url().starts_with("https://127.0.0.1:"));
    let status = lab.order("status").await;
    let processes = status["processes"].as_object().unwrap();
    assert_eq!(processes.len(), 5, "{status}");
    assert!(processes.values().all(Value::is_u64), "{status}");
}

#[tokio::test]
async fn a_deployment_runs_on_its_nodes() {
    let lab = Lab::shared().await;
    lab.node("extra").await;
    let namespace = lab
        .namespace("web", &[("team", "a")], &[("note", "b")])
        .await;
    let seen = lab.get(&format!("/api/v1/namespaces/{namespace}")).await;
    let metadata = &seen.unwrap()["metadata"];
    assert_eq!(metadata["labels"]["team"], "a");
    assert_eq!(metadata["annotations"]["note"], "b");

    lab.apply(&namespace, WEB).await;
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let running = async || {
        let pods = lab.get(&path).await?["items"].take();
        let phases = pods.as_array()?.iter().map(|pod| &pod["status"]["phase"]);
        (phases.filter(|phase| *phase == "Running").count() == 3).then_some(pods)
    };
    let pods = within(PATIENCE, "3 pods are Running", running).await;
    let node = pods[0]["spec"]["nodeName"].as_str().unwrap();
    assert!(lab.get(&format!("/api/v1/nodes/{node}")).await.is_some());
}

#[tokio::test]
async fn a_plain_user_may_do_nothing_until_a_role_is_bound() {
    let lab = Lab::shared().await;
    let namespace = lab.namespace("plain", &[], &[]).await;
    let list = ["get", "pods", "-n", &namespace];
    let refused = lab.kubectl_as(User::Alice, &list, "").await;
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains(r#"User "alice" cannot list"#),
        "{}",
        refused.err
    );
    let bind = [
        "create",
        "rolebinding",
        "edit",
        "--clusterrole=edit",
        "--user=alice",
    ];
    lab.kubectl(&[&bind[..], &["-n", &namespace]].concat())
        .await
        .ok();
    let listed =
        async || (lab.kubectl_as(User::Alice, &list, "").await.code == Some(0)).then_some(());
    within(PATIENCE, "alice may list pods", listed).await;
}

/// Stopped, started, paused, killed: whatever happens to a component, it comes back with its data.
#[tokio::test]
async fn components_can_fail_and_come_back() {
    let lab = Lab::alone().await;
    let namespace = lab.namespace("kept", &[], &[]).await;
    let path = format!("/api/v1/namespaces/{namespace}");
    lab.order("stop kube-apiserver").await;
    assert!(lab.try_get(&path).await.is_err());
    lab.order("start kube-apiserver").await;
    assert!(lab.get(&path).await.is_some());
    lab.order("kill etcd").await;
    lab.order("start etcd").await;
    let is_back = async || lab.try_get(&path).await.ok();
    within(PATIENCE, "the namespace is there", is_back).await;
    lab.order("pause kube-controller-manager").await;
    lab.order("resume kube-controller-manager").await;
    let status = lab.order("status").await;
    assert!(
        status["processes"]
            .as_object()
            .unwrap()
            .values()
            .all(Value::is_u64),
        "{status}"
    );
}

/// After a compaction a watch cannot resume from where it was.
#[tokio::test]
async fn compaction_makes_an_old_watch_expire() {
    let only = vec!["etcd", "kube-apiserver"];
    let lab = Lab::own(Options {
        only,
        ..Options::default()
    })
    .await;
    let first = lab.get("/api/v1/namespaces").await.unwrap();
    let old = first["metadata"]["resourceVersion"].as_str().unwrap();
    for _ in 0..5 {
        lab.namespace("later", &[], &[]).await;
    }
    lab.order("compact").await;
    lab.order("restart kube-apiserver").await;
    let watch = format!("/api/v1/namespaces?watch=1&timeoutSeconds=5&resourceVersion={old}");
    let answer = lab.try_get(&watch).await;
    let code = match answer {
        Ok(event) => event["object"]["code"].clone(),
        Err(kube::Error::Api(status)) => json!(status.code),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(code, 410);
}

/// Else a test of an older version would be one of the newest.
#[tokio::test]
async fn an_api_server_is_of_the_version_that_was_asked_for() {
    let lab = Lab::shared().await;
    let version = lab.get("/version").await.unwrap();
    assert_eq!(version["minor"], minor().to_string());
}

/// An API server that does not have an API, as an older one: what is to work without it is tested
/// with this.
#[tokio::test]
async fn an_api_can_be_hidden() {
    let group = "/apis/admissionregistration.k8s.io/v1";
    let has = |resources: Value| {
        let resources = resources["resources"].as_array().unwrap().clone();
        resources
            .iter()
            .any(|r| r["name"] == "mutatingadmissionpolicies")
    };
    let shared = Lab::shared().await;
    let is_served = has(shared.get(group).await.unwrap());
    assert_eq!(is_served, has_mutating_policies());
    let flags = without_mutating_policies().iter();
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver"],
        api_server_flags: flags.map(|&flag| flag.to_owned()).collect(),
        ..Options::default()
    })
    .await;
    assert!(!has(lab.get(group).await.unwrap()));
    // Writing works: the admission plugin does not wait for the API that is not there.
    lab.namespace("older", &[], &[]).await;
}
