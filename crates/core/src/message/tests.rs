//! The sentences, word by word, as `kubectl describe replicaset` shows them.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::decision::Decision;
use crate::decision::tests::{Hook, decide, injectors, namespace, pod};
use crate::decision::verdict::Verdict;
use crate::injector::Injectors;
use crate::injector::profile::ServiceName;
use crate::readiness::endpoints::{Endpoint, Nodes, Slice, Tally, tally};
use crate::readiness::installation::Client;
use crate::readiness::{Looked, Readiness};
use crate::view::namespace::NamespaceView;

const LINKERD: (&str, &str) = ("linkerd.io/inject", "enabled");

fn service(namespace: &str, name: &str) -> ServiceName {
    ServiceName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// Endpoints of Linkerd's Service, which are too few.
fn too_few<'a>(tally: Option<&'a Tally>, client: Option<&'a Client>) -> Readiness<'a> {
    Readiness::NotUsable(Looked::Endpoints {
        service: Cow::Owned(service("linkerd", "linkerd-proxy-injector")),
        tally,
        client,
    })
}

/// One endpoint of a pod of that name.
fn endpoint(name: &str) -> Endpoint {
    Endpoint {
        target: Some(format!("linkerd/{name}").into()),
        ..Endpoint::default()
    }
}

fn counted(endpoints: Vec<Endpoint>, counts: bool) -> Tally {
    let mut nodes = Nodes::default();
    nodes.set("pool-a-1", false);
    nodes.set("pool-a-2", true);
    let slice = Slice {
        counts,
        endpoints,
        ..Slice::default()
    };
    tally([&slice], &nodes)
}

/// One that is not ready, one on a lost node.
fn two_down() -> Tally {
    let not_ready = Endpoint {
        ready: Some(false),
        ..endpoint("a")
    };
    let lost = Endpoint {
        node: Some("pool-a-2".into()),
        ..endpoint("b")
    };
    counted(vec![not_ready, lost], true)
}

/// The message for a pod in namespace `orders`, which requires Linkerd.
fn message<'a>(
    hook: Hook,
    pod: &Value,
    orders: &'a NamespaceView,
    injectors: &'a Injectors,
    readiness: impl Fn(&str) -> Readiness<'a>,
) -> String {
    let mut message = String::new();
    let pod = pod.to_string();
    decide(hook, &pod, orders, injectors, readiness, |decision| {
        assert!(!decision.verdict.allows(), "{decision:?}");
        message.clone_from(&decision.message);
    });
    assert!(!message.contains(['\n', '\t']) && message.chars().count() <= 1_000);
    message
}

#[test]
fn too_few_endpoints() {
    let linkerd = injectors("- preset: linkerd\n");
    let orders = namespace("orders", &[], &[LINKERD], &linkerd);
    let down = two_down();
    let refused = |pod: &Value| {
        message(Hook::Gate, pod, &orders, &linkerd, |_| {
            too_few(Some(&down), None)
        })
    };
    let owned = pod(&[], json!({}));
    let state = "0 of 2 endpoints of Service linkerd/linkerd-proxy-injector are usable (1 not \
                 ready, 1 on lost node pool-a-2)";
    assert_eq!(
        refused(&owned),
        format!(
            "Namespace orders requires linkerd (annotation linkerd.io/inject=enabled) but {state}; \
             the pod is created once one is, see kubectl -n linkerd get pods"
        )
    );
    // No controller tries again for such a pod.
    let bare = json!({"metadata": {"name": "shop"}});
    assert_eq!(
        refused(&bare),
        format!(
            "Namespace orders requires linkerd (annotation linkerd.io/inject=enabled) but {state}; \
             try again once one is, see kubectl -n linkerd get pods"
        )
    );
    let opted_in = json!({"metadata": {"name": "shop", "annotations": {LINKERD.0: "ingress"}}});
    assert_eq!(
        refused(&opted_in),
        format!(
            "Pod shop in namespace orders requires linkerd (annotation linkerd.io/inject=ingress) \
             but {state}; try again once one is, see kubectl -n linkerd get pods"
        )
    );
    let windows = pod(&[], json!({"runtimeClassName": "windows-2022"}));
    assert_eq!(
        refused(&windows),
        format!(
            "Namespace orders requires linkerd (annotation linkerd.io/inject=enabled) but {state}; \
             the pod is created once one is, see kubectl -n linkerd get pods; node affinity or a \
             runtime class does not exempt a Windows pod, spec.os.name or nodeSelector \
             kubernetes.io/os does"
        )
    );
}

