//! Rendered conditions against the decisions: what is printed is evaluated as a value here, for
//! random pods and namespaces of every preset, with every switch, and of random profiles.

mod equivalence;
mod names;
mod opt_outs;
mod text;
mod world;

use serde_json::Value;

use super::{Client, MirrorForm, Settings};
use crate::injector::{Injectors, PRESETS};

pub(super) fn settings() -> Settings {
    Settings::new(
        Client::Url("https://127.0.0.1:8443".to_owned()),
        "meshgate-system",
    )
}

/// A configuration with these `injectors:`.
pub(super) fn injectors(list: &str) -> Injectors {
    let text = format!("apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n{list}");
    Injectors::from_yaml("test", text.as_bytes()).unwrap()
}

/// Names and number of gate entries, that of reach not counted.
fn gate_entries(injectors: &Injectors) -> Vec<String> {
    let rendered = super::webhooks::objects(injectors, &settings());
    let entries = rendered.objects[0]["webhooks"].as_array().unwrap();
    let names = entries
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned());
    names.filter(|name| name != super::REACH_ENTRY).collect()
}

/// Few entries for one injector, and no more than are allowed for all.
#[test]
fn entries_are_few() {
    let count = |list: &str| gate_entries(&injectors(list)).len();
    let expected = [
        ("linkerd", 2),
        ("istio", 3),
        ("vault", 1),
        ("opentelemetry", 2),
        ("dapr", 1),
        ("kuma", 2),
        ("consul", 1),
    ];
    for ((name, entries), (preset, _)) in expected.into_iter().zip(PRESETS) {
        assert_eq!(name, preset);
        assert_eq!(count(&format!("- preset: {name}\n")), entries, "{name}");
    }
    assert_eq!(count("- preset: linkerd\n- preset: vault\n"), 3);
    assert_eq!(
        count("- preset: linkerd\n- preset: istio\n- preset: vault\n"),
        15
    );
    let all = Injectors::all_presets().unwrap();
    assert_eq!(gate_entries(&all).len(), 90);
    assert!(super::webhooks::objects(&all, &settings()).notes.is_empty());
}

/// DNS-1123 subdomains with three labels at least, as the API server wants them, and unique.
#[test]
fn names_are_valid_and_unique() {
    let all = Injectors::all_presets().unwrap();
    let mut names = gate_entries(&all);
    for name in &names {
        assert!(name.len() <= 253 && name.split('.').count() >= 3, "{name}");
        let is_label = |label: &str| {
            let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            label.len() <= 63
                && label.bytes().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
                && !label.is_empty()
        };
        assert!(name.split('.').all(is_label), "{name}");
    }
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before);
}

/// An injector in mode `warn` never blocks and adds nothing to the entries that do.
#[test]
fn warn_has_entries_of_its_own_that_never_fail() {
    let with = injectors(
        "- preset: linkerd\n- preset: vault\n  mode: warn\n- {preset: dapr, mode: disabled}\n",
    );
    let settings = Settings {
        failure_policy: super::FailurePolicy::Fail,
        ..settings()
    };
    let rendered = super::webhooks::objects(&with, &settings);
    let entries = rendered.objects[0]["webhooks"].as_array().unwrap();
    let shown = |entry: &Value| {
        format!(
            "{} {}",
            entry["name"].as_str().unwrap(),
            entry["failurePolicy"].as_str().unwrap()
        )
    };
    let shown: Vec<String> = entries.iter().map(shown).collect();
    assert_eq!(
        shown,
        [
            "linkerd-2.gate.meshgate.io Fail",
            "linkerd.gate.meshgate.io Fail",
            "vault.warn.gate.meshgate.io Ignore",
            "reach.meshgate.io Fail",
        ]
    );
    let names = entries.iter().map(|entry| entry["name"].as_str().unwrap());
    let enforces: Vec<bool> = names.map(super::webhooks::enforces).collect();
    assert_eq!(enforces, [true, true, false, false]);
    let policies = super::policy::objects(&with, &settings);
    let bindings = policies
        .iter()
        .filter(|o| o["kind"] == "ValidatingAdmissionPolicyBinding");
    let actions: Vec<&Value> = bindings.map(|o| &o["spec"]["validationActions"]).collect();
    assert_eq!(
        actions,
        [
            &serde_json::json!(["Deny"]),
            &serde_json::json!(["Warn", "Audit"])
        ]
    );
}

