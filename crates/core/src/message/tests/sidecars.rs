//! Values that an injector does not know, and sidecars that are not in the pod.

use serde_json::json;

use super::{LINKERD, message, too_few};
use crate::decision::tests::{Hook, injectors, namespace, pod};
use crate::readiness::{Looked, Readiness};

#[test]
fn values_that_no_injector_knows() {
    let injectors = injectors("- preset: linkerd\n- preset: kuma\n");
    let enabled = namespace("orders", &[], &[LINKERD], &injectors);
    let misspelt = namespace(
        "orders",
        &[],
        &[("linkerd.io/inject", "enable")],
        &injectors,
    );
    let assumed = |_: &str| Readiness::Usable(Looked::Assumed);
    for hook in [Hook::Gate, Hook::Check] {
        let off = pod(&[("linkerd.io/inject", "false")], json!({}));
        assert_eq!(
            message(hook, &off, &enabled, &injectors, assumed),
            "Pod shop-6c9f- in namespace orders has annotation linkerd.io/inject=false, which \
             linkerd does not know, so that it would never inject this pod; accepted values are \
             enabled, ingress, disabled"
        );
        let on = pod(&[LINKERD], json!({}));
        assert_eq!(
            message(hook, &on, &misspelt, &injectors, assumed),
            "Namespace orders has annotation linkerd.io/inject=enable, which linkerd does not \
             know, so that it would never inject this pod; accepted values are enabled, ingress, \
             disabled"
        );
    }
    // What a tenant wrote is shortened, and stays on one line.
    let long = format!("a\nb{}", "c".repeat(200));
    let found = message(
        Hook::Gate,
        &pod(&[("linkerd.io/inject", &long)], json!({})),
        &enabled,
        &injectors,
        assumed,
    );
    let shown = format!("linkerd.io/inject=a\u{fffd}b{}…, which", "c".repeat(60));
    assert!(found.contains(&shown), "{found}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn sidecars_that_are_not_there() {
    let injectors = injectors("- preset: linkerd\n- preset: istio\n- preset: dapr\n");
    let orders = namespace("orders", &[], &[LINKERD], &injectors);
    let payments = namespace(
        "payments",
        &[("istio-injection", "enabled")],
        &[],
        &injectors,
    );
    let plain = namespace("plain", &[], &[], &injectors);
    let proxy = json!({"name": "linkerd-proxy"});
    let missing = "the pod has no container linkerd-proxy (looked for in containers, and in \
                   initContainers with restartPolicy Always): linkerd's webhook did not add it";
    let linkerd = [
        (json!({"containers": [{"name": "app"}]}), missing.to_owned()),
        (
            json!({"containers": [proxy]}),
            "init container linkerd-init or linkerd-network-validator is missing from the pod"
                .to_owned(),
        ),
        (
            json!({"initContainers": [proxy]}),
            "linkerd-proxy is an init container without restartPolicy Always, which ends before \
             the pod starts: another webhook may have removed that field"
                .to_owned(),
        ),
        (
            json!({"containers": [{"name": "istio-proxy"}]}),
            format!(
                "{missing}; linkerd passes by pods with container istio-proxy, so that one pod \
                 cannot have both"
            ),
        ),
    ];
    let assumed = |_: &str| Readiness::Usable(Looked::Assumed);
    for (spec, what) in linkerd {
        let expected = format!(
            "Namespace orders requires linkerd (annotation linkerd.io/inject=enabled) but {what}; \
             see kubectl -n linkerd get pods and the logs there"
        );
        let found = message(Hook::Check, &pod(&[], spec), &orders, &injectors, assumed);
        assert_eq!(found, expected);
    }
    let gateway = json!({"containers": [{"name": "istio-proxy", "image": "auto"}]});
    assert_eq!(
        message(
            Hook::Check,
            &pod(&[], gateway),
            &payments,
            &injectors,
            assumed
        ),
        "Namespace payments requires istio (label istio-injection=enabled) but the image of \
         container istio-proxy is still the placeholder auto: istio's webhook did not fill it in; \
         see kubectl -n istio-system get pods and the logs there"
    );
    let dapr = pod(&[("dapr.io/enabled", "YES")], json!({}));
    assert_eq!(
        message(Hook::Check, &dapr, &plain, &injectors, assumed),
        "Pod shop-6c9f- in namespace plain requires dapr (annotation dapr.io/enabled=YES) but the \
         pod has no container daprd (looked for in containers, and in initContainers with \
         restartPolicy Always): dapr's webhook did not add it; Dapr skips pods created by accounts \
         outside its allow-list; see kubectl -n dapr-system get pods and the logs there"
    );
}

#[test]
fn keys_of_the_namespace_are_told_from_those_of_the_pod() {
    let injectors = injectors("- preset: istio\n");
    let orders = namespace("orders", &[("istio-injection", "enabled")], &[], &injectors);
    let odd = json!({"metadata": {"name": "x", "labels": {"sidecar.istio.io/inject": "maybe"}}});
    let found = message(Hook::Gate, &odd, &orders, &injectors, |_| {
        too_few(None, None)
    });
    let start = "Pod x in namespace orders requires istio (label istio-injection=enabled on the \
                 namespace and label sidecar.istio.io/inject=maybe on the pod) but 0 of 0";
    assert!(found.starts_with(start), "{found}");
}
