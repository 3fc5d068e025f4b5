//! Whole profiles of users.

use super::{all_refused, profile, read, refuses, rules, term, top};

#[test]
fn fields_of_a_profile() {
    all_refused(profile, FIELDS_OF_A_PROFILE);
}

const FIELDS_OF_A_PROFILE: &[(&str, &str)] = &[
    (
        r#"«foo: 1"#,
        r#"unknown key "foo", expected one of preset, name, mode, optOut, webhook, path, service, instances, options, namespaces, rules, injected, skips, validator, cni, minimum, readiness, hint, staleness"#,
    ),
    (r#"«name: y"#, r#"key "name" is there twice, expected once"#),
    (
        r#"path: «"""#,
        r#"found an empty text, expected a path that begins with /"#,
    ),
    (
        r#"hint: «"a\tb""#,
        r#"found "a�b" with a line break, tab or the like, expected one line of text"#,
    ),
    (
        r#"skips: {containers: «[]}"#,
        r#"found an empty list, expected one entry at least: a container's name"#,
    ),
    (r#"skips: «{}"#, r#"key "containers" is missing here"#),
    (
        r#"validator: {container: «"", exitCode: 1}"#,
        r#"found an empty text, expected a container's name"#,
    ),
    (
        r#"validator: {container: a, exitCode: «x}"#,
        r#"found the text "x", expected a whole number"#,
    ),
    (
        r#"validator: {«container: a}"#,
        r#"key "exitCode" is missing here"#,
    ),
    (
        r#"validator: {container: a, exitCode: 1, repair: «never}"#,
        r#"found "never", expected one of enabled, disabled"#,
    ),
    (
        r#"cni: {namespaces: «[], podLabel: {a: b}}"#,
        r#"found an empty list, expected one entry at least: a namespace"#,
    ),
    (
        r#"cni: {namespaces: [a], podLabel: «{}}"#,
        r#"found no label, expected one at least: all pods would be meant"#,
    ),
    (
        r#"cni: {namespaces: [a], podLabel: {a: «true}}"#,
        r#"found true without quotes, expected a text: write "true""#,
    ),
    (
        r#"options: {a: true, «a: false}"#,
        r#"key "a" is there twice, expected once"#,
    ),
];

#[test]
fn instances_must_be_there() {
    let profile = |rules: &str| {
        top(&format!(
            "injectors:\n- name: x\n  service: {{namespace: x, name: x}}\n  injected: [{{sidecar: x}}]\n  \
             instances: {{webhookLabels: [rev], fallback: {{namespace: x, name: \"x-{{instance}}\"}}}}\n  \
             rules:\n  - {rules}"
        ))
    };
    all_refused(
        profile,
        &[
            (
                "«{when: [{podLabel: k, in: [a]}], then: required}",
                "rule 1 requires the injector but names no instance",
            ),
            (
                "«{when: [{podLabel: l, in: [a]}], then: required, instance: {podLabel: k}}",
                "rule 1 takes its instance from podLabel k, which may be absent: expected a term \
                 that wants it to be there",
            ),
            (
                "«{when: [{podLabel: k, notIn: [a]}], then: required, instance: {podLabel: k}}",
                "rule 1 takes its instance from podLabel k, which may be absent: expected a term \
                 that wants it to be there",
            ),
            (
                "{when: [{podLabel: k, exists: true}], then: required, instance: «1}",
                "found 1 without quotes, expected a text: write \"1\"",
            ),
            (
                "{when: [{podLabel: k, exists: true}], then: required, instance: «\"\"}",
                "found an empty text, expected the name of an instance",
            ),
        ],
    );
    let good = "{when: [{podLabel: k, exists: true}], then: required, instance: {podLabel: k}}";
    assert!(read(&profile(good)).is_ok());
    refuses(
        &top(
            "injectors:\n- preset: linkerd\n  instances: {webhookLabels: «[a], fallback: \
             {namespace: a, name: \"a-{instance}\"}}",
        ),
        "found instances, expected none: preset linkerd has no copies",
    );
    refuses(
        &top("injectors:\n- preset: linkerd\n  options: {byDefault: «true}"),
        "found option \"byDefault\", expected none, as preset linkerd has no options",
    );
}

#[test]
fn more_than_people_write_is_refused_soon() {
    let many = |one: &str, count: usize| vec![one; count].join(", ");
    let list = many("{preset: vault}", 65);
    refuses(
        &top(&format!("injectors: «[{list}]")),
        "found 65 injectors, expected 64 at most",
    );
    let text = top(&format!(
        "injectors:\n- name: x\n  webhook: x\n  service: {{namespace: x, name: x}}\n  rules: «[{}]",
        many("{when: [{podLabel: k, in: [a]}], then: required}", 101)
    ));
    refuses(&text, "found 101 rules, expected 100 at most");
    let terms = many("{podLabel: k, in: [a]}", 17);
    refuses(
        &rules(&format!("{{then: required, when: «[{terms}]}}")),
        "found 17 terms, expected 16 at most",
    );
    let values: Vec<String> = (0..1001).map(|number| format!("v{number}")).collect();
    refuses(
        &term(&format!("{{podLabel: k, in: «[{}]}}", values.join(", "))),
        "found more than 1000 values in one profile, expected fewer",
    );
    let warning = "a".repeat(121);
    refuses(
        &rules(&format!(
            "{{when: [{{podLabel: k, in: [a]}}], then: required, warn: «{warning}}}"
        )),
        "found 121 characters, expected 120 at most",
    );
}

/// A text that a tenant could go on with would be no limit.
#[test]
fn beginnings_of_images_end_where_a_name_ends() {
    let sets = |sets: &str| {
        top(&format!(
            "injectors:\n- name: x\n  webhook: x.example.com\n  service: {{namespace: x, name: x}}\n  rules: \
             [{{when: [{{podLabel: k, in: [a]}}], then: required}}]\n  injected: {sets}"
        ))
    };
    let expected =
        "expected registry and repository, and /, : or @ at the end: anything may follow";
    for image in [
        "registry.example/mesh",
        "\"proxy:\"",
        "\"registry.example:5000\"",
    ] {
        let found = image.replace('"', "");
        refuses(
            &sets(&format!("[{{sidecar: s, images: [a/, «{image}]}}]")),
            &format!("found \"{found}\", {expected}"),
        );
    }
    all_refused(
        sets,
        &[
            (
                "[{init: [i], images: «[a/]}]",
                "found images without sidecar, expected both",
            ),
            (
                "[{sidecar: s, images: [a/]}, «{sidecar: t}]",
                "found no images, expected some as in another set: this set would let any image in",
            ),
        ],
    );
    for good in [
        "[{sidecar: s, images: [a/]}, {init: [i]}]",
        "[{sidecar: s, images: [\"a/b:\", a/b@]}, {sidecar: t, images: [\"r.example:5000/\"]}]",
    ] {
        assert!(read(&sets(good)).is_ok(), "{good}");
    }
}
