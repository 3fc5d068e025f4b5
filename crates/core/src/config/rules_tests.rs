//! What is refused in rules, their terms, and the sets of a profile.

use super::tests::{all_refused, rules, set, term};

#[test]
fn rules_that_make_no_sense() {
    all_refused(rules, RULES_THAT_MAKE_NO_SENSE);
}

const RULES_THAT_MAKE_NO_SENSE: &[(&str, &str)] = &[
    (r#"{«then: required}"#, r#"key "when" is missing here"#),
    (
        r#"{«when: [{podLabel: k, in: [a]}]}"#,
        r#"key "then" is missing here"#,
    ),
    (
        r#"{when: [{podLabel: k, in: [a]}], then: «require}"#,
        r#"found "require", expected one of required, notRequired, invalid"#,
    ),
    (
        r#"{when: [{podLabel: k, in: [a]}], then: required, «and: x}"#,
        r#"unknown key "and", expected one of option, when, then, instance, warn"#,
    ),
    (
        r#"{when: «[], then: required}"#,
        r#"found an empty list, expected one term at least: a rule that always holds must depend on an option"#,
    ),
    (
        r#"{when: «{podLabel: k, in: [a]}, then: required}"#,
        r#"found a mapping, expected a list"#,
    ),
    (
        r#"{option: «nope, when: [], then: required}"#,
        r#"found option "nope", expected one of extra"#,
    ),
    (
        r#"{when: [{podLabel: k, in: [a]}], then: required, instance: «a}"#,
        r#"found an instance, expected it only where the profile has `instances` and the rule says `then: required`"#,
    ),
    (
        r#"{when: [{podLabel: k, in: [a]}], then: required, warn: «""}"#,
        r#"found an empty text, expected one line of text"#,
    ),
    (
        r#"{when: [{podLabel: k, in: [a]}], then: required, warn: «"a\nb"}"#,
        r#"found "a�b" with a line break, tab or the like, expected one line of text"#,
    ),
    (
        r#"«{when: [{podLabel: k, in: [a]}, {podLabel: k, in: [b]}], then: required}"#,
        r#"rule 1 can never match: its terms on podLabel k contradict each other"#,
    ),
    (
        r#"«{when: [{podAnnotation: k, exists: false}, {podAnnotation: k, fold: true, in: [b]}], then: required}"#,
        r#"rule 1 can never match: its terms on podAnnotation k contradict each other"#,
    ),
    (
        r#"{when: [{podAnnotation: k, exists: true}], then: required}
  - {when: [{podAnnotation: o, exists: true}], then: required}
  - «{when: [{podAnnotation: k, in: [a]}, {podLabel: l, in: [b]}], then: required}"#,
        r#"rule 3 can never decide: rule 1 before it matches all that it matches"#,
    ),
    (
        r#"{when: [{podAnnotation: k, fold: true, in: [yes-please]}], then: required}
  - «{when: [{podAnnotation: k, in: [Yes-PLEASE]}], then: required}"#,
        r#"rule 2 can never decide: rule 1 before it matches all that it matches"#,
    ),
    (
        r#"{option: extra, when: [], then: required}
  - «{option: extra, when: [{podLabel: k, in: [a]}], then: required}"#,
        r#"rule 2 can never decide: rule 1 before it matches all that it matches"#,
    ),
];

#[test]
fn terms_that_make_no_sense() {
    all_refused(term, TERMS_THAT_MAKE_NO_SENSE);
}

const TERMS_THAT_MAKE_NO_SENSE: &[(&str, &str)] = &[
    (
        r#"{podLabel: k, in: «[]}"#,
        r#"found an empty list, expected one value at least"#,
    ),
    (
        r#"{podLabel: k, notIn: «[]}"#,
        r#"found an empty list, expected one value at least"#,
    ),
    (
        r#"{podLabel: k, in: [a, «a]}"#,
        r#"value "a" is there twice, expected once"#,
    ),
    (
        r#"{podAnnotation: k, fold: true, in: [a, «A]}"#,
        r#"value "A" is there twice, expected once"#,
    ),
    (
        r#"{podLabel: k, fold: «true, in: [a]}"#,
        r#"found fold, expected it only with in and notIn on annotations"#,
    ),
    (
        r#"{namespaceLabel: k, trim: «true, in: [a]}"#,
        r#"found trim, expected it only with in and notIn on annotations"#,
    ),
    (
        r#"{podAnnotation: k, trim: «true, exists: true}"#,
        r#"found trim, expected it only with in and notIn on annotations"#,
    ),
    (
        r#"{podAnnotation: k, trim: true, in: [a, «"b "]}"#,
        r#"found "b " with trim, expected a value without white space at its ends"#,
    ),
    (
        r#"{podAnnotation: k, fold: «true, exists: true}"#,
        r#"found fold, expected it only with in and notIn on annotations"#,
    ),
    (
        r#"«{podLabel: k, podAnnotation: k, in: [a]}"#,
        r#"found several keys, expected exactly one of podLabel, podAnnotation, namespaceLabel, namespaceAnnotation"#,
    ),
    (
        r#"«{in: [a]}"#,
        r#"no key is named here, expected exactly one of podLabel, podAnnotation, namespaceLabel, namespaceAnnotation"#,
    ),
    (
        r#"«{podLabel: k, in: [a], exists: true}"#,
        r#"found several tests, expected exactly one of in, notIn, exists"#,
    ),
    (
        r#"«{podLabel: k}"#,
        r#"this term has no test, expected exactly one of in, notIn, exists"#,
    ),
    (
        r#"{podLabel: k, in: [«true]}"#,
        r#"found true without quotes, expected a text: write "true""#,
    ),
    (
        r#"{podLabel: k, in: [a, «1]}"#,
        r#"found 1 without quotes, expected a text: write "1""#,
    ),
    (
        r#"{podLabel: k, in: [«yes]}"#,
        r#"found yes without quotes, expected a text: write "yes""#,
    ),
    (
        r#"{podLabel: k, in: [«1.5]}"#,
        r#"found 1.5 without quotes, expected a text: write "1.5""#,
    ),
    (
        r#"{podLabel: k, in: [«null]}"#,
        r#"found nothing, expected a text"#,
    ),
    (
        r#"{podLabel: k, in: «true}"#,
        r#"found "true", expected a list"#,
    ),
    (
        r#"{podLabel: k, in: [«[a]]}"#,
        r#"found a list, expected a text"#,
    ),
    (
        r#"{podLabel: k, in: [a], «in: [b]}"#,
        r#"key "in" is there twice, expected once"#,
    ),
    (
        r#"{«podLabels: k, in: [a]}"#,
        r#"unknown key "podLabels", expected one of podLabel, podAnnotation, namespaceLabel, namespaceAnnotation, in, notIn, exists, fold, trim"#,
    ),
    (
        r#"{podLabel: «1, in: [a]}"#,
        r#"found 1 without quotes, expected a text: write "1""#,
    ),
    (
        r#"{podLabel: «"k k", in: [a]}"#,
        r#"found "k k", expected the name of a label: letters, digits, -, _ and ., after an optional domain and /"#,
    ),
    (
        r#"{podAnnotation: «"", in: [a]}"#,
        r#"found "", expected the name of an annotation: letters, digits, -, _ and ., after an optional domain and /"#,
    ),
    (
        r#"{podLabel: k, in: [«"a b"]}"#,
        r#"found "a b", which no label can have as its value"#,
    ),
    (
        r#"{podLabel: k, exists: «"true"}"#,
        r#"found the text "true", expected true or false"#,
    ),
];

#[test]
fn sets_that_make_no_sense() {
    all_refused(set, SETS_THAT_MAKE_NO_SENSE);
}

const SETS_THAT_MAKE_NO_SENSE: &[(&str, &str)] = &[
    (
        r#"«{}"#,
        r#"this set names no container, expected sidecar, init or both: any pod would do"#,
    ),
    (
        r#"{init: [a], notImage: «[a]}"#,
        r#"found notImage without sidecar, expected both"#,
    ),
    (
        r#"{init: «[]}"#,
        r#"found an empty list, expected one entry at least: a container's name"#,
    ),
    (r#"{init: [a, «a]}"#, r#""a" is there twice, expected once"#),
    (
        r#"{sidecar: a, notImage: «[]}"#,
        r#"found an empty list, expected one entry at least: an image"#,
    ),
    (
        r#"{sidecar: «""}"#,
        r#"found an empty text, expected a container's name"#,
    ),
    (
        r#"{sidecar: «true}"#,
        r#"found true without quotes, expected a text: write "true""#,
    ),
    (
        r#"{sidecar: «1}"#,
        r#"found 1 without quotes, expected a text: write "1""#,
    ),
    (
        r#"{sidecar: «{prefix: ""}}"#,
        r#"found an empty text, expected a container's name"#,
    ),
    (
        r#"{sidecar: {«suffix: a}}"#,
        r#"unknown key "suffix", expected prefix"#,
    ),
    (
        r#"{sidecar: {prefix: «1}}"#,
        r#"found 1 without quotes, expected a text: write "1""#,
    ),
    (
        r#"{when: «[], sidecar: a}"#,
        r#"found an empty list, expected one term at least"#,
    ),
    (
        r#"«{when: [{podLabel: a, in: [b]}, {podLabel: a, exists: false}], sidecar: a}"#,
        r#"this set never counts: its terms on podLabel a contradict each other"#,
    ),
    (
        r#"{option: «a, sidecar: a}"#,
        r#"found option "a", expected none, as this profile declares no `options`"#,
    ),
];
