//! What is refused in a configuration: the words, and the place.
//!
//! The offending place is marked with `«` in the text, so that line and column are worked out
//! from the text and not from the parser.

use crate::injector::{Injectors, PRESETS};

const HEAD: &str = "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\n";

fn read(text: &str) -> Result<Injectors, String> {
    Injectors::from_yaml("c.yaml", text.as_bytes()).map_err(|error| error.to_string())
}

/// Takes the mark out of a text: the text, and `c.yaml:LINE:COLUMN`.
fn place(marked: &str) -> (String, String) {
    let (before, after) = marked.split_once('«').expect("no mark in the text");
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    (
        format!("{before}{after}"),
        format!("c.yaml:{line}:{column}"),
    )
}

#[track_caller]
fn refuses(marked: &str, problem: &str) {
    let (text, place) = place(marked);
    let found = read(&text).err();
    assert_eq!(found, Some(format!("{place}: {problem}")), "in:\n{text}");
}

pub(super) fn all_refused(wrap: impl Fn(&str) -> String, table: &[(&str, &str)]) {
    for (body, problem) in table {
        refuses(&wrap(body), problem);
    }
}

/// A configuration with this below its head.
fn top(body: &str) -> String {
    format!("{HEAD}{body}\n")
}

/// A preset with these fields.
fn istio(fields: &str) -> String {
    top(&format!("injectors:\n- preset: istio\n  {fields}"))
}

/// A whole profile with these fields besides the ones that it needs.
fn profile(fields: &str) -> String {
    top(&format!(
        "injectors:\n- name: x\n  webhook: x.example.com\n  service: {{namespace: x, name: x}}\n  \
         rules: [{{when: [{{podLabel: k, in: [a]}}], then: required}}]\n  \
         injected: [{{sidecar: x}}]\n  {fields}"
    ))
}

/// A whole profile with these rules.
pub(super) fn rules(rules: &str) -> String {
    top(&format!(
        "injectors:\n- name: x\n  webhook: x.example.com\n  service: {{namespace: x, name: x}}\n  \
         injected: [{{sidecar: x}}]\n  options: {{extra: true}}\n  rules:\n  - {rules}"
    ))
}

/// A whole profile with this term.
pub(super) fn term(term: &str) -> String {
    rules(&format!("{{then: required, when: [{term}]}}"))
}

/// A whole profile with this injected set.
pub(super) fn set(set: &str) -> String {
    top(&format!(
        "injectors:\n- name: x\n  webhook: x.example.com\n  service: {{namespace: x, name: x}}\n  \
         rules: [{{when: [{{podLabel: k, in: [a]}}], then: required}}]\n  injected:\n  - {set}"
    ))
}

#[test]
fn the_document_itself() {
    all_refused(str::to_owned, THE_DOCUMENT_ITSELF);
}

