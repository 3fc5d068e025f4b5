//! The real injector of Dapr behind a real API server, and meshgate in front of it.
//!
//! One test, because the state of the injector and of the registration is the cluster's: the steps
//! below follow each other.

use serde_json::{Value, json};

use super::harness::{Dapr, Injection, Lab, Meshgate, Options, PATIENCE, User, pod, within};

const CONFIG: &str = "
apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: dapr
excludedNamespaces: [unguarded]
";

/// What refusals begin with: the gate's, the check's, the policy's that stands in for the check.
const GATE: &str = ".gate.meshgate.io\" denied the request: ";
const CHECK: &str = ".check.meshgate.io\" denied the request: ";
const POLICY: &str = "ValidatingAdmissionPolicy";

/// The hint of the preset.
const HINT: &str = "Dapr skips pods created by accounts outside its allow-list";

/// A Deployment of a pod that asks for Dapr.
const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {dapr.io/enabled: 'true', dapr.io/app-id: web}
    spec:
      containers: [{name: web, image: example.com/web}]
";

fn asks(value: &str) -> Value {
    pod(
        &[],
        &[("dapr.io/enabled", value), ("dapr.io/app-id", "web")],
    )
}

/// A cluster with Dapr, and a namespace to create pods in.
struct Scene<'l> {
    lab: &'l Lab,
    dapr: Dapr<'l>,
    namespace: String,
}

#[tokio::test]
async fn no_pod_that_dapr_is_to_inject_is_ever_bare() {
    let options = Options {
        only: vec!["etcd", "kube-apiserver", "kube-controller-manager"],
        ..Options::default()
    };
    let lab = Lab::own(options).await;
    let namespace = lab.namespace("orders", &[], &[]).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    let words = [GATE, "requires dapr", "but dapr is not installed"];
    let refusal = lab.refuses(&namespace, &asks("true"), &words).await;
    assert_eq!(
        (refusal.code, refusal.reason.as_str()),
        (503, "ServiceUnavailable")
    );

    let mut scene = Scene {
        lab: &lab,
        dapr: Dapr::install(&lab).await,
        namespace,
    };
    scene.stopped().await;
    scene.dapr.start().await;
    scene.running().await;
    scene
        .who_asks_for_nothing_is_not_our_business(&meshgate)
        .await;
    scene.ready_and_unable(CHECK).await;
    scene.by_an_account_that_dapr_skips(CHECK).await;

    let log = meshgate.log();
    assert!(log.contains("pod refused: Pod web-"), "{log}");
    meshgate.uninstall().await;
    let meshgate = Meshgate::with(&lab, CONFIG, &["--enforcement=policy"]).await;
    // The policy holds without us.
    meshgate.order("kill").await;
    scene.ready_and_unable(POLICY).await;
    scene.by_an_account_that_dapr_skips(POLICY).await;
    scene.what_dapr_makes_passes().await;
}

impl Scene<'_> {
    async fn stopped(&self) {
        let Self {
            lab,
            dapr,
            namespace,
        } = self;
        dapr.endpoint(false).await;
        let sentence = "but 0 of 1 endpoints of Service dapr-system/dapr-sidecar-injector are \
                        usable (1 not ready)";
        lab.refuses(namespace, &asks("true"), &[GATE, sentence])
            .await;
        let refusal = lab.create_pod(namespace, &asks("true")).await.unwrap_err();
        assert_eq!(refusal.code, 503);
        lab.apply(namespace, WEB).await;
        let refused = async || {
            let sets = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
            let sets = lab.get(&sets).await?;
            let conditions = sets["items"][0]["status"]["conditions"].to_string();
            conditions.contains("0 of 1 endpoints").then_some(())
        };
        within(PATIENCE, "the ReplicaSet says why it has no pod", refused).await;
    }

    /// Dapr injects for built-in controllers and for administrators.
    async fn running(&self) {
        let Self {
            lab,
            dapr,
            namespace,
        } = self;
        dapr.endpoint(true).await;
        self.what_dapr_makes_passes().await;
        let made = lab.create_pod(namespace, &asks("true")).await.unwrap();
        assert_eq!(
            made["metadata"]["annotations"]["meshgate.io/admitted"],
            "dapr"
        );
        let pods = format!("/api/v1/namespaces/{namespace}/pods?labelSelector=app%3Dweb");
        let created = async || {
            let pods = lab.get(&pods).await?;
            let pod = pods["items"].get(0)?;
            let none = json!({"spec": {}});
            let put = Injection::between(&none, pod);
            put.containers.contains("daprd").then_some(())
        };
        within(PATIENCE, "the pod of the Deployment, with daprd", created).await;
    }

    /// Whatever the real injector makes of a pod is meshed.
    async fn what_dapr_makes_passes(&self) {
        let Self { lab, namespace, .. } = self;
        for value in [
            "true",
            "True",
            "t",
            "yes",
            "y",
            "on",
            "1",
            " true",
            "\u{3000}On\n",
        ] {
            let put = lab.injects(namespace, &asks(value), "daprd").await;
            assert!(put.containers.contains("daprd"), "{value}: {put:?}");
        }
    }

    /// Without the annotation, or with another word in it: created without a call, and bare.
    async fn who_asks_for_nothing_is_not_our_business(&self, meshgate: &Meshgate<'_>) {
        let before = meshgate.calls();
        for pod in [
            pod(&[], &[]),
            asks("false"),
            asks("off"),
            asks(""),
            asks("enabled"),
            asks("true\u{200b}"),
        ] {
            let put = self.lab.injection(&self.namespace, &pod).await.unwrap();
            assert!(put.is_none(), "{pod}: {put:?}");
            let made = self.lab.create_pod(&self.namespace, &pod).await.unwrap();
            assert!(Injection::between(&pod, &made).is_none(), "{pod}: {made}");
            assert!(made["metadata"]["annotations"]["meshgate.io/admitted"].is_null());
        }
        assert_eq!(meshgate.calls(), before);
    }

    /// By its endpoints it is ready, and Dapr's webhook lets pods through when it fails.
    async fn ready_and_unable(&mut self, by: &str) {
        self.dapr.endpoint(true).await;
        self.dapr.stop().await;
        let words = [by, "requires dapr", "container daprd"];
        self.lab
            .refuses(&self.namespace, &asks("true"), &words)
            .await;
        let created = self.lab.create_pod(&self.namespace, &asks("true")).await;
        assert!(created.is_err(), "{created:?}");
        self.dapr.start().await;
    }

    /// It runs, and leaves pods of this account bare: the refusal says why.
    async fn by_an_account_that_dapr_skips(&self, by: &str) {
        let Self { lab, namespace, .. } = self;
        let bind = [
            "create",
            "rolebinding",
            "edit",
            "--clusterrole=edit",
            "--user=alice",
        ];
        lab.kubectl(&[&bind[..], &["-n", namespace]].concat()).await;
        let run = [
            "run",
            "by-alice",
            "--image=example.com/web",
            "--annotations=dapr.io/enabled=true",
            "--annotations=dapr.io/app-id=web",
            "-n",
            namespace,
        ];
        let refused = async || {
            let ran = lab.kubectl_as(User::Alice, &run, "").await;
            let says = |word: &str| ran.err.contains(word);
            (ran.code == Some(1) && says(by) && says("container daprd") && says(HINT)).then_some(())
        };
        within(PATIENCE, "alice is refused and told why", refused).await;
    }
}
