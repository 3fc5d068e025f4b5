//! `values.schema.json`: what it says of injectors is what ships as the Configuration's schema.

use std::fs;

use meshgate_core::config::ConfigurationSpec;
use meshgate_core::injector::PRESETS;
use serde_json::Value;

use super::{path, text};

const FILE: &str = "chart/values.schema.json";

#[test]
fn injectors_in_values_are_those_of_a_configuration() {
    let mut schema: Value = serde_json::from_str(&text(FILE)).unwrap();
    let own: Value = schemars::schema_for!(ConfigurationSpec).into();
    schema["$defs"] = own["$defs"].clone();
    let presets: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
    let mut sorted = presets.clone();
    sorted.sort_unstable();
    *schema
        .pointer_mut("/properties/injectors/items/then/enum")
        .unwrap() = sorted.into();
    let wanted = format!("{schema:#}\n");
    if std::env::var_os("MESHGATE_BLESS").is_some() {
        fs::write(path(FILE), &wanted).unwrap();
    }
    assert!(text(FILE) == wanted, "manifests/{FILE}: run make bless");
}

/// A value without a word in the schema would be refused; one without a default would surprise.
#[test]
fn values_and_schema_have_the_same_keys() {
    let schema: Value = serde_json::from_str(&text(FILE)).unwrap();
    let [values] = &super::objects(&text("chart/values.yaml"))[..] else {
        panic!("one document")
    };
    same("", values, &schema);
}

fn same(at: &str, values: &Value, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    assert_eq!(schema["additionalProperties"], false, "{at}");
    let keys = |map: &serde_json::Map<String, Value>| -> Vec<String> {
        let mut keys: Vec<String> = map.keys().cloned().collect();
        keys.retain(|key| key != "global");
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys(values.as_object().unwrap()), keys(properties), "{at}");
    for (key, inner) in properties {
        if let Some(value) = values.get(key) {
            same(&format!("{at}/{key}"), value, inner);
        }
    }
}

/// The table of docs/install.md has every value, or what it is a part of.
#[test]
fn every_value_is_in_the_table() {
    let page = text("../docs/install.md");
    let schema: Value = serde_json::from_str(&text(FILE)).unwrap();
    let mut open = vec![(String::new(), &schema)];
    while let Some((at, schema)) = open.pop() {
        for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
            let at = format!("{at}{key}");
            if key != "global" && !page.contains(&format!("`{at}`")) {
                assert!(
                    inner.get("properties").is_some(),
                    "docs/install.md lacks {at}"
                );
                open.push((format!("{at}."), inner));
            }
        }
    }
}
