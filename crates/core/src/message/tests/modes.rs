//! Several injectors, warnings, and what is said before any rule is asked.

use serde_json::json;

use super::{LINKERD, message, too_few};
use crate::decision::tests::{Hook, decide, injectors, namespace, pod};
use crate::decision::verdict::Verdict;
use crate::decision::{Decision, gate, requirement};
use crate::readiness::{Looked, Readiness};
use crate::view::pod::PodView;

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
fn what_break_glass_lets_in_is_told_of_it() {
    let suspended = "break-glass suspends linkerd";
    is_told("- preset: linkerd\n", suspended);
    // A pod of this injector starts without its sidecar also after the suspension.
    let warns = "linkerd is in mode warn";
    is_told("- preset: linkerd\n  mode: warn\n", warns);
}

/// Why a pod is admitted while enforcement is suspended.
fn is_told(configured: &str, why: &str) {
    let injectors = injectors(configured);
    let orders = namespace("orders", &[], &[LINKERD], &injectors);
    let pod = pod(&[], json!({})).to_string();
    let pod = PodView::read(&pod, injectors.keys()).unwrap();
    let mut requirement = requirement::of(&pod, &orders, &injectors);
    requirement.waive(|injector| injector == "linkerd");
    let decision = gate::decide(&pod, &requirement, |_| too_few(None, None));
    assert_eq!(decision.verdict, Verdict::Warn);
    let start = format!(
        "meshgate admits this pod only because {why}: Namespace orders requires linkerd \
         (annotation linkerd.io/inject=enabled) but"
    );
    let [warning] = decision.warnings.as_slice() else {
        panic!("{:?}", decision.warnings)
    };
    assert!(warning.starts_with(&start), "{warning}");
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
