//! Tables of decisions, reasons, metrics, alerts, rights and keys are those of the code.

use std::collections::BTreeSet;
use std::fs;

use meshgate_core::audit::cause::{Cause, State};
use meshgate_core::decision::reason::Reason;
use meshgate_core::injector::{Injectors, PRESETS};
use meshgate_core::render::webhooks::enforces;
use meshgate_core::render::{self, Client, Settings};
use serde_json::Value;

use super::{page, quoted, root, rows, section};
use crate::manifests;

/// What stands between the first backticks of each row.
fn first_words(text: &str) -> Vec<&str> {
    rows(text).iter().map(|row| quoted(row[0])[0]).collect()
}

#[test]
fn every_reason_is_explained_and_no_other() {
    let page = page("docs/reference.md");
    let reasons: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(first_words(section(&page, "## Reasons")), reasons);
}

#[test]
fn every_state_and_cause_of_an_audit_is_explained_and_no_other() {
    let page = page("docs/reference.md");
    let states: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
    assert_eq!(first_words(section(&page, "### States")), states);
    let causes: Vec<&str> = Cause::ALL.iter().map(|cause| cause.as_str()).collect();
    assert_eq!(first_words(section(&page, "### Causes")), causes);
}

/// And a reason comes with decisions that are explained.
#[test]
fn the_decisions_of_reasons_are_explained() {
    let page = page("docs/reference.md");
    let decisions = first_words(section(&page, "## Decisions"));
    for row in rows(section(&page, "## Reasons")) {
        let own = quoted(row[1]);
        assert!(!own.is_empty(), "{row:?}");
        let unknown: Vec<_> = own.iter().filter(|own| !decisions.contains(own)).collect();
        assert!(unknown.is_empty(), "{row:?}: {unknown:?}");
    }
}