/// Too many kinds of namespaces: some are not told apart, and that is said.
#[test]
fn too_many_entries_are_widened_and_noted() {
    let one = |number: usize| {
        format!(
            "- name: mesh{number}\n  webhook: mesh{number}.example.com\n  service: {{namespace: \
             mesh{number}, name: injector}}\n  rules:\n  - {{when: [{{namespaceLabel: mesh{number}, in: \
             [\"on\"]}}], then: required}}\n  - {{when: [{{podLabel: mesh{number}, in: [\"on\"]}}], then: \
             required}}\n  injected: [{{sidecar: proxy{number}}}]\n"
        )
    };
    let list: String = (1..=8).map(one).collect();
    let rendered = super::webhooks::objects(&injectors(&list), &settings());
    let entries = rendered.objects[0]["webhooks"].as_array().unwrap().len() - 1;
    assert_eq!(entries, 64);
    let notes: Vec<String> = rendered.notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), 2);
    assert!(notes[0].contains("for mesh7 in mesh7:"), "{notes:?}");
}

/// The mirror is there where an injector needs it, in the form that is asked for.
#[test]
fn the_mirror_is_rendered_where_it_is_needed() {
    let kinds = |list: &str, mirror| -> Vec<String> {
        let settings = Settings {
            mirror,
            ..settings()
        };
        let objects = super::mirror::objects(&injectors(list), &settings);
        objects
            .iter()
            .map(|o| format!("{} {}", o["kind"], o["metadata"]["name"]).replace('"', ""))
            .collect()
    };
    assert!(kinds("- preset: istio\n- preset: vault\n", MirrorForm::Policy).is_empty());
    assert!(
        kinds(
            "- {preset: linkerd, mode: disabled}\n- preset: vault\n",
            MirrorForm::Policy
        )
        .is_empty()
    );
    assert_eq!(
        kinds("- preset: linkerd\n", MirrorForm::Policy),
        [
            "MutatingAdmissionPolicy namespaces.meshgate.io",
            "MutatingAdmissionPolicyBinding namespaces.meshgate.io",
            "MutatingAdmissionPolicy in-force.namespaces.meshgate.io",
            "MutatingAdmissionPolicyBinding in-force.namespaces.meshgate.io",
        ]
    );
    assert_eq!(
        kinds("- preset: linkerd\n", MirrorForm::Webhook),
        ["MutatingWebhookConfiguration namespaces.meshgate.io"]
    );
}

/// Only what the static form can hold.
#[test]
fn the_static_form_is_by_url_and_named_for_it() {
    let all = Injectors::all_presets().unwrap();
    let by_service = Client::Service {
        namespace: "meshgate-system".to_owned(),
        name: "meshgate".to_owned(),
        port: 443,
    };
    let service = Settings {
        client: by_service,
        ..settings()
    };
    assert!(super::static_manifests::objects(&all, &service).is_err());
    for object in super::static_manifests::objects(&all, &settings())
        .unwrap()
        .objects
    {
        let name = object["metadata"]["name"].as_str().unwrap();
        assert!(name.ends_with(super::static_manifests::SUFFIX), "{name}");
        if let Some(policy) = object["spec"]["policyName"].as_str() {
            assert!(
                policy.ends_with(super::static_manifests::SUFFIX),
                "{policy}"
            );
        }
        assert!(super::static_manifests::folder(&object).is_some());
        assert!(object["metadata"].get("ownerReferences").is_none());
    }
}

#[test]
fn refusals_by_entries_and_by_static_policies_are_known_by_their_names() {
    let names = super::webhooks::names_pod_entry;
    for known in [
        "admission webhook \"linkerd.gate.meshgate.io\" denied the request: …",
        "admission webhook \"gate-17.meshgate.io\" denied the request: …",
        "failed calling webhook \"vault.warn.check.meshgate.io\": no route",
        "ValidatingAdmissionPolicy 'linkerd.check.meshgate.io.static.k8s.io' with binding …",
    ] {
        assert!(names(known), "{known}");
    }
    for other in [
        "admission webhook \"proxy-injector.linkerd.io\" denied the request",
        "admission webhook \"namespaces.meshgate.io\" denied the request",
        "gate: check your pods",
    ] {
        assert!(!names(other), "{other}");
    }
}
