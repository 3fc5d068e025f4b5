//! Who enforces is changed while pods are created: none is admitted bare, none refused that should
//! pass.

use std::convert::Infallible;

use futures::future::{Either, join_all, select};
use serde_json::{Value, json};

use super::harness::{Guest, Lab, User, within};
use super::registration::{CONFIG, INJECT, SECONDS, check, gate, lab, pod};
use crate::support::process::get;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

/// The same injector by another name.
const RENAMED: &str = "apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
  name: mesh
";

/// A replica that answers all the time, and writers of its registration, one after the other.
struct Installation<'l> {
    lab: &'l Lab,
    answers: u16,
}

impl<'l> Installation<'l> {
    async fn start(lab: &'l Lab) -> Self {
        let [answers, probes] = lab.ports().await;
        let own = Self { lab, answers };
        own.add("replica", (CONFIG, answers, probes), &[]).await;
        within(SECONDS, "the replica is ready", async || {
            let ready = get(([127, 0, 0, 1], probes).into(), "/readyz?verbose");
            ready.contains("readyz check passed").then_some(())
        })
        .await;
        own
    }

    async fn add(&self, name: &str, (config, https, probes): (&str, u16, u16), more: &[String]) {
        let file = self.lab.folder_of(name).join("config.yaml");
        std::fs::write(&file, config).unwrap();
        let flags = [
            format!(
                "--kubeconfig={}",
                self.lab.kubeconfig(User::Admin).display()
            ),
            format!("--config={}", file.display()),
            format!("--certs-dir={}", self.lab.folder_of("certs").display()),
            format!("--listen=127.0.0.1:{https}"),
            format!("--admin-listen=127.0.0.1:{probes}"),
        ];
        let guest = Guest {
            program: env!("CARGO_BIN_EXE_meshgate").into(),
            args: ["serve".to_owned()]
                .into_iter()
                .chain(flags)
                .chain(more.iter().cloned())
                .collect(),
            ..Guest::default()
        };
        self.lab.add(name, &guest).await;
    }

    /// Starts a writer, waits for what it is to bring about, and stops it.
    async fn write(&self, number: usize, (config, enforcement): (&str, &str)) {
        let [https, probes] = self.lab.ports().await;
        let name = format!("writer-{number}");
        let more = [
            format!("--webhook-url=https://127.0.0.1:{}", self.answers),
            format!("--enforcement={enforcement}"),
        ];
        self.add(&name, (config, https, probes), &more).await;
        let what = format!("{enforcement} enforces");
        within(SECONDS * 2, &what, async || {
            let (is_checked, policies) = forms(self.lab).await;
            let wanted = match (enforcement, config == RENAMED) {
                ("webhook", _) => vec![],
                (_, false) => vec!["in-force.meshgate.io", "linkerd.check.meshgate.io"],
                (_, true) => vec!["in-force.meshgate.io", "mesh.check.meshgate.io"],
            };
            let is_webhook = enforcement == "webhook";
            let is_right = policies == wanted && is_checked == is_webhook;
            let is_armed = self.lab.policies().await.iter().all(|one| one == "Fail");
            (is_right && is_armed == is_webhook).then_some(())
        })
        .await;
        self.lab.order(&format!("stop {name}")).await;
    }
}

/// Whether the check is a webhook, and the policies, but for the guard.
async fn forms(lab: &Lab) -> (bool, Vec<String>) {
    let list = lab.get(POLICIES).await.unwrap();
    let names = list["items"].as_array().unwrap().iter();
    let names = names.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned());
    let names = names.filter(|name| name != "guard.meshgate.io").collect();
    (lab.get(&check()).await.is_some(), names)
}

fn meshed(name: &str) -> Value {
    let mut pod = pod(name);
    let sidecar = json!({"name": "linkerd-proxy", "image": "a.test/proxy"});
    pod["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(sidecar);
    let init = json!([{"name": "linkerd-init", "image": "a.test/init"}]);
    pod["spec"]["initContainers"] = init;
    pod
}

/// Creates pods until it is dropped; a wrong answer fails the test.
async fn always_right(lab: &Lab, orders: &str, plain: &str) -> Infallible {
    let dry = async |namespace: &str, pod: &Value| {
        let pods = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
        lab.create(&pods, pod).await
    };
    loop {
        let bare = join_all((0..3).map(|_| async { dry(orders, &pod("bare")).await })).await;
        for answer in bare {
            let refused = answer.expect_err("a pod was admitted bare").to_string();
            assert!(
                refused.contains("requires"),
                "refused for another reason: {refused}"
            );
        }
        let fine = [(orders, meshed("meshed")), (plain, pod("plain"))];
        for answer in join_all(fine.iter().map(|(name, pod)| dry(name, pod))).await {
            answer.expect("a pod was refused that should pass");
        }
    }
}

#[tokio::test]
async fn who_enforces_is_changed_and_no_pod_notices() {
    let lab = lab(&[], &[]).await;
    let orders = lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    let plain = lab.namespace("plain", &[], &[]).await;
    let installation = Installation::start(&lab).await;
    installation.write(0, (CONFIG, "webhook")).await;
    lab.is_closed().await;

    let switches = async {
        let ways = [
            (CONFIG, "policy"),
            (CONFIG, "webhook"),
            (CONFIG, "policy"),
            (RENAMED, "policy"),
            (CONFIG, "webhook"),
            (RENAMED, "policy"),
        ];
        for (number, way) in (1..).zip(ways) {
            installation.write(number, way).await;
        }
    };
    let switches = std::pin::pin!(switches);
    let trying = std::pin::pin!(always_right(&lab, &orders, &plain));
    match select(switches, trying).await {
        Either::Left(((), _)) => {}
        Either::Right((never, _)) => match never {},
    }

    // The policy holds with no replica there.
    lab.order("stop replica").await;
    let pods = format!("/api/v1/namespaces/{orders}/pods?dryRun=All");
    let refused = lab
        .create(&pods, &pod("bare"))
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("mesh.check.meshgate.io"), "{refused}");
    lab.create(&pods, &meshed("meshed")).await.unwrap();
    let entries = lab.get(&gate()).await.unwrap();
    let entries = entries["webhooks"].as_array().unwrap().iter();
    let mut policies = entries.filter(|one| one["name"] != "reach.meshgate.io");
    assert!(policies.all(|one| one["failurePolicy"] == "Ignore"));
}
