//! A real istiod behind a real API server, and meshgate in front of it.
//!
//! One test, because the state of the two istiods and of the registration is the cluster's: the
//! steps below follow each other.

use serde_json::{Value, json};

use super::harness::{Injection, Istiod, Lab, Meshgate, Options, pod};

const CONFIG: &str = "
apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: istio
excludedNamespaces: [unguarded]
";

/// What refusals begin with: the gate's, the check's, the policy's that stands in for the check.
const GATE: &str = ".gate.meshgate.io\" denied the request: ";
const CHECK: &str = ".check.meshgate.io\" denied the request: ";
const POLICY: &str = "ValidatingAdmissionPolicy";

/// How the two revisions are run: between them they inject in all ways that count.
const WITHOUT_NATIVE: &[(&str, &str)] = &[("ENABLE_NATIVE_SIDECARS", "false")];
const NATIVE: &[(&str, &str)] = &[("ENABLE_NATIVE_SIDECARS", "true")];
const WITH_CNI: &[&str] = &["components.cni.enabled=true"];

/// A cluster with Istio's revisions `default` and `canary`, and the tag `prod` for the second.
struct Scene<'l> {
    lab: &'l Lab,
    default: Istiod<'l>,
    canary: Istiod<'l>,
    own: Namespaces,
}

struct Namespaces {
    enabled: String,
    disabled: String,
    canary: String,
    prod: String,
    plain: String,
}

impl Namespaces {
    async fn create(lab: &Lab) -> Self {
        let create = async |label, value| lab.namespace("shop", &[(label, value)], &[]).await;
        Self {
            enabled: create("istio-injection", "enabled").await,
            disabled: create("istio-injection", "disabled").await,
            canary: create("istio.io/rev", "canary").await,
            prod: create("istio.io/rev", "prod").await,
            plain: lab.namespace("shop", &[], &[]).await,
        }
    }
}

/// Whether the injection is as Istio says it is.
type IsRight = fn(&Injection) -> bool;

fn bare() -> Value {
    pod(&[], &[])
}

#[tokio::test]
async fn no_pod_that_istio_is_to_inject_is_ever_bare() {
    let options = Options {
        only: vec!["etcd", "kube-apiserver"],
        ..Options::default()
    };
    let lab = Lab::own(options).await;
    let own = Namespaces::create(&lab).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    not_installed(&lab, &own).await;

    let default = Istiod::install(&lab, "default", &[]).await;
    let canary = Istiod::install(&lab, "canary", WITH_CNI).await;
    canary.tag("prod").await;
    let mut scene = Scene {
        lab: &lab,
        default,
        canary,
        own,
    };
    scene.stopped().await;
    tokio::join!(
        scene.default.start(WITHOUT_NATIVE),
        scene.canary.start(NATIVE)
    );
    scene.each_revision_by_its_own_istiod().await;
    scene.what_istio_makes_passes().await;
    scene.what_istio_leaves_is_not_our_business(&meshgate).await;
    scene.ready_and_unable(CHECK).await;

    meshgate.uninstall().await;
    let meshgate = Meshgate::with(&lab, CONFIG, &["--enforcement=policy"]).await;
    scene.ready_and_unable(POLICY).await;
    scene.what_istio_makes_passes().await;
    scene.what_istio_leaves_is_not_our_business(&meshgate).await;
}

/// No webhook configuration carries a revision of Istio.
async fn not_installed(lab: &Lab, own: &Namespaces) {
    for namespace in [&own.enabled, &own.canary, &own.prod] {
        let words = [GATE, "requires istio", "but istio is not installed"];
        let refusal = lab.refuses(namespace, &bare(), &words).await;
        let kind = (refusal.code, refusal.reason.as_str());
        assert_eq!(kind, (503, "ServiceUnavailable"));
    }
    lab.create_pod(&own.plain, &bare()).await.unwrap();
}

