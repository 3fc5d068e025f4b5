//! Pods that are not bare, and pods without a row.

use serde_json::{Value, json};

use super::{CREATED, Scene, marked};

/// Rows: number of a case, scene, the one finding, or none.
fn all_are<const N: usize>(table: [(u32, Scene, &str); N]) {
    for (case, scene, expected) in table {
        let expected: Vec<&str> = expected.split_terminator(", ").collect();
        assert_eq!(scene.words(), expected, "case {case}: {}", scene.pod);
    }
}

fn plain() -> Scene {
    Scene::default()
}

/// In a namespace that asks for nothing.
fn unasked() -> Scene {
    plain().namespace(&json!({"metadata": {"annotations": null}}))
}

fn in_namespace(name: &str) -> Scene {
    plain().namespace(&json!({"metadata": {"name": name}}))
}

fn host() -> Value {
    json!({"spec": {"hostNetwork": true}})
}

fn inject(value: &str) -> Value {
    marked(&json!({"linkerd.io/inject": value}))
}

#[test]
fn injected_opted_out_and_exempt_pods() {
    let windows = json!({"spec": {"os": {"name": "windows"}}});
    let mirror = marked(&json!({"kubernetes.io/config.mirror": "0a1b"}));
    let owners = json!([{"kind": "Node", "name": "n", "controller": true}]);
    let of_node = json!({"metadata": {"ownerReferences": owners}});
    all_are([
        (2, plain().injected(), "linkerd injected sidecarPresent"),
        (
            26,
            plain().pod(&inject("disabled")),
            "linkerd optedOut podOptOut",
        ),
        (32, plain().pod(&host()), "linkerd exempt hostNetwork"),
        (34, plain().pod(&windows), "linkerd exempt osWindows"),
        (
            35,
            plain().pod(&mirror).pod(&of_node),
            "linkerd exempt mirrorPod",
        ),
        // The annotation alone exempts no pod.
        (35, plain().pod(&mirror), "linkerd bare unknown"),
        (
            73,
            in_namespace("meshgate-system"),
            "linkerd exempt excludedNamespace",
        ),
        // A value that is no longer valid takes no sidecar away.
        (
            25,
            plain().injected().pod(&inject("maybe")),
            "linkerd injected sidecarPresent",
        ),
    ]);
}

#[test]
fn pods_without_a_row() {
    all_are([
        (24, unasked(), ""),
        (32, unasked().pod(&host()), ""),
        (26, unasked().pod(&inject("disabled")), ""),
        (72, in_namespace("kube-system"), ""),
        (
            89,
            plain().pod(&json!({"status": {"phase": "Succeeded"}})),
            "",
        ),
        (89, plain().pod(&json!({"status": {"phase": "Failed"}})), ""),
        (
            89,
            plain().pod(&json!({"metadata": {"deletionTimestamp": CREATED}})),
            "",
        ),
    ]);
}

#[test]
fn unknown_namespaces_and_pods_that_cannot_be_read() {
    let unread = || Scene {
        is_read: false,
        injectors: "- preset: linkerd\n- preset: vault\n- {preset: dapr, mode: disabled}\n\
                    - {preset: kuma, namespaces: {only: [other]}}\n",
        ..plain()
    };
    let secret = marked(&json!({"vault.hashicorp.com/agent-inject": "true"}));
    let broken = json!({"spec": {"containers": 5}});
    all_are([
        (
            21,
            unread(),
            "linkerd unknown namespaceUnknown, vault unknown namespaceUnknown",
        ),
        (
            32,
            unread().pod(&host()).pod(&secret),
            "vault exempt hostNetwork",
        ),
        (8, plain().pod(&broken), "linkerd unknown unreadableObject"),
        (8, in_namespace("kube-system").pod(&broken), ""),
    ]);
}