#[test]
fn endpoints_that_are_missing_or_wanted() {
    let one = injectors("- preset: linkerd\n");
    let two = injectors("- preset: linkerd\n  minimum: 2\n");
    let (none, names) = (counted(vec![], true), counted(vec![], false));
    let not_ready = Endpoint {
        serving: Some(false),
        ..endpoint("b")
    };
    let half = counted(vec![endpoint("a"), not_ready], true);
    let url = Client::Url("https://mesh.example.com/inject".to_owned());
    let table = [
        (&one, Some(&none), None, "0 of 0", "", "one is"),
        (
            &one,
            None,
            None,
            "0 of 0",
            " (the Service has no EndpointSlice)",
            "one is",
        ),
        (
            &one,
            Some(&names),
            None,
            "0 of 0",
            " (endpoints by domain name do not count)",
            "one is",
        ),
        (
            &one,
            None,
            Some(&url),
            "0 of 0",
            " (its webhook calls a URL, which has no endpoints: the configuration can say \
             readiness: probe)",
            "one is",
        ),
        (&one, Some(&none), Some(&url), "0 of 0", "", "one is"),
        (
            &two,
            Some(&half),
            None,
            "1 of 2",
            " and 2 are wanted (1 not serving)",
            "they are",
        ),
    ];
    for (injectors, tally, client, count, why, once) in table {
        let orders = namespace("orders", &[], &[LINKERD], injectors);
        let pod = pod(&[], json!({}));
        let found = message(Hook::Gate, &pod, &orders, injectors, |_| {
            too_few(tally, client)
        });
        let expected = format!(
            "Namespace orders requires linkerd (annotation linkerd.io/inject=enabled) but {count} \
             endpoints of Service linkerd/linkerd-proxy-injector are usable{why}; the pod is \
             created once {once}, see kubectl -n linkerd get pods"
        );
        assert_eq!(found, expected);
    }
}

#[test]
fn a_probe_that_fails() {
    let injectors = injectors("- preset: vault\n  readiness: probe\n");
    let orders = namespace("orders", &[], &[], &injectors);
    let pod = pod(&[("vault.hashicorp.com/agent-inject", "true")], json!({}));
    let probe = |_: &str| {
        Readiness::NotUsable(Looked::Probe {
            target: "vault.example.com:443",
            problem: Some("connection refused"),
        })
    };
    assert_eq!(
        message(Hook::Gate, &pod, &orders, &injectors, probe),
        "Pod shop-6c9f- in namespace orders requires vault (annotation \
         vault.hashicorp.com/agent-inject=true) but vault.example.com:443 does not answer \
         (connection refused); the pod is created once it answers, see kubectl -n vault get pods"
    );
}

#[test]
fn what_is_not_installed_is_said_the_same_by_both() {
    let injectors = injectors("- preset: linkerd\n- preset: istio\n");
    let orders = namespace("orders", &[], &[LINKERD], &injectors);
    let canary = namespace("shop", &[("istio.io/rev", "canary")], &[], &injectors);
    let pod = pod(&[], json!({}));
    for hook in [Hook::Gate, Hook::Check] {
        assert_eq!(
            message(hook, &pod, &orders, &injectors, |_| {
                Readiness::NotInstalled
            }),
            "Namespace orders requires linkerd (annotation linkerd.io/inject=enabled) but linkerd \
             is not installed: no MutatingWebhookConfiguration has an entry \
             linkerd-proxy-injector.linkerd.io; the pod is created once it is installed, or once \
             nothing requires it"
        );
        assert_eq!(
            message(hook, &pod, &canary, &injectors, |_| Readiness::NoInstance),
            "Namespace shop requires istio (label istio.io/rev=canary) but no \
             MutatingWebhookConfiguration carries the label istio.io/tag=canary or \
             istio.io/rev=canary; the pod is created once one does, kubectl get \
             mutatingwebhookconfigurations --show-labels lists those that are installed"
        );
    }
}