impl Scene<'_> {
    /// No endpoint at all, then one that is not ready.
    async fn stopped(&self) {
        let Self { lab, own, .. } = self;
        let services = [
            (&own.enabled, "istiod"),
            (&own.canary, "istiod-canary"),
            (&own.prod, "istiod-canary"),
        ];
        for (namespace, service) in services {
            let sentence = format!(
                "but 0 of 0 endpoints of Service istio-system/{service} are usable (the Service \
                 has no EndpointSlice)"
            );
            let refusal = lab.refuses(namespace, &bare(), &[GATE, &sentence]).await;
            assert_eq!(refusal.code, 503, "{refusal:?}");
        }
        self.endpoints(false, false).await;
        for (namespace, service) in services {
            let sentence = format!(
                "but 0 of 1 endpoints of Service istio-system/{service} are usable (1 not ready)"
            );
            lab.refuses(namespace, &bare(), &[GATE, &sentence]).await;
            let refusal = lab.create_pod(namespace, &bare()).await.unwrap_err();
            assert_eq!(refusal.code, 503, "{refusal:?}");
        }
        lab.create_pod(&own.plain, &bare()).await.unwrap();
    }

    async fn endpoints(&self, default: bool, canary: bool) {
        self.default.endpoint(default).await;
        self.canary.endpoint(canary).await;
    }

    /// The readiness of one says nothing of the other; a tag is its revision's.
    async fn each_revision_by_its_own_istiod(&self) {
        let Self { lab, own, .. } = self;
        let by_pod = pod(&[("istio.io/rev", "canary")], &[]);
        self.endpoints(false, true).await;
        for (namespace, pod) in [
            (&own.canary, &bare()),
            (&own.prod, &bare()),
            (&own.plain, &by_pod),
        ] {
            let put = lab.injects(namespace, pod, "istio-proxy").await;
            assert!(put.native.contains("istio-proxy"), "{put:?}");
            let made = lab.create_pod(namespace, pod).await.unwrap();
            let annotations = &made["metadata"]["annotations"];
            assert_eq!(annotations["istio.io/rev"], "canary");
            assert_eq!(annotations["meshgate.io/admitted"], "istio");
        }
        lab.refuses(&own.enabled, &bare(), &[GATE, "istio-system/istiod are"])
            .await;

        self.endpoints(true, false).await;
        let by_label = pod(&[("sidecar.istio.io/inject", "true")], &[]);
        for (namespace, pod) in [
            (&own.enabled, &bare()),
            (&own.plain, &by_label),
            // The namespace's label wins.
            (&own.enabled, &by_pod),
        ] {
            let put = lab.injects(namespace, pod, "istio-proxy").await;
            assert!(put.containers.contains("istio-proxy"), "{put:?}");
            let made = lab.create_pod(namespace, pod).await.unwrap();
            assert_eq!(made["metadata"]["annotations"]["istio.io/rev"], "default");
        }
        for namespace in [&own.canary, &own.prod] {
            lab.refuses(
                namespace,
                &bare(),
                &[GATE, "istio-system/istiod-canary are"],
            )
            .await;
        }
        let uncarried = lab
            .namespace("shop", &[("istio.io/rev", "uncarried")], &[])
            .await;
        let words = [
            GATE,
            "carries the label istio.io/tag=uncarried or istio.io/rev=uncarried",
        ];
        lab.refuses(&uncarried, &bare(), &words).await;
    }

    /// Whatever a real istiod makes of a pod is meshed.
    async fn what_istio_makes_passes(&self) {
        let Self { lab, own, .. } = self;
        self.endpoints(true, true).await;
        let asked = |annotation| pod(&[], &[annotation]);
        let native = |value| asked(("sidecar.istio.io/nativeSidecar", value));
        let template = |name| asked(("inject.istio.io/templates", name));
        let rows: [(&String, Value, IsRight); 10] = [
            (&own.enabled, bare(), |put| {
                in_containers(put) && put.init.contains("istio-init")
            }),
            (&own.enabled, native("true"), is_native),
            (&own.canary, bare(), |put| {
                is_native(put) && put.init.contains("istio-validation")
            }),
            (&own.prod, native("false"), in_containers),
            (
                &own.enabled,
                asked(("sidecar.istio.io/inject", "true")),
                in_containers,
            ),
            (
                &own.enabled,
                asked(("sidecar.istio.io/interceptionMode", "NONE")),
                |put| in_containers(put),
            ),
            (&own.enabled, template("grpc-agent"), in_containers),
            (&own.enabled, template("grpc-simple"), |put| {
                put.init.contains("grpc-bootstrap-init") && !in_containers(put)
            }),
            (&own.enabled, template("sidecar"), in_containers),
            // Nothing is added: the placeholder is filled in.
            (&own.plain, gateway(), Injection::is_none),
        ];
        for (namespace, pod, is_right) in rows {
            let made = lab.admits(namespace, &pod).await;
            let put = Injection::between(&pod, &made);
            assert!(is_right(&put), "in {namespace}: {pod}: {put:?}");
            assert!(!made.to_string().contains("\"image\":\"auto\""), "{made}");
        }
    }

    /// What is not to be injected is created without a call, and bare.
    async fn what_istio_leaves_is_not_our_business(&self, meshgate: &Meshgate<'_>) {
        let Self { lab, own, .. } = self;
        let inject = |value| [("sidecar.istio.io/inject", value)];
        let mut host_network = bare();
        host_network["spec"]["hostNetwork"] = json!(true);
        let rows = [
            (&own.enabled, pod(&inject("false"), &[])),
            (&own.enabled, pod(&[], &inject("false"))),
            (&own.canary, pod(&inject("false"), &[])),
            (&own.enabled, host_network),
            (&own.disabled, bare()),
            (&own.disabled, pod(&inject("true"), &[])),
            (&own.plain, bare()),
            (&own.plain, pod(&[], &inject("true"))),
        ];
        let before = meshgate.calls();
        for (namespace, pod) in rows {
            let made = lab.create_pod(namespace, &pod).await.unwrap();
            assert!(Injection::between(&pod, &made).is_none(), "{pod}: {made}");
            assert!(made["metadata"]["annotations"]["meshgate.io/admitted"].is_null());
        }
        assert_eq!(meshgate.calls(), before);
    }

    /// By its endpoints it is ready, and its webhook lets pods through when it fails, as many
    /// have it: nothing but a look at the pod itself finds out.
    async fn ready_and_unable(&mut self, by: &str) {
        self.endpoints(true, true).await;
        let enabled = self.own.enabled.clone();
        let refused = [by, "requires istio", "istio's webhook did not add it"];
        let lab = self.lab;
        lab.injects(&enabled, &bare(), "istio-proxy").await;

        // It answers, and patches nothing.
        self.default.set_policy("disabled");
        lab.refuses(&enabled, &bare(), &refused).await;
        self.default.set_policy("enabled");
        lab.injects(&enabled, &bare(), "istio-proxy").await;

        // It is gone. As installed, Istio's own webhook is closed then.
        self.default.stop().await;
        let refusal = lab
            .refuses(&enabled, &bare(), &["failed calling webhook"])
            .await;
        assert!(
            refusal.message.contains("sidecar-injector.istio.io"),
            "{refusal:?}"
        );
        self.default.set_failure_policy("Ignore").await;
        lab.refuses(&enabled, &bare(), &refused).await;
        assert!(lab.create_pod(&enabled, &bare()).await.is_err());

        // It listens, and refuses every handshake: "cert not initialized".
        self.default
            .listen(&[("PILOT_CERT_PROVIDER", "none")])
            .await;
        lab.refuses(&enabled, &bare(), &refused).await;
        self.default.set_failure_policy("Fail").await;
        lab.refuses(&enabled, &bare(), &["remote error: tls: internal error"])
            .await;
        self.default.stop().await;

        self.default.start(WITHOUT_NATIVE).await;
        lab.injects(&enabled, &bare(), "istio-proxy").await;
    }
}

fn in_containers(put: &Injection) -> bool {
    put.containers.contains("istio-proxy")
}

fn is_native(put: &Injection) -> bool {
    put.native.contains("istio-proxy")
}

/// A gateway as its chart has it: Istio fills in the whole container.
fn gateway() -> Value {
    let labels = [("sidecar.istio.io/inject", "true")];
    let mut gateway = pod(&labels, &[("inject.istio.io/templates", "gateway")]);
    gateway["spec"]["containers"] = json!([{"name": "istio-proxy", "image": "auto"}]);
    gateway
}
