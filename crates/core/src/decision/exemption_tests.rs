//! Exemptions: who is never asked about.

use serde_json::{Value, json};

use super::of;
use crate::decision::reason::Reason;
use crate::injector::Injectors;
use crate::view::pod::PodView;

const KUBELET: &[&str] = &["system:nodes", "system:authenticated"];
const PERSON: &[&str] = &["system:authenticated", "system:masters"];

fn windows_affinity(operator: &str, value: &str) -> Value {
    let key = "kubernetes.io/os";
    let expression = json!({"key": key, "operator": operator, "values": [value]});
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn exemptions() {
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "hash"}});
    let windows = json!({"os": {"name": "windows"}});
    let table = [
        (json!({}), json!({}), KUBELET, None),
        (mirror.clone(), json!({}), KUBELET, Some(Reason::MirrorPod)),
        // Any user can write the annotation.
        (mirror.clone(), json!({}), PERSON, None),
        (mirror.clone(), json!({}), &[], None),
        (
            mirror.clone(),
            json!({"hostNetwork": true}),
            KUBELET,
            Some(Reason::MirrorPod),
        ),
        (
            mirror,
            json!({"hostNetwork": true}),
            PERSON,
            Some(Reason::HostNetwork),
        ),
        (
            json!({}),
            json!({"hostNetwork": true}),
            PERSON,
            Some(Reason::HostNetwork),
        ),
        (json!({}), json!({"hostNetwork": false}), PERSON, None),
        (
            json!({}),
            json!({"hostNetwork": null, "hostPID": true}),
            PERSON,
            None,
        ),
        (json!({}), windows, PERSON, Some(Reason::OsWindows)),
        (json!({}), json!({"os": {"name": "linux"}}), PERSON, None),
        (json!({}), json!({"os": {"name": "Windows"}}), PERSON, None),
        (
            json!({}),
            json!({"nodeSelector": {"a": "b", "kubernetes.io/os": "windows"}}),
            PERSON,
            Some(Reason::OsWindows),
        ),
        (
            json!({}),
            json!({"nodeSelector": {"kubernetes.io/os": "linux"}}),
            PERSON,
            None,
        ),
        (
            json!({}),
            json!({"nodeSelector": {"beta.kubernetes.io/os": "windows"}}),
            PERSON,
            None,
        ),
        // These exempt no pod.
        (
            json!({}),
            json!({"affinity": windows_affinity("In", "windows")}),
            PERSON,
            None,
        ),
        (
            json!({}),
            json!({"runtimeClassName": "windows-2022"}),
            PERSON,
            None,
        ),
        (
            json!({}),
            json!({"automountServiceAccountToken": false}),
            PERSON,
            None,
        ),
    ];
    let injectors = Injectors::all_presets().unwrap();
    for (metadata, spec, groups, expected) in table {
        let json = json!({"metadata": metadata, "spec": spec}).to_string();
        let pod = PodView::read(&json, injectors.keys()).unwrap();
        assert_eq!(
            of(&pod, |group| groups.contains(&group)),
            expected,
            "{json} by {groups:?}"
        );
    }
}

#[test]
fn hints_at_windows_are_noticed() {
    let table = [
        (json!({}), false),
        (json!({"affinity": windows_affinity("In", "windows")}), true),
        (
            json!({"affinity": windows_affinity("NotIn", "windows")}),
            false,
        ),
        (json!({"affinity": windows_affinity("In", "linux")}), false),
        (
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 1}}}),
            false,
        ),
        (json!({"affinity": "x"}), false),
        (json!({"runtimeClassName": "Windows-2022"}), true),
        (json!({"runtimeClassName": "gvisor"}), false),
    ];
    let injectors = Injectors::all_presets().unwrap();
    for (spec, expected) in table {
        let json = json!({"metadata": {}, "spec": spec}).to_string();
        let pod = PodView::read(&json, injectors.keys()).unwrap();
        assert_eq!(pod.hints_at_windows(), expected, "{json}");
    }
}
