//! The JSON Schema that ships is that of the types, and says what the parser says.
//!
//! Checked by a reader of just the keywords that the schema uses (another one fails the test): a
//! validator from outside would bring fifty crates for one file.

use meshgate_core::config::ConfigurationSpec;
use meshgate_core::injector::{Injectors, PRESETS};
use meshgate_core::yaml::Document;
use serde_json::{Map, Value, json};

use crate::from_root;

const FILE: &str = "schema/configuration.schema.json";

fn generated() -> Value {
    schemars::schema_for!(ConfigurationSpec).into()
}

#[test]
fn the_file_is_current() {
    let path = from_root(FILE);
    let text = format!("{:#}\n", generated());
    if std::env::var_os("MESHGATE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let shipped = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        shipped == text,
        "{FILE} is not what the types say: run MESHGATE_BLESS=1 cargo test -p meshgate-core schema"
    );
}

/// Where a value does not match, if anywhere.
fn mismatch(value: &Value, schema: &Value, root: &Value) -> Option<String> {
    let Value::Object(keywords) = schema else {
        return (*schema == json!(false)).then(|| format!("{value} is not allowed"));
    };
    keywords.iter().find_map(|(keyword, wanted)| {
        keyword_mismatch(value, keyword, wanted, schema, root)
            .map(|inner| format!("{keyword}: {inner}"))
    })
}

fn keyword_mismatch(
    value: &Value,
    keyword: &str,
    wanted: &Value,
    schema: &Value,
    root: &Value,
) -> Option<String> {
    let unless = |fits: bool| (!fits).then(|| format!("{wanted} does not fit {value}"));
    let bound = || usize::try_from(wanted.as_u64().unwrap()).unwrap();
    match keyword {
        "$schema" | "$defs" | "title" | "description" | "default" | "format" => None,
        "$ref" => mismatch(value, referenced(wanted, root), root),
        "type" => match wanted.as_array() {
            Some(types) => unless(types.iter().any(|name| has_type(value, text(name)))),
            None => unless(has_type(value, text(wanted))),
        },
        "const" => unless(value == wanted),
        "enum" => unless(list(wanted).contains(value)),
        "anyOf" | "oneOf" => {
            let choices = list(wanted).iter();
            let fitting = choices.filter(|choice| mismatch(value, choice, root).is_none());
            let fitting = fitting.count();
            unless(fitting == 1 || keyword == "anyOf" && fitting > 0)
        }
        "minimum" => unless(value.as_i64() >= wanted.as_i64() || !value.is_number()),
        "minItems" => unless(value.as_array().is_none_or(|list| list.len() >= bound())),
        "maxItems" => unless(value.as_array().is_none_or(|list| list.len() <= bound())),
        "minProperties" => unless(value.as_object().is_none_or(|map| map.len() >= bound())),
        "required" => {
            let has_all = |map: &Map<String, Value>| {
                list(wanted).iter().all(|name| map.contains_key(text(name)))
            };
            unless(value.as_object().is_none_or(has_all))
        }
        "items" => value
            .as_array()?
            .iter()
            .find_map(|one| mismatch(one, wanted, root)),
        "properties" => value.as_object()?.iter().find_map(|(name, one)| {
            mismatch(one, wanted.get(name)?, root).map(|inner| format!("{name}: {inner}"))
        }),
        "additionalProperties" => value.as_object()?.iter().find_map(|(name, one)| {
            let is_known = schema
                .get("properties")
                .is_some_and(|all| all.get(name).is_some());
            if is_known {
                None
            } else {
                mismatch(one, wanted, root)
            }
        }),
        "pattern" => unless(value.as_str().is_none_or(|text| fits_pattern(text, wanted))),
        unknown => panic!("the schema uses {unknown}, which this test does not know"),
    }
}

fn referenced<'v>(reference: &Value, root: &'v Value) -> &'v Value {
    let pointer = text(reference).strip_prefix('#').unwrap();
    root.pointer(pointer).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn fits_pattern(text: &str, pattern: &Value) -> bool {
    // The one pattern there is.
    assert_eq!(pattern, r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$");
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let ends = !text.starts_with('-') && !text.ends_with('-');
    (1..=40).contains(&text.len()) && text.bytes().all(inner) && ends
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        unknown => panic!("the schema uses type {unknown}"),
    }
}

fn refused_by_schema(value: &Value) -> Option<String> {
    let schema = generated();
    mismatch(value, &schema, &schema)
}

fn refused_by_parser(value: &Value) -> Option<String> {
    let read = Injectors::from_yaml("c.yaml", value.to_string().as_bytes());
    read.err().map(|error| error.to_string())
}

fn configuration(injectors: &Value) -> Value {
    json!({
        "apiVersion": "meshgate.io/v1alpha1",
        "kind": "Configuration",
        "injectors": injectors,
    })
}

