//! The alert rules ask for metrics that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{objects, text};

fn words(expression: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = expression.split(|letter| !is_part(letter));
    words.filter(|word| word.starts_with("meshgate_")).collect()
}

#[test]
fn every_metric_of_an_alert_is_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    let page = fs::read_to_string(page).unwrap();
    let [rules] = &objects(&text("chart/alerts.yaml"))[..] else {
        panic!("one list")
    };
    for rule in rules.as_array().unwrap() {
        let expression = rule["expr"].as_str().unwrap();
        let metrics = words(expression);
        assert!(!metrics.is_empty(), "{rule}");
        for metric in metrics {
            assert!(page.contains(&format!("| `{metric}` |")), "{metric}");
        }
        let annotations = rule["annotations"].as_object().unwrap();
        let fields: Vec<&String> = annotations.keys().collect();
        assert_eq!(fields, ["description", "summary"], "{rule}");
        let severity = &rule["labels"]["severity"];
        assert!(*severity == "critical" || *severity == "warning", "{rule}");
    }
}

/// Every process says 0 for what only one kind of them knows, so that the lowest and the highest of all
/// mean nothing by themselves.
#[test]
fn alerts_ask_those_who_know() {
    let text = text("chart/alerts.yaml");
    assert!(!text.contains("min(meshgate_serving_cert_expiration_timestamp_seconds)"));
    let armed = text.split("max(meshgate_registration_armed)").skip(1);
    for rest in armed {
        let line = rest.lines().next().unwrap();
        assert!(line.contains("and max(meshgate_leader) == 1"), "{line}");
    }
}

/// The words of decisions in them are those that the program counts by.
#[test]
fn the_decisions_of_alerts_are_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    let page = fs::read_to_string(page).unwrap();
    let text = text("chart/alerts.yaml");
    for part in text.split("decision=\"").skip(1) {
        let word = part.split('"').next().unwrap();
        assert!(page.contains(&format!("`{word}`")), "{word}");
    }
}
