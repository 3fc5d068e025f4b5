//! What counts as a sidecar, preset by preset.

use serde_json::{Value, json};

use super::{Flaw, flaw};
use crate::decision::tests::{Map, injectors, namespace, pod};
use crate::injector::Injectors;
use crate::injector::values::KeyValues;
use crate::view::namespace::NamespaceView;
use crate::view::pod::PodView;

/// `yes`, or what is wrong in short.
fn judged(list: &str, annotations: Map<'_>, spec: Value) -> String {
    let injectors = injectors(list);
    let namespace = namespace("orders", &[], &[], &injectors);
    let json = pod(annotations, spec).to_string();
    judge(
        &injectors,
        &namespace,
        &PodView::read(&json, injectors.keys()).unwrap(),
    )
}

fn judge(injectors: &Injectors, namespace: &NamespaceView, pod: &PodView<'_>) -> String {
    let values = KeyValues {
        pod: &pod.values,
        namespace: &namespace.values,
    };
    match flaw(&injectors.get(0).unwrap().profile, pod, &values) {
        None => "yes".to_owned(),
        Some(Flaw::InitMissing(names)) => format!("init {}", names.join("|")),
        Some(Flaw::Placeholder(name, image)) => format!("placeholder {name} {image}"),
        Some(Flaw::NotRestartable(name)) => format!("ends {name}"),
        Some(Flaw::Image(container, image, _)) => format!("image {container} {image}"),
        Some(Flaw::Missing(set)) => format!("missing {}", set.is_some()),
    }
}

fn named(name: &str) -> Value {
    json!({"name": name})
}

fn native(name: &str) -> Value {
    json!({"name": name, "restartPolicy": "Always"})
}

fn spec(containers: &[&Value], init: &[&Value]) -> Value {
    json!({"containers": containers, "initContainers": init})
}

#[test]
fn linkerd() {
    let (proxy, init) = (named("linkerd-proxy"), named("linkerd-init"));
    let validator = named("linkerd-network-validator");
    let app = named("app");
    let table = [
        (spec(&[&app, &proxy], &[&init]), "yes"),
        (spec(&[&proxy], &[&validator]), "yes"),
        // A native sidecar, neither first nor last (case 36).
        (
            spec(&[&app], &[&init, &native("linkerd-proxy"), &named("x")]),
            "yes",
        ),
        (spec(&[&app], &[&init, &proxy]), "ends linkerd-proxy"),
        (
            spec(
                &[],
                &[
                    &init,
                    &json!({"name": "linkerd-proxy", "restartPolicy": "always"}),
                ],
            ),
            "ends linkerd-proxy",
        ),
        (
            spec(&[&app, &proxy], &[]),
            "init linkerd-init|linkerd-network-validator",
        ),
        // An init container must be one: a container of that name does not count.
        (
            spec(&[&proxy, &init], &[]),
            "init linkerd-init|linkerd-network-validator",
        ),
        (spec(&[&app], &[&init]), "missing true"),
        (spec(&[], &[]), "missing true"),
        // Another mesh's proxy (case 38).
        (
            spec(
                &[&named("istio-proxy"), &named("linkerd-proxy-2")],
                &[&init],
            ),
            "missing true",
        ),
        (json!({"ephemeralContainers": [proxy]}), "missing true"),
    ];
    for (spec, expected) in table {
        assert_eq!(
            judged("- preset: linkerd\n", &[], spec.clone()),
            expected,
            "{spec}"
        );
    }
    // Marks and labels that any user can write count for nothing (case 23).
    let marks = [
        ("meshgate.io/admitted", "linkerd"),
        ("linkerd.io/proxy-version", "1"),
    ];
    assert_eq!(
        judged("- preset: linkerd\n", &marks, spec(&[&app], &[])),
        "missing true"
    );
}

