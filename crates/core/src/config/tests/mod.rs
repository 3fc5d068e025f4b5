//! What is refused in a configuration: the words, and the place.
//!
//! The offending place is marked with `«` in the text, so that line and column are worked out
//! from the text and not from the parser.

mod presets;
mod profiles;

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
        r#"unknown key "foo", expected one of apiVersion, kind, injectors, excludedNamespaces, wake"#,
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
