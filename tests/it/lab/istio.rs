//! A real istiod behind a real API server, and meshgate in front of it.

use serde_json::{Value, json};

use super::harness::{Istiod, Lab, Meshgate, Options, UNGUARDED, pod};

const CONFIG: &str = "
apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: istio
excludedNamespaces: [unguarded]
";

const WITHOUT_NATIVE: (&str, &str) = ("ENABLE_NATIVE_SIDECARS", "false");
const NATIVE: (&str, &str) = ("ENABLE_NATIVE_SIDECARS", "true");

/// What a refusal by the gate begins with, and one by the check.
const GATE: &str = "admission webhook \"gate";
const CHECK: &str = "admission webhook \"check";

/// The namespaces of these tests.
struct Namespaces {
    enabled: String,
    revision: String,
    tag: String,
    plain: String,
}

impl Namespaces {
    async fn create(lab: &Lab) -> Self {
        let create = async |label, value| lab.namespace("istio", &[(label, value)], &[]).await;
        Self {
            enabled: create("istio-injection", "enabled").await,
            revision: create("istio.io/rev", "canary").await,
            tag: create("istio.io/rev", "prod").await,
            plain: lab.namespace("istio", &[], &[]).await,
        }
    }
}

#[tokio::test]
async fn no_pod_that_istio_is_to_inject_is_ever_bare() {
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver"],
        ..Options::default()
    })
    .await;
    let own = Namespaces::create(&lab).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    not_installed(&lab, &own).await;
    let mut default = Istiod::install(&lab, "default").await;
    let mut canary = Istiod::install(&lab, "canary").await;
    canary.tag("prod").await;
    stopped(&lab, &own).await;
    tokio::join!(default.start(&[WITHOUT_NATIVE]), canary.start(&[NATIVE]));
    running(&lab, &own, (&default, &canary)).await;
    opted_out(&lab, &own, &meshgate).await;
    gateway(&lab, &own).await;
    cannot_inject(&lab, &own, &mut default).await;
    drop((own, meshgate));
}

async fn not_installed(lab: &Lab, own: &Namespaces) {
    for namespace in [&own.enabled, &own.revision, &own.tag] {
        let words = [GATE, "istio is not installed"];
        let refusal = lab.refuses(namespace, &pod(&[], &[]), &words).await;
        assert_eq!(
            (refusal.code, refusal.reason.as_str()),
            (503, "ServiceUnavailable")
        );
    }
}

/// Installed and not running.
async fn stopped(lab: &Lab, own: &Namespaces) {
    for (namespace, service) in [
        (&own.enabled, "istiod"),
        (&own.revision, "istiod-canary"),
        (&own.tag, "istiod-canary"),
    ] {
        let service = format!("Service istio-system/{service}");
        let refusal = lab
            .refuses(namespace, &pod(&[], &[]), &[GATE, &service])
            .await;
        assert_eq!(refusal.code, 503, "{refusal:?}");
    }
    lab.create_pod(&own.plain, &pod(&[], &[])).await.unwrap();
}

async fn running(lab: &Lab, own: &Namespaces, (default, canary): (&Istiod<'_>, &Istiod<'_>)) {
    default.endpoint(false).await;
    canary.endpoint(false).await;
    let bare = pod(&[], &[]);
    lab.refuses(
        &own.enabled,
        &bare,
        &["0 of 1 endpoints of Service istio-system/istiod are usable (1 not ready)"],
    )
    .await;
    default.endpoint(true).await;
    let put = lab.injects(&own.enabled, &bare, "istio-proxy").await;
    assert!(
        put.containers.contains("istio-proxy") && put.init.contains("istio-init"),
        "{put:?}"
    );
    let made = lab.create_pod(&own.enabled, &bare).await.unwrap();
    assert_eq!(
        made["metadata"]["annotations"]["meshgate.io/admitted"],
        "istio"
    );
    println!("{put:?}");
}

async fn opted_out(lab: &Lab, own: &Namespaces, meshgate: &Meshgate<'_>) {
    let _ = (lab, own, meshgate, UNGUARDED, CHECK, json!(1), Value::Null);
}
async fn gateway(lab: &Lab, own: &Namespaces) {
    let _ = (lab, own);
}
async fn cannot_inject(lab: &Lab, own: &Namespaces, default: &mut Istiod<'_>) {
    let _ = (lab, own, default.log());
}