#[test]
fn istio() {
    let auto = json!({"name": "istio-proxy", "image": "auto"});
    let real = json!({"name": "istio-proxy", "image": "proxyv2:1"});
    let (init, validation) = (named("istio-init"), named("istio-validation"));
    let none: Map<'_> = &[("sidecar.istio.io/interceptionMode", "NONE")];
    let redirect: Map<'_> = &[("sidecar.istio.io/interceptionMode", "REDIRECT")];
    let gateway: Map<'_> = &[("inject.istio.io/templates", "gateway")];
    let grpc: Map<'_> = &[("inject.istio.io/templates", "grpc-simple")];
    let plain: Map<'_> = &[];
    let table = [
        (plain, spec(&[&real], &[&init]), "yes"),
        (plain, spec(&[&real], &[&validation]), "yes"),
        (plain, spec(&[], &[&native("istio-proxy"), &init]), "yes"),
        (
            plain,
            spec(&[&real], &[]),
            "init istio-init|istio-validation",
        ),
        (
            plain,
            spec(&[&auto], &[&init]),
            "placeholder istio-proxy auto",
        ),
        (none, spec(&[&real], &[]), "yes"),
        (
            redirect,
            spec(&[&real], &[]),
            "init istio-init|istio-validation",
        ),
        (gateway, spec(&[&real], &[]), "yes"),
        (gateway, spec(&[&auto], &[]), "placeholder istio-proxy auto"),
        (gateway, spec(&[&named("app")], &[]), "missing true"),
        (
            grpc,
            spec(&[&named("app")], &[&named("grpc-bootstrap-init")]),
            "yes",
        ),
        (
            plain,
            spec(&[&named("app")], &[&named("grpc-bootstrap-init")]),
            "missing true",
        ),
        (
            plain,
            spec(&[&named("linkerd-proxy")], &[&init]),
            "missing true",
        ),
    ];
    for (annotations, spec, expected) in table {
        let found = judged("- preset: istio\n", annotations, spec.clone());
        assert_eq!(found, expected, "{annotations:?} {spec}");
    }
    let no_init = "- preset: istio\n  options: {noInit: true}\n";
    assert_eq!(judged(no_init, &[], spec(&[&real], &[])), "yes");
    assert_eq!(
        judged(no_init, &[], spec(&[&auto], &[])),
        "placeholder istio-proxy auto"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn the_others() {
    let only: Map<'_> = &[("vault.hashicorp.com/agent-pre-populate-only", "TRUE")];
    let not_only: Map<'_> = &[("vault.hashicorp.com/agent-pre-populate-only", "false")];
    let plain: Map<'_> = &[];
    let dash = "consul-dataplane-web";
    let table = [
        ("vault", plain, spec(&[&named("vault-agent")], &[]), "yes"),
        (
            "vault",
            plain,
            spec(&[], &[&named("vault-agent-init")]),
            "missing true",
        ),
        (
            "vault",
            only,
            spec(&[], &[&named("vault-agent-init")]),
            "yes",
        ),
        ("vault", only, spec(&[&named("vault-agent")], &[]), "yes"),
        (
            "vault",
            not_only,
            spec(&[], &[&named("vault-agent-init")]),
            "missing true",
        ),
        (
            "vault",
            only,
            spec(&[&named("vault-agent-init")], &[]),
            "missing true",
        ),
        (
            "opentelemetry",
            plain,
            spec(&[&named("otc-container")], &[]),
            "yes",
        ),
        (
            "opentelemetry",
            plain,
            spec(&[], &[&native("otc-container")]),
            "yes",
        ),
        (
            "opentelemetry",
            plain,
            spec(&[&named("otel")], &[]),
            "missing true",
        ),
        ("dapr", plain, spec(&[&named("daprd")], &[]), "yes"),
        ("dapr", plain, spec(&[], &[&native("daprd")]), "yes"),
        ("dapr", plain, spec(&[], &[&named("daprd")]), "ends daprd"),
        ("kuma", plain, spec(&[&named("kuma-sidecar")], &[]), "yes"),
        ("kuma", plain, spec(&[&named("kuma")], &[]), "missing true"),
        (
            "consul",
            plain,
            spec(&[&named("consul-dataplane")], &[]),
            "yes",
        ),
        ("consul", plain, spec(&[&named(dash)], &[]), "yes"),
        (
            "consul",
            plain,
            spec(&[], &[&named(dash)]),
            "ends consul-dataplane-web",
        ),
        (
            "consul",
            plain,
            spec(&[&named("consul-dataplanes")], &[]),
            "missing true",
        ),
    ];
    for (preset, annotations, spec, expected) in table {
        let found = judged(&format!("- preset: {preset}\n"), annotations, spec.clone());
        assert_eq!(found, expected, "{preset} {annotations:?} {spec}");
    }
}

#[test]
fn a_profile_whose_sets_do_not_apply_says_so() {
    let own = "- name: own\n  webhook: x\n  service: {namespace: own, name: own}\n  rules: [{when: \
               [{podLabel: k, exists: true}], then: required}]\n  injected: [{when: [{podAnnotation: \
               a, exists: true}], sidecar: s, init: [i, j]}]\n";
    assert_eq!(judged(own, &[], spec(&[&named("s")], &[])), "missing false");
    assert_eq!(
        judged(own, &[("a", "")], spec(&[&named("s")], &[&named("i")])),
        "init j"
    );
    let all = spec(&[&named("s")], &[&named("i"), &named("j")]);
    assert_eq!(judged(own, &[("a", "")], all), "yes");
}
