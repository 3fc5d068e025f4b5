//! The real injector of Dapr behind a real API server, and meshgate in front of it.

use super::harness::{Dapr, Lab, Meshgate, Options, pod};

const CONFIG: &str = "
apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: dapr
excludedNamespaces: [unguarded]
";

#[tokio::test]
async fn no_pod_that_dapr_is_to_inject_is_ever_bare() {
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver", "kube-controller-manager"],
        ..Options::default()
    })
    .await;
    let _meshgate = Meshgate::start(&lab, CONFIG).await;
    let mut dapr = Dapr::install(&lab).await;
    dapr.start().await;
    let namespace = lab.namespace("dapr", &[], &[]).await;
    dapr.endpoint(true).await;
    let asks = pod(
        &[],
        &[("dapr.io/enabled", "true"), ("dapr.io/app-id", "web")],
    );
    let put = lab.injects(&namespace, &asks, "daprd").await;
    println!("{put:?}");
    dapr.stop().await;
}