#[test]
fn an_entry_is_named_with_the_path_that_tells_it_from_others() {
    let injectors = injectors("- preset: opentelemetry\n");
    let shop = namespace("shop", &[], &[], &injectors);
    let pod = pod(&[("sidecar.opentelemetry.io/inject", "true")], json!({}));
    let message = message(Hook::Gate, &pod, &shop, &injectors, |_| {
        Readiness::NotInstalled
    });
    let expected =
        "no MutatingWebhookConfiguration has an entry mpod.kb.io with path /mutate-v1-pod;";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn the_logs_are_those_of_the_service_that_was_found() {
    let injectors = injectors("- preset: linkerd\n");
    let orders = namespace("orders", &[], &[LINKERD], &injectors);
    let elsewhere = |_: &str| {
        Readiness::Usable(Looked::Endpoints {
            service: Cow::Owned(service("mesh", "injector")),
            tally: None,
            client: None,
        })
    };
    let bare = pod(&[], json!({"containers": [{"name": "app"}]}));
    let found = message(Hook::Check, &bare, &orders, &injectors, elsewhere);
    let expected = "; see kubectl -n mesh get pods and the logs there";
    assert!(found.ends_with(expected), "{found}");
}

#[test]
fn an_error_is_repeated_as_far_as_it_helps() {
    let address = format!("https://{}:6443: connection refused", "a.b.".repeat(20));
    let repeated = Decision::namespace_unknown("orders", &address).message;
    assert!(repeated.contains(&address), "{repeated}");
    for text in ["x\n".repeat(1_000), "\u{1F6A2}".repeat(1_000)] {
        for decision in [
            Decision::namespace_unknown("orders", &text),
            Decision::unreadable(&text),
        ] {
            assert!(decision.message.chars().count() < 400, "{decision:?}");
            assert!(!decision.message.contains('\n'));
        }
    }
}

#[test]
fn values_that_nobody_knows() {
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

#[test]
fn several_injectors_and_mode_warn() {
    let injectors = injectors("- preset: linkerd\n- preset: vault\n- preset: dapr\n  mode: warn\n");
    let orders = namespace("orders", &[], &[LINKERD], &injectors);
    let annotations = [
        ("vault.hashicorp.com/agent-inject", "true"),
        ("dapr.io/enabled", "true"),
    ];
    let pod = pod(&annotations, json!({}));
    let unready = |_: &str| too_few(None, None);
    let found = message(Hook::Gate, &pod, &orders, &injectors, unready);
    assert!(
        found.ends_with("see kubectl -n linkerd get pods; it waits for vault too"),
        "{found}"
    );
    let found = message(Hook::Check, &pod, &orders, &injectors, unready);
    let end = "see kubectl -n linkerd get pods and the logs there; it is refused because of vault \
               too";
    assert!(found.ends_with(end), "{found}");
    let look = |decision: &Decision<'_>| {
        assert_eq!(decision.warnings.len(), 1);
        let start = "meshgate admits this pod only because dapr is in mode warn: Pod shop-6c9f- \
                     in namespace orders requires dapr (annotation dapr.io/enabled=true) but";
        let warning = &decision.warnings[0];
        assert!(warning.starts_with(start), "{warning}");
    };
    decide(
        Hook::Gate,
        &pod.to_string(),
        &orders,
        &injectors,
        unready,
        look,
    );
}

#[test]
fn warnings_name_the_injector_and_stay_short() {
    let injectors = injectors("- preset: linkerd\n- preset: istio\n");
    let labels = [
        ("linkerd.io/inject", "enabled"),
        ("istio-injection", "enabled"),
    ];
    let newsletter = namespace("newsletter", &labels, &[], &injectors);
    let pod = json!({"metadata": {"labels": {"sidecar.istio.io/inject": "yes"}}});
    let usable = |_: &str| Readiness::Usable(Looked::Assumed);
    let look = |decision: &Decision<'_>| {
        assert_eq!(
            decision.warnings,
            [
                "linkerd: linkerd.io/inject is a label here, Linkerd reads annotations",
                "istio: sidecar.istio.io/inject is yes here, only true and false count",
            ]
        );
        assert!(decision.warnings.iter().all(|text| text.len() < 120));
    };
    decide(
        Hook::Gate,
        &pod.to_string(),
        &newsletter,
        &injectors,
        usable,
        look,
    );
}

#[test]
fn what_is_refused_before_any_rule() {
    let table = [
        (
            Decision::namespace_unknown("orders", "not found"),
            Verdict::Defer,
            "Namespace orders could not be read (not found), and it says which sidecars the pod \
             requires; try again in a moment, or see kubectl get namespace orders",
        ),
        (
            Decision::not_synced("orders"),
            Verdict::Defer,
            "Pod in namespace orders cannot be judged yet: the admission server is starting and \
             has not read the cluster; try again in a few seconds",
        ),
        (
            Decision::deadline_exceeded("orders"),
            Verdict::Defer,
            "Namespace orders could not be read in time, and it says which sidecars the pod \
             requires; try again in a moment",
        ),
        (
            Decision::unreadable(&"the value of a\nb is no text"),
            Verdict::Unreadable,
            "The object cannot be read as a pod: the value of a\u{fffd}b is no text",
        ),
    ];
    for (decision, verdict, message) in table {
        assert_eq!(
            (decision.verdict, decision.message.as_str()),
            (verdict, message)
        );
    }
}

#[test]
fn a_thousand_characters_are_enough() {
    let values: Vec<String> = (0..200).map(|number| format!("value-{number}")).collect();
    let injectors = injectors(&format!(
        "- name: own\n  webhook: x\n  service: {{namespace: own, name: own}}\n  injected: [{{sidecar: \
         x}}]\n  rules:\n  - {{when: [{{podLabel: k, in: [{}]}}], then: required}}\n  - {{when: \
         [{{podLabel: k, exists: true}}], then: invalid}}\n",
        values.join(", ")
    ));
    let orders = namespace("orders", &[], &[], &injectors);
    let pod = json!({"metadata": {"labels": {"k": "v"}}});
    let found = message(Hook::Gate, &pod, &orders, &injectors, |_| {
        Readiness::NotInstalled
    });
    let start = "Pod in namespace orders has label k=v, which own does not know, so that it would \
                 never inject this pod; accepted values are value-0, value-1, ";
    assert!(found.starts_with(start), "{found}");
    assert_eq!(
        (found.chars().count(), found.chars().last()),
        (1_000, Some('…'))
    );
}
