//! Random pods: the audit's verdict is the check's.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::audit::cause::State;
use crate::audit::pod::RunningPod;
use crate::audit::{Armed, Since, Surroundings, judge};
use crate::decision::reason::Reason;
use crate::decision::tests::{injectors, namespace};
use crate::decision::verdict::Verdict;
use crate::decision::{check, exemption, requirement};
use crate::injector::Injectors;
use crate::readiness::{Looked, Readiness};
use crate::view::pod::PodView;

/// Keys that rules of presets read, with values of all kinds.
const KEYS: [&str; 5] = [
    "linkerd.io/inject",
    "istio-injection",
    "istio.io/rev",
    "sidecar.istio.io/inject",
    "vault.hashicorp.com/agent-inject",
];
const VALUES: [&str; 7] = [
    "enabled", "disabled", "true", "false", "maybe", "stable", "",
];
const CONTAINERS: [&str; 6] = [
    "app",
    "linkerd-proxy",
    "linkerd-init",
    "istio-proxy",
    "istio-init",
    "vault-agent",
];

static INJECTORS: LazyLock<Injectors> = LazyLock::new(|| {
    injectors("- preset: linkerd\n- preset: istio\n- {preset: vault, optOut: forbid}\n")
});

fn map() -> impl Strategy<Value = BTreeMap<&'static str, &'static str>> {
    prop::collection::btree_map(select(&KEYS[..]), select(&VALUES[..]), 0..3)
}

fn containers() -> impl Strategy<Value = Vec<Value>> {
    let one = (
        select(&CONTAINERS[..]),
        select(&["a:1.2", "auto"][..]),
        select(&["Always", ""][..]),
    );
    let one = one.prop_map(
        |(name, image, restart)| json!({"name": name, "image": image, "restartPolicy": restart}),
    );
    prop::collection::vec(one, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// A pod that the check admits is never bare. One that it refuses for its sidecar is never injected, and
    /// some injector that it names is bare.
    #[test]
    fn the_audit_and_the_check_never_differ(
        [labels, annotations, pod_labels, pod_annotations] in [map(), map(), map(), map()],
        [beside, before] in [containers(), containers()],
        host in prop::bool::weighted(0.1),
    ) {
        let all = &*INJECTORS;
        let texts = |map: &BTreeMap<&'static str, &'static str>| -> Vec<_> {
            map.iter().map(|(key, value)| (*key, *value)).collect()
        };
        let space = namespace("orders", &texts(&labels), &texts(&annotations), all);
        let pod = json!({
            "metadata": {"name": "a", "labels": pod_labels, "annotations": pod_annotations},
            "spec": {"containers": beside, "initContainers": before, "hostNetwork": host},
        });
        let text = pod.to_string();
        let running = RunningPod::read(&text, all.keys()).unwrap();
        let around = Surroundings {
            injectors: all,
            known: None,
            armed: Armed::Unknown,
            suspension: None,
            versions: &BTreeMap::new(),
        };
        let findings = judge(&running, "orders", Some((&space, &Since::default())), &around);
        let view = PodView::read(&text, all.keys()).unwrap();
        let requirement = requirement::of(&view, &space, all);
        let is_exempt = exemption::of(&view, |_| false).is_some();
        let decided = check::decide(&view, &requirement, |_| Readiness::Usable(Looked::Assumed));
        let has = |state| findings.iter().any(|finding| finding.state == state);
        if is_exempt || decided.verdict == Verdict::Admit {
            prop_assert!(!has(State::Bare), "{pod} {findings:?}");
            return Ok(());
        }
        let names: Vec<&str> = findings
            .iter()
            .filter(|finding| finding.state == State::Bare)
            .map(|finding| all.get(finding.injector).unwrap().profile.name.as_str())
            .collect();
        let is_about_value = [Reason::InvalidValue, Reason::OptOutForbidden].contains(&decided.reason);
        let blocking = decided.injector.unwrap();
        prop_assert!(is_about_value || names.contains(&blocking), "{pod} {blocking} {findings:?}");
    }
}
