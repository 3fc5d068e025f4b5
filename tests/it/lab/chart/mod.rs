//! The chart: what Helm makes of it, and what a real API server makes of that.

mod applied;
mod life;
mod rendered;
mod rollback;

use super::harness::helm::template;
use crate::manifests;
use serde_json::Value;

/// Values that an administrator may install with, beside the defaults: a name, and arguments of Helm.
const VALUES: [(&str, &[&str]); 10] = [
    ("defaults", &[]),
    ("whole profiles", &["--set-json", OWN_PROFILE]),
    (
        "everything on",
        &[
            "--set=networkPolicy.enabled=true",
            "--set-json=networkPolicy.metricsFrom=[{\"podSelector\":{}}]",
            "--set=monitoring.serviceMonitor.enabled=true,monitoring.rules.enabled=true",
            "--set=monitoring.rules.labels.release=prometheus",
            "--set=monitoring.serviceMonitor.labels.release=prometheus",
            "--set=breakGlass.group=on-call,namespace.create=true",
            "--set=excludedNamespaces={cilium,karpenter}",
            "--set=scheduling.minNodes=3",
            "--set=image.pullSecrets={registry}",
        ],
    ),
    (
        "everything off",
        &[
            "--set=resourceQuota.enabled=false,disruptionBudget.enabled=false,uninstall.hook=false",
            "--set=scheduling.priorityClassName=",
            "--set-json=scheduling.startupTaints=[]",
        ],
    ),
    (
        "one of each",
        &["--set=serve.replicas=1,control.replicas=1"],
    ),
    (
        "enforced by policy",
        &["--set=enforcement=policy,mirror=policy"],
    ),
    (
        "cert-manager",
        &["--set=certificates.source=certManager,certificates.certManager.issuerRef.name=own"],
    ),
    (
        "a registry, a digest and ports of one's own",
        &[
            "--set=image.registry=registry.example.com:5000/platform",
            "--set=image.digest=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "--set=serve.ports.https=10250,service.port=8443",
        ],
    ),
    ("the host network", &["--set=serve.hostNetwork=true"]),
    (
        "marks and flags of one's own",
        &[
            "--set=podLabels.team=platform,log.format=text,log.level=debug",
            "--set-json=podAnnotations={\"linkerd.io/inject\":\"enabled\"}",
            "--set=serve.extraArgs={--connection-age=5m}",
        ],
    ),
];

const OWN_PROFILE: &str = r#"injectors=["linkerd",{"preset":"istio","mode":"warn"},{"name":"own",
"service":{"namespace":"own","name":"own"},"webhook":"inject.own.example",
"rules":[{"when":[{"podLabel":"own","in":["true"]}],"then":"required"}],"injected":[{"sidecar":"own"}]}]"#;

/// The injectors that values name where they do not say it themselves.
const LINKERD: &str = "--set=injectors={linkerd}";

/// What Helm renders with these values.
async fn rendered(values: &[&str]) -> String {
    let named = values.iter().any(|value| value.starts_with("injectors="));
    let own: &[&str] = if named { &[] } else { &[LINKERD] };
    template(&[own, values].concat()).await.ok()
}

pub(super) async fn objects(values: &[&str]) -> Vec<Value> {
    manifests::objects(&rendered(values).await)
}
