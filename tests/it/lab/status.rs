//! `meshgate status` against a real API server, with meshgate alive and dead.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::harness::{Lab, Meshgate, User, within};
use super::registration::{CONFIG, INJECT, SECONDS, lab, pod};

const HOME: &str = "/api/v1/namespaces/meshgate-system";

struct Status {
    code: Option<i32>,
    rows: Vec<(String, String, String)>,
}

impl Status {
    async fn of(lab: &Lab, user: User) -> Self {
        let outcome = lab.tool(user, &["status", "-o=json"]).await;
        let answer: Value = serde_json::from_str(&outcome.out)
            .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        let rows = answer["rows"].as_array().unwrap().iter();
        let rows = rows.map(|row| {
            let text = |key: &str| row[key].as_str().unwrap().to_owned();
            (text("part"), text("grade"), text("text"))
        });
        Self {
            code: outcome.code,
            rows: rows.collect(),
        }
    }

    fn has(&self, part: &str, grade: &str, text: &str) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| row.0 == part && row.1 == grade && row.2.contains(text))
    }

    fn findings(&self) -> Vec<&str> {
        let rows = self.rows.iter().filter(|row| row.1 == "finding");
        rows.map(|row| row.2.as_str()).collect()
    }
}

/// What a chart and the controllers bring, as far as it is looked at.
async fn installed(lab: &Lab, meshgate: &Meshgate<'_>) {
    lab.ensure_namespace("meshgate-system").await;
    let metadata = |name: &str| json!({"name": name});
    let configuration =
        json!({"metadata": metadata("meshgate-1f2e"), "data": {"meshgate.yaml": CONFIG}});
    let certificate = std::fs::read(meshgate.certs().join("tls.crt")).unwrap();
    let data = json!({"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode("none")});
    let template = json!({
        "metadata": {"labels": {"a": "a"}},
        "spec": {
            "containers": [{"name": "a", "image": "a.test/a"}],
            "volumes": [{"name": "configuration", "configMap": {"name": "meshgate-1f2e"}}],
        },
    });
    let selector = json!({"matchLabels": {"a": "a"}});
    let spec = json!({"replicas": 0, "selector": selector, "template": template});
    // Far ahead: the test is not about its age.
    let lease = json!({"holderIdentity": "control-1", "leaseDurationSeconds": 15,
        "renewTime": "2126-01-01T00:00:00.000000Z"});
    let deployments = "/apis/apps/v1/namespaces/meshgate-system/deployments";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/meshgate-system/leases";
    for (path, object) in [
        (format!("{HOME}/configmaps"), configuration),
        (
            format!("{HOME}/secrets"),
            json!({"metadata": metadata("meshgate-tls"), "data": data}),
        ),
        (
            deployments.to_owned(),
            json!({"metadata": metadata("meshgate"), "spec": spec}),
        ),
        (
            leases.to_owned(),
            json!({"metadata": metadata("meshgate-control"), "spec": lease}),
        ),
    ] {
        lab.create(&path, &object).await.unwrap();
    }
    for (name, component, node) in [
        ("a", "serve", "one"),
        ("b", "serve", "two"),
        ("c", "control", "one"),
    ] {
        let mut pod = pod(name);
        pod["spec"]["nodeName"] = json!(node);
        pod["metadata"]["labels"] = json!({
            "app.kubernetes.io/part-of": "meshgate",
            "app.kubernetes.io/component": component,
            "meshgate.io/configuration": "1f2e",
        });
        lab.create(&format!("{HOME}/pods"), &pod).await.unwrap();
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        lab.merge(&format!("{HOME}/pods/{name}/status"), &ready)
            .await
            .unwrap();
    }
}

/// As a controller tells of it that was refused.
async fn refused(lab: &Lab) {
    let refused =
        "Error creating: admission webhook \"linkerd.gate.meshgate.io\" denied the request: x";
    let now = lab.get(HOME).await.unwrap()["metadata"]["creationTimestamp"].clone();
    let object = json!({"kind": "ReplicaSet", "namespace": "default", "name": "shop-6c9f"});
    let event = json!({"metadata": {"name": "x"}, "involvedObject": object, "reason": "FailedCreate",
        "message": refused, "lastTimestamp": now, "count": 7});
    lab.create("/api/v1/namespaces/default/events", &event)
        .await
        .unwrap();
}

#[tokio::test]
async fn it_says_how_an_installation_is() {
    let lab = lab(&[], &[]).await;
    let none = Status::of(&lab, User::Admin).await;
    assert_eq!(none.code, Some(1));
    assert!(none.has("registration", "finding", "there is none"));

    let meshgate = Meshgate::start(&lab, CONFIG).await;
    installed(&lab, &meshgate).await;
    let seen = Status::of(&lab, User::Admin).await;
    for (part, text) in [
        ("armed", "4 of 4 entries armed"),
        ("replicas", "2 of 2 ready, on 2 nodes (a.test/a)"),
        ("control", "1 of 1 ready"),
        ("leader", "control-1"),
        ("certificates", "served with: until "),
        ("certificates", "trusted by the API server: until "),
        ("refusals", "none"),
    ] {
        assert!(seen.has(part, "good", text), "{text}: {:?}", seen.rows);
    }
    let injector = "linkerd not installed: no webhook configuration has an entry of it";
    assert_eq!(seen.findings(), [injector]);
    assert_eq!(seen.code, Some(1));

    refused(&lab).await;
    meshgate.order("kill").await;
    lab.tool(
        User::Admin,
        &["break-glass", "--for=1h", "--reason=x", "--yes"],
    )
    .await
    .ok();
    let dead = Status::of(&lab, User::Admin).await;
    assert_eq!(dead.rows[0].0, "break-glass");
    assert!(
        dead.rows[0]
            .2
            .starts_with("ENFORCEMENT IS SUSPENDED for everything until "),
        "{:?}",
        dead.rows
    );
    assert!(
        dead.has("armed", "finding", "NOT ARMED: 0 of 4"),
        "{:?}",
        dead.rows
    );
    assert!(
        dead.has("refusals", "fact", "ReplicaSet default/shop-6c9f (7x, "),
        "{:?}",
        dead.rows
    );

    // A user who may see little is told so.
    let little = Status::of(&lab, User::Alice).await;
    assert_eq!(little.code, Some(2));
    assert!(
        little.has("registration", "unknown", "cannot list resource"),
        "{:?}",
        little.rows
    );
    let text = lab.tool(User::Alice, &["status"]).await;
    assert!(!text.out.contains('\u{1b}'), "colours are for terminals");
}

#[tokio::test]
async fn why_it_is_not_armed_is_told_by_the_part_that_knows() {
    let lab = lab(&[], &[]).await;
    let certs = lab.folder_of("certs");
    let meshgate = super::registration::arming::Unreached::start(&lab, CONFIG, &certs, false).await;
    within(SECONDS, "status says why", async || {
        let seen = Status::of(&lab, User::Admin).await;
        seen.has("said", "finding", "connection refused")
            .then_some(())
    })
    .await;
    let orders = lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    let way = meshgate.way().await;
    lab.is_closed().await;
    within(SECONDS, "it is told that it is over", async || {
        let seen = Status::of(&lab, User::Admin).await;
        (!seen.has("said", "finding", "")).then_some(())
    })
    .await;
    assert!(lab.is_labelled(&orders).await);
    drop(way);
}