#[test]
fn presets_and_examples_are_accepted() {
    for (name, text) in PRESETS {
        let profile: Value = Document::whole(name, text).parse().unwrap();
        let whole = configuration(&json!([profile]));
        assert_eq!(refused_by_schema(&whole), None, "{name}");
        assert_eq!(
            refused_by_schema(&configuration(&json!([{"preset": name}]))),
            None
        );
    }
    let mut seen = 0;
    for folder in ["examples/cluster", "examples/profiles"] {
        for entry in std::fs::read_dir(from_root(folder)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            for document in meshgate_core::yaml::documents("example", &bytes).unwrap() {
                let value: Value = document.parse().unwrap();
                if value["kind"] == "Configuration" {
                    assert_eq!(refused_by_schema(&value), None, "{}", path.display());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 0, "no example is a Configuration");
}

fn own(over: &Value) -> Value {
    let mut profile = json!({
        "name": "own",
        "webhook": "own.example.com",
        "service": {"namespace": "own", "name": "own"},
        "rules": [{"when": [{"podLabel": "k", "in": ["a"]}], "then": "required"}],
        "injected": [{"sidecar": "own"}],
    });
    for (key, value) in over.as_object().unwrap() {
        profile[key] = value.clone();
    }
    configuration(&json!([profile]))
}

fn rule(rule: &Value) -> Value {
    own(&json!({"rules": [rule]}))
}

/// A row each: whether parser and schema take it.
#[expect(clippy::too_many_lines, reason = "one table")]
fn both() -> Vec<(bool, Value)> {
    let term = |term: Value| rule(&json!({"when": [term], "then": "required"}));
    vec![
        (true, own(&json!({}))),
        (
            true,
            own(&json!({"mode": "warn", "readiness": "probe", "minimum": 2, "path": "/x"})),
        ),
        (
            true,
            own(&json!({"mode": null, "hint": null, "namespaces": null})),
        ),
        (
            true,
            own(&json!({"injected": [{"sidecar": {"prefix": "own-"}, "init": ["a"]}]})),
        ),
        (
            true,
            own(&json!({"validator": {"container": "v", "exitCode": 95}})),
        ),
        (
            true,
            own(&json!({"cni": {"namespaces": ["a"], "podLabel": {"k": "v"}, "taint": "t/k"}})),
        ),
        (true, own(&json!({"options": {"on-or-off": true}}))),
        (
            true,
            term(json!({"podAnnotation": "k", "fold": true, "trim": true, "notIn": ["a", ""]})),
        ),
        (true, term(json!({"namespaceLabel": "k", "exists": false}))),
        (false, json!({})),
        (false, json!([])),
        (false, configuration(&json!([]))),
        (false, configuration(&json!({}))),
        (false, configuration(&json!([1]))),
        (
            false,
            json!({"apiVersion": "v1", "kind": "Configuration", "injectors": [{"preset": "vault"}]}),
        ),
        (false, own(&json!({"foo": 1}))),
        (false, own(&json!({"name": "Own"}))),
        (false, own(&json!({"name": 1}))),
        (false, own(&json!({"mode": "strict"}))),
        (false, own(&json!({"minimum": 0}))),
        (false, own(&json!({"minimum": -1}))),
        (false, own(&json!({"minimum": "2"}))),
        (false, own(&json!({"minimum": 1.5}))),
        (false, own(&json!({"service": {"namespace": "a"}}))),
        (
            false,
            own(&json!({"service": {"namespace": "a", "name": "b", "port": 1}})),
        ),
        (false, own(&json!({"namespaces": {"only": []}}))),
        (false, own(&json!({"namespaces": {"except": "a"}}))),
        (false, own(&json!({"rules": []}))),
        (false, own(&json!({"injected": []}))),
        (false, own(&json!({"injected": [{"init": []}]}))),
        (false, own(&json!({"injected": [{"sidecar": 1}]}))),
        (
            false,
            own(&json!({"injected": [{"sidecar": {"suffix": "a"}}]})),
        ),
        (false, own(&json!({"skips": {"containers": []}}))),
        (false, own(&json!({"options": {"a": "true"}}))),
        (false, own(&json!({"options": {"a": 1}}))),
        (
            false,
            own(&json!({"validator": {"container": "v", "exitCode": "95"}})),
        ),
        (
            false,
            own(&json!({"cni": {"namespaces": ["a"], "podLabel": {}}})),
        ),
        (false, rule(&json!({"then": "required"}))),
        (false, rule(&json!({"when": [], "then": "perhaps"}))),
        (false, term(json!({"podLabel": "k", "in": []}))),
        (false, term(json!({"podLabel": "k", "in": [true]}))),
        (false, term(json!({"podLabel": "k", "in": [1]}))),
        (false, term(json!({"podLabel": "k", "in": [null]}))),
        (false, term(json!({"podLabel": "k", "exists": "true"}))),
        (false, term(json!({"podLabels": "k", "exists": true}))),
    ]
}

/// What only the parser can tell: meaning, and what depends on another part of the document.
fn parser_only() -> Vec<Value> {
    vec![
        configuration(&json!([{"preset": "linkert"}])),
        configuration(&json!([{"name": "own"}])),
        own(&json!({"webhook": "a.*"})),
        own(&json!({"path": "x"})),
        own(&json!({"service": {"namespace": "A", "name": "b"}})),
        rule(&json!({"when": [], "then": "required"})),
        rule(&json!({"when": [{"podLabel": "k"}], "then": "required"})),
        rule(&json!({"when": [{"podLabel": "k", "in": ["a", "a"]}], "then": "required"})),
        rule(&json!({"option": "nope", "when": [], "then": "required"})),
    ]
}

#[test]
fn schema_and_parser_agree() {
    for (expected, value) in both() {
        let (schema, parser) = (refused_by_schema(&value), refused_by_parser(&value));
        assert_eq!(
            schema.is_none(),
            expected,
            "schema says {schema:?} of {value}"
        );
        assert_eq!(
            parser.is_none(),
            expected,
            "parser says {parser:?} of {value}"
        );
    }
    for value in parser_only() {
        assert_eq!(refused_by_schema(&value), None, "{value}");
        assert!(refused_by_parser(&value).is_some(), "{value}");
    }
}
