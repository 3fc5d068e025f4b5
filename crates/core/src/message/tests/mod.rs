//! The sentences, word by word, as `kubectl describe replicaset` shows them.

mod modes;
mod sidecars;

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::decision::Decision;
use crate::decision::tests::{Hook, decide, injectors, namespace, pod};
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
fn a_service_that_was_not_read_yet() {
    let injectors = injectors("- preset: linkerd\n");
    let orders = namespace("orders", &[], &[LINKERD], &injectors);
    let unread = |_: &str| {
        let service = Cow::Owned(service("mesh", "injector"));
        Readiness::NotUsable(Looked::Unread { service })
    };
    assert_eq!(
        message(
            Hook::Gate,
            &pod(&[], json!({})),
            &orders,
            &injectors,
            unread
        ),
        "Namespace orders requires linkerd (annotation linkerd.io/inject=enabled) but the admission \
         server has not read the endpoints of Service mesh/injector yet; the pod is created once it \
         has, see kubectl -n mesh get pods"
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