const THE_DOCUMENT_ITSELF: &[(&str, &str)] = &[
    (r#"«"#, r#"found nothing, expected a Configuration"#),
    (
        r#"«# only a comment
---
"#,
        r#"found nothing, expected a Configuration"#,
    ),
    (r#"«foo"#, r#"found "foo", expected a mapping (KEY: VALUE)"#),
    (
        r#"«- a"#,
        r#"found a list, expected a mapping (KEY: VALUE)"#,
    ),
    (
        r#"apiVersion: «v1
kind: Configuration
injectors: [{preset: vault}]"#,
        r#"found "v1", expected meshgate.io/v1alpha1"#,
    ),
    (
        r#"apiVersion: meshgate.io/v1alpha1
kind: «Pod
injectors: [{preset: vault}]"#,
        r#"found "Pod", expected Configuration"#,
    ),
    (
        r#"# one
---
a: b
«---
c: d
"#,
        r#"found a second document, expected one Configuration"#,
    ),
];

#[test]
fn the_top_level() {
    all_refused(top, THE_TOP_LEVEL);
}

const THE_TOP_LEVEL: &[(&str, &str)] = &[
    (
        r#"injectors: «[]"#,
        r#"found an empty list, expected one injector at least"#,
    ),
    (r#"injectors«:"#, r#"found nothing, expected a list"#),
    (r#"injectors: «{}"#, r#"found a mapping, expected a list"#),
    (
        r#"injectors: [«linkerd]"#,
        r#"found "linkerd", expected a mapping (KEY: VALUE)"#,
    ),
    (
        r#"injectors:
- «~"#,
        r#"found nothing, expected a mapping (KEY: VALUE)"#,
    ),
    (
        r#"injectors: [{preset: vault}]
«foo: 1"#,
        r#"unknown key "foo", expected one of apiVersion, kind, injectors, excludedNamespaces"#,
    ),
    (
        r#"injectors: [{preset: vault}]
«kind: Configuration"#,
        r#"key "kind" is there twice, expected once"#,
    ),
    (
        r#"injectors: [{preset: vault}]
excludedNamespaces: «[]"#,
        r#"found an empty list, expected one entry at least: a namespace"#,
    ),
    (
        r#"injectors: [{preset: vault}]
excludedNamespaces: [a, b, «a]"#,
        r#""a" is there twice, expected once"#,
    ),
    (
        r#"injectors: [{preset: vault}]
excludedNamespaces: [«yes]"#,
        r#"found yes without quotes, expected a text: write "yes""#,
    ),
    (
        r#"injectors: [{preset: vault}]
excludedNamespaces: [«~]"#,
        r#"found nothing, expected a text"#,
    ),
    (
        r#"injectors: [{preset: vault}]
excludedNamespaces: [«""]"#,
        r#"found an empty text, expected a namespace"#,
    ),
    (
        r#"injectors: [{preset: vault}]
excludedNamespaces: [«Kube]"#,
        r#"found "Kube", expected a namespace: at most 63 lower case letters, digits and dashes"#,
    ),
    (
        r#"injectors:
- preset: vault
- «preset: vault"#,
        r#"injector "vault" is there twice, expected once"#,
    ),
    (
        r#"injectors:
- preset: vault
- «{preset: dapr, name: vault}"#,
        r#"injector "vault" is there twice, expected once"#,
    ),
    (
        r#"injectors:
- preset: «true"#,
        r#"found true without quotes, expected a text: write "true""#,
    ),
    (
        r#"injectors:
- preset: «[a]"#,
        r#"found a list, expected a text"#,
    ),
    (
        r#"injectors:
- «{}"#,
        r#"key "name" is missing in this profile: a name of its own, or `preset`"#,
    ),
    (
        r#"injectors:
- «name: a"#,
        r#"key "service" is missing in this profile: the Service that injects"#,
    ),
    (
        r#"injectors:
- «{name: a, service: {namespace: a, name: a}}"#,
        r#"key "webhook" is missing in this profile: the name of the injector's entry in its webhook configuration"#,
    ),
    (
        r#"injectors:
- «{name: a, webhook: a, service: {namespace: a, name: a}}"#,
        r#"key "rules" is missing in this profile: which pods require it"#,
    ),
];

#[test]
fn names() {
    all_refused(|name| top(&format!("injectors:\n- name: {name}")), NAMES);
}

const NAMES: &[(&str, &str)] = &[
    (
        r#"«A"#,
        r#"found name "A", expected 1 to 40 lower case letters, digits and dashes, no dash at an end"#,
    ),
    (
        r#"«-a"#,
        r#"found name "-a", expected 1 to 40 lower case letters, digits and dashes, no dash at an end"#,
    ),
    (
        r#"«a-"#,
        r#"found name "a-", expected 1 to 40 lower case letters, digits and dashes, no dash at an end"#,
    ),
    (
        r#"«a.b"#,
        r#"found name "a.b", expected 1 to 40 lower case letters, digits and dashes, no dash at an end"#,
    ),
    (
        r#"«a23456789-123456789-123456789-123456789-1"#,
        r#"found name "a23456789-123456789-123456789-123456789-1", expected 1 to 40 lower case letters, digits and dashes, no dash at an end"#,
    ),
    (
        r#"«"""#,
        r#"found name "", expected 1 to 40 lower case letters, digits and dashes, no dash at an end"#,
    ),
    (
        r#"«1"#,
        r#"found 1 without quotes, expected a text: write "1""#,
    ),
];

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
];

#[test]
fn fields_of_a_profile() {
    all_refused(profile, FIELDS_OF_A_PROFILE);
}

const FIELDS_OF_A_PROFILE: &[(&str, &str)] = &[
    (
        r#"«foo: 1"#,
        r#"unknown key "foo", expected one of preset, name, mode, webhook, path, service, instances, options, namespaces, rules, injected, skips, validator, cni, minimum, readiness, hint"#,
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

#[test]
fn json_is_read_as_strictly_as_yaml() {
    let read = |injector: &str| {
        let text = format!(
            "{{\n\t\"apiVersion\": \"meshgate.io/v1alpha1\",\n\t\"kind\": \"Configuration\",\n\t\
             \"injectors\": [{{{injector}}}]\n}}\n"
        );
        let read = Injectors::from_yaml("c.json", text.as_bytes());
        read.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(
        read(r#""preset": "linkerd", "hint": "a\/b \u00fc""#),
        Ok(())
    );
    let table = [
        (
            r#""preset": "consul", "options": {"byDefault": false, "byDefault": true}"#,
            "c.json:4:69: key \"byDefault\" is there twice, expected once",
        ),
        (
            r#""preset": "linkerd", "service": ["a", "b"]"#,
            "c.json:4:49: found a list, expected a mapping (KEY: VALUE)",
        ),
        (
            r#""preset": "linkerd", "minimum": "2""#,
            "c.json:4:49: found the text \"2\", expected a whole number, 1 or more",
        ),
    ];
    for (injector, problem) in table {
        assert_eq!(read(injector), Err(problem.to_owned()));
    }
}

#[test]
fn the_line_is_that_of_the_file() {
    let text = format!(
        "# a comment\r\n---\r\n{}",
        top("injectors:\r\n- preset: «nope")
    );
    let presets = PRESETS.map(|(name, _)| name).join(", ");
    refuses(
        &text.replace("Configuration\n", "Configuration\r\n"),
        &format!("found preset \"nope\", expected one of {presets}"),
    );
}

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
        "injectors:\n- preset: istio\n  name: mesh\n  options: {byDefault: true}\n  minimum: 2\n  \
         namespaces: {only: [a]}",
    );
    let injectors = read(&text).unwrap();
    let profile = &injectors.get(0).unwrap().profile;
    assert_eq!((profile.name.as_str(), profile.minimum), ("mesh", 2));
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