/// The keys of the Configuration, as the shipped schema has them.
fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                found.extend(properties.keys().cloned());
            }
            map.values().for_each(|inner| keys(inner, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| keys(inner, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Each is between backticks somewhere: a word that happens to be in a sentence explains nothing.
#[test]
fn every_key_of_the_format_is_explained() {
    let schema: Value = serde_json::from_str(&page("schema/configuration.schema.json")).unwrap();
    let mut expected = BTreeSet::new();
    keys(&schema, &mut expected);
    assert!(
        expected.contains("in") && expected.len() > 30,
        "{expected:?}"
    );
    let page = page("docs/configure.md");
    let text: String = page.split("```").step_by(2).collect();
    let words: BTreeSet<&str> = quoted(&text)
        .into_iter()
        .flat_map(|quote| quote.split(|c: char| !c.is_ascii_alphanumeric()))
        .collect();
    let missing: Vec<_> = expected
        .iter()
        .filter(|key| !words.contains(key.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/configure.md does not explain {missing:?}"
    );
}

/// How many entries the gate has for these presets.
fn gate_entries(presets: &[&str]) -> usize {
    let head = "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n";
    let list: String = presets
        .iter()
        .map(|name| format!("- preset: {name}\n"))
        .collect();
    let injectors = Injectors::from_yaml("test", format!("{head}{list}").as_bytes()).unwrap();
    let client = Client::Url("https://127.0.0.1:8443".to_owned());
    let rendered = render::registration(&injectors, &Settings::new(client, "meshgate-system"));
    let mut objects = rendered.objects.iter();
    let is_gate = |object: &&Value| {
        let name = &object["metadata"]["name"];
        object["kind"] == "MutatingWebhookConfiguration" && name == "admission.meshgate.io"
    };
    let entries = objects.find(is_gate).unwrap()["webhooks"].as_array();
    let names = entries.unwrap().iter().map(|entry| &entry["name"]);
    names
        .filter(|name| enforces(name.as_str().unwrap()))
        .count()
}

#[test]
fn the_numbers_of_entries_are_the_rendered_ones() {
    let all = PRESETS.map(|(name, _)| name);
    let word = ["six", "seven", "eight", "nine", "ten"][all.len() - 6];
    let expected = format!(
        "Linkerd takes {} entries, Istio {}, both with Vault {}, all {word} presets {}.",
        gate_entries(&["linkerd"]),
        gate_entries(&["istio"]),
        gate_entries(&["linkerd", "istio", "vault"]),
        gate_entries(&all),
    );
    let page = page("docs/registration.md");
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&expected), "{expected}");
}

/// The names by which `src/metrics` registers, without the prefixes of registries: each stands right before
/// the sentence that explains it.
fn registered() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(root().join("src/metrics")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        // Texts between quotes are those with odd numbers.
        let pieces: Vec<&str> = text.split('"').collect();
        for (number, piece) in pieces.iter().enumerate().step_by(2).skip(1) {
            let (name, help) = (pieces[number - 1], pieces.get(number + 1));
            let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            let is_explained = help.is_some_and(|help| help.contains(' '));
            if piece.trim() == "," && is_name && is_explained {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

#[test]
fn every_metric_is_explained_and_no_other() {
    let page = page("docs/reference.md");
    let short = |metric: &str| {
        let name = metric.strip_prefix("meshgate_").unwrap();
        let name = name.strip_prefix("registration_").unwrap_or(name);
        name.trim_end_matches("_total").to_owned()
    };
    let documented: Vec<&str> = first_words(section(&page, "## Metrics"));
    let explained: BTreeSet<String> = documented.iter().map(|metric| short(metric)).collect();
    assert_eq!(explained.len(), documented.len(), "twice: {documented:?}");
    let registered = registered();
    assert!(registered.len() > 15, "{registered:?}");
    assert_eq!(explained, registered);
}

#[test]
fn every_alert_is_explained_with_its_severity() {
    let [rules] = &manifests::objects(&manifests::text("chart/alerts.yaml"))[..] else {
        panic!("one list")
    };
    let expected: Vec<(&str, &str)> = rules
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            let severity = rule["labels"]["severity"].as_str().unwrap();
            (rule["alert"].as_str().unwrap(), severity)
        })
        .collect();
    let page = page("docs/operate.md");
    let rows = rows(section(&page, "## Alerts"));
    let documented: Vec<(&str, &str)> =
        rows.iter().map(|row| (quoted(row[0])[0], row[1])).collect();
    assert_eq!(documented, expected);
}

/// `where group resource name verb`, one for each.
type Rights = BTreeSet<String>;

/// Whether a role of this name is the account's.
fn is_of(role: &str, account: &str) -> bool {
    let rest = role.strip_prefix(account);
    rest.is_some_and(|rest| ["", "-events", "-wake"].contains(&rest))
}

/// What the roles in `install.yaml` give to an account.
fn granted(account: &str) -> Rights {
    let objects = manifests::installed();
    let mut rights = Rights::new();
    for object in &objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        let is_role = ["Role", "ClusterRole"]
            .iter()
            .any(|kind| object["kind"] == *kind);
        if !is_role || !is_of(name, account) {
            continue;
        }
        let place = match object["metadata"]["namespace"].as_str() {
            None => "cluster",
            Some("default") => "default",
            Some(_) => "own",
        };
        for rule in object["rules"].as_array().unwrap() {
            let texts = |key: &str| -> Vec<&str> {
                let list = rule[key].as_array().into_iter().flatten();
                list.map(|text| text.as_str().unwrap()).collect()
            };
            let mut names = texts("resourceNames");
            if names.is_empty() {
                names.push("all");
            }
            expand(
                &mut rights,
                place,
                (&texts("apiGroups"), &texts("resources")),
                (&names, &texts("verbs")),
            );
        }
    }
    rights
}

fn expand(
    rights: &mut Rights,
    place: &str,
    (groups, resources): (&[&str], &[&str]),
    (names, verbs): (&[&str], &[&str]),
) {
    for group in groups {
        for resource in resources {
            for name in names {
                for verb in verbs {
                    rights.insert(format!("{place} {group:?} {resource} {name} {verb}"));
                }
            }
        }
    }
}

/// What a table says.
fn documented(heading: &str) -> Rights {
    let page = page("docs/reference.md");
    let mut rights = Rights::new();
    for row in rows(section(&page, heading)) {
        let place = row[0].trim_matches('`');
        let group = quoted(row[1]).first().copied().unwrap_or("");
        let names = match row[3] {
            "all" => vec!["all"],
            names => quoted(names),
        };
        let verbs: Vec<&str> = row[4].split(", ").collect();
        expand(
            &mut rights,
            place,
            (&[group], &quoted(row[2])),
            (&names, &verbs),
        );
    }
    rights
}

#[test]
fn the_tables_of_rights_are_what_the_chart_gives() {
    for (heading, account) in [
        ("### Serving replicas", "meshgate-serve"),
        ("### The leader", "meshgate-control"),
    ] {
        let granted = granted(account);
        assert!(granted.len() > 10, "{account}: {granted:?}");
        assert_eq!(documented(heading), granted, "{account}");
    }
}
