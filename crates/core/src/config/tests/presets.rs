//! Presets, and what is laid over them.

use crate::injector::{Injectors, PRESETS};

use super::{all_refused, istio, read, top};

#[test]
fn overrides_of_a_preset() {
    all_refused(istio, OVERRIDES_OF_A_PRESET);
}

const OVERRIDES_OF_A_PRESET: &[(&str, &str)] = &[
    (
        r#"rules: «[]"#,
        r#"rules of a preset cannot be overridden: write a whole profile, with `name` in place of `preset`"#,
    ),
    (
        r#"options: {byDefaults: «true}"#,
        r#"found option "byDefaults", expected one that preset istio has: byDefault, noInit, podRevisionFirst"#,
    ),
    (
        r#"options: {byDefault: «1}"#,
        r#"found 1, expected true or false"#,
    ),
    (
        r#"options: {byDefault: «"true"}"#,
        r#"found the text "true", expected true or false"#,
    ),
    (
        r#"mode: «off"#,
        r#"found off without quotes, expected a text: write "off""#,
    ),
    (
        r#"mode: «strict"#,
        r#"found "strict", expected one of enforce, warn, disabled"#,
    ),
    (
        r#"readiness: «ready"#,
        r#"found "ready", expected one of endpoints, probe, assumed"#,
    ),
    (r#"minimum: «0"#, r#"found 0, expected 1 or more"#),
    (r#"staleness: «0"#, r#"found 0, expected 1 or more"#),
    (
        r#"staleness: «"2""#,
        r#"found the text "2", expected a whole number, 1 or more"#,
    ),
    (
        r#"minimum: «-1"#,
        r#"found -1, expected a whole number, 1 or more"#,
    ),
    (
        r#"minimum: «1.5"#,
        r#"found 1.5, expected a whole number, 1 or more"#,
    ),
    (
        r#"minimum: «"2""#,
        r#"found the text "2", expected a whole number, 1 or more"#,
    ),
    (
        r#"minimum: «99999999999"#,
        r#"found 99999999999, expected a whole number, 1 or more"#,
    ),
    (
        r#"webhook: «"""#,
        r#"found an empty text, expected the name of a webhook entry"#,
    ),
    (
        r#"webhook: «"*""#,
        r#"found webhook "*", expected a name with at most one *, at its front"#,
    ),
    (
        r#"webhook: «"**.a""#,
        r#"found webhook "**.a", expected a name with at most one *, at its front"#,
    ),
    (
        r#"webhook: «a.*.b"#,
        r#"found webhook "a.*.b", expected a name with at most one *, at its front"#,
    ),
    (
        r#"path: «inject"#,
        r#"found path "inject", expected one that begins with /"#,
    ),
    (
        r#"service: «a/b"#,
        r#"found "a/b", expected a mapping (KEY: VALUE)"#,
    ),
    (
        r#"service: {«namespace: a}"#,
        r#"key "name" is missing here"#,
    ),
    (
        r#"service: {namespace: a, name: a, «port: 1}"#,
        r#"unknown key "port", expected one of namespace, name"#,
    ),
    (
        r#"service: {namespace: a, name: «"a b"}"#,
        r#"found "a b", expected the name of a Service: at most 63 lower case letters, digits and dashes"#,
    ),
    (
        r#"service: {namespace: a, name: «"a-{instance}"}"#,
        r#"found "a-{instance}", expected the name of a Service: at most 63 lower case letters, digits and dashes"#,
    ),
    (
        r#"namespaces: {only: «[]}"#,
        r#"found an empty list, expected one entry at least: a namespace"#,
    ),
    (
        r#"namespaces: {except: «[]}"#,
        r#"found an empty list, expected one entry at least: a namespace"#,
    ),
    (r#"namespaces: {only: «a}"#, r#"found "a", expected a list"#),
    (
        r#"namespaces: {«without: [a]}"#,
        r#"unknown key "without", expected one of only, except"#,
    ),
    (
        r#"instances: {webhookLabels: «[], fallback: {namespace: a, name: "a-{instance}"}}"#,
        r#"found an empty list, expected one entry at least: a label of webhook configurations"#,
    ),
    (
        r#"instances: {webhookLabels: [a], fallback: {namespace: a, name: «a}}"#,
        r#"found fallback "a", expected {instance} in it, or all copies are one"#,
    ),
    (
        r#"instances: {webhookLabels: [a], fallback: {namespace: a, name: "a-{instance}"}, podAnnotations: «[]}"#,
        r#"found an empty list, expected one entry at least: an annotation of a pod"#,
    ),
];

#[test]
fn every_preset_stands_alone_and_all_stand_together() {
    for (name, _) in PRESETS {
        let one = read(&top(&format!("injectors: [{{preset: {name}}}]"))).unwrap();
        assert_eq!(one.get(0).map(|one| one.profile.name.as_str()), Some(name));
        // In the users' own format: the file is a profile as it is.
        let (_, file) = PRESETS.into_iter().find(|(own, _)| *own == name).unwrap();
        let indented: String = file.lines().map(|line| format!("  {line}\n")).collect();
        let own = read(&top(&format!("injectors:\n-\n{indented}"))).unwrap();
        assert_eq!(
            format!("{:?}", own.get(0).unwrap().profile),
            format!("{:?}", one.get(0).unwrap().profile)
        );
    }
    assert_eq!(Injectors::all_presets().unwrap().len(), PRESETS.len());
}

#[test]
fn a_preset_keeps_what_is_not_overridden() {
    let text = top(
        "injectors:\n- preset: istio\n  name: mesh\n  options: {byDefault: true}\n  minimum: 2\n  staleness: 3\n  \
         namespaces: {only: [a]}",
    );
    let injectors = read(&text).unwrap();
    let profile = &injectors.get(0).unwrap().profile;
    assert_eq!((profile.name.as_str(), profile.minimum), ("mesh", 2));
    assert_eq!(profile.staleness, Some(3));
    let annotations = &profile.instances.as_ref().unwrap().pod_annotations;
    assert_eq!(*annotations, ["istio.io/rev", "sidecar.istio.io/status"]);
    assert_eq!(profile.service.to_string(), "istio-system/istiod");
    let options: Vec<_> = profile
        .options
        .iter()
        .map(|(name, on)| (name.as_str(), *on))
        .collect();
    let expected = [
        ("byDefault", true),
        ("noInit", false),
        ("podRevisionFirst", false),
    ];
    assert_eq!(options, expected);
    assert!(profile.namespaces.contains("a") && !profile.namespaces.contains("b"));
}
