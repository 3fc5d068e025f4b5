use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::object::is_off;
use super::suspend::BEFORE;
use super::*;
use crate::injector::Injectors;
use crate::names::{ASKED_FOR, REACH_ENTRY};
use crate::render::{self, Client, Enforcement, Settings};

fn note(text: &str) -> Note {
    Note::parse(text).unwrap()
}

const UNTIL: &str = "2026-01-01T00:15:00Z";

fn at(time: &str) -> jiff::Timestamp {
    time.parse().unwrap()
}

/// A note is read as this, and what is read is written so that it is read the same.
fn reads(annotation: &str, text: &str, until: Option<&str>, injectors: &[&str]) {
    let expected = Note {
        text: text.to_owned(),
        until: until.map(at),
        injectors: injectors.iter().map(|&one| one.to_owned()).collect(),
    };
    let read = Note::parse(annotation);
    assert_eq!(read.as_ref(), Some(&expected), "{annotation}");
    assert_eq!(Note::parse(&expected.to_string()), Some(expected));
}

#[test]
fn a_note_is_read_as_people_write_it_and_as_the_command_does() {
    let until = Some(UNTIL);
    let whole = "jane: the mesh is being replaced";
    reads(whole, whole, None, &[]);
    reads("jane: a; b", "jane: a; b", None, &[]);
    reads(&format!("jane: a; until={UNTIL}"), "jane: a", until, &[]);
    let both = format!("jane: a; until={UNTIL}; injector=linkerd,vault");
    reads(&both, "jane: a", until, &["linkerd", "vault"]);
    let elsewhere = "jane: a; injector=linkerd; until=2026-01-01T01:15:00+01:00";
    reads(elsewhere, "jane: a", until, &["linkerd"]);
    let spaced = "jane: a ; injector=linkerd, vault";
    reads(spaced, "jane: a", None, &["linkerd", "vault"]);
    assert_eq!(Note::parse("jane"), None);
}

#[test]
fn what_looks_like_a_field_and_is_none_is_part_of_the_reason() {
    let word = "jane: a; until=tomorrow";
    reads(word, word, None, &[]);
    let inside = format!("jane: a; until={UNTIL}; b");
    reads(&inside, &inside, None, &[]);
    // It does not lengthen the time.
    let first = "jane: a; until=2099-01-01T00:00:00Z; injector=b";
    let twice = format!("{first}; until={UNTIL}; injector=linkerd");
    reads(&twice, first, Some(UNTIL), &["linkerd"]);
}

#[test]
fn replicas_pass_what_it_is_about_and_only_until_the_end() {
    let some = note(&format!("jane: x; until={UNTIL}; injector=linkerd"));
    assert!(some.is_open(at("2026-01-01T00:14:59Z")) && !some.is_open(at(UNTIL)));
    assert!(some.is_about("linkerd") && !some.is_about("vault"));
    assert!(note("jane: x").is_about("vault"));
    // Without an end it suspends nothing.
    assert!(!note("jane: x").is_open(at(UNTIL)) && !note("jane: x").is_over(at(UNTIL)));
}

fn rendered(enforcement: Enforcement) -> Vec<Value> {
    let text = "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n- preset: linkerd\n\
                - preset: vault\n- preset: istio\n  mode: warn\n";
    let injectors = Injectors::from_yaml("test", text.as_bytes()).unwrap();
    let client = Client::Url("https://127.0.0.1:8443".to_owned());
    let settings = Settings {
        failure_policy: render::FailurePolicy::Fail,
        mirror: render::MirrorForm::Webhook,
        enforcement,
        ..Settings::new(client, "meshgate-system")
    };
    let mut objects = render::registration(&injectors, &settings).objects;
    for object in &mut objects {
        object["metadata"]["resourceVersion"] = json!("7");
    }
    objects
}

fn suspended(object: &Value, note: &Note) -> suspend::Suspended {
    match object["kind"].as_str().unwrap() {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            suspend::configuration(object, note)
        }
        "ValidatingAdmissionPolicyBinding" => suspend::binding(object, note),
        _ => suspend::Suspended::default(),
    }
}

fn merged(object: &Value, patch: &Value) -> Value {
    let mut object = object.clone();
    json_patch::merge(&mut object, patch);
    object
}

#[test]
fn everything_that_can_refuse_a_pod_is_off_and_comes_back_as_it_was() {
    let note = note(&format!("jane: x; until={UNTIL}"));
    for enforcement in [Enforcement::Webhook, Enforcement::Policy] {
        for object in rendered(enforcement) {
            let suspended = suspended(&object, &note);
            let Some(patch) = suspended.patch else {
                let name = object["metadata"]["name"].as_str().unwrap();
                let is_harmless =
                    !object["webhooks"].is_array() && !name.ends_with(".check.meshgate.io");
                let is_warning =
                    object["kind"] == "ValidatingAdmissionPolicy" || name.starts_with("istio.");
                assert!(is_harmless || is_warning, "{object}");
                continue;
            };
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
            let open = merged(&object, &patch);
            for entry in open["webhooks"].as_array().into_iter().flatten() {
                assert_eq!(is_off(entry), entry["name"] != REACH_ENTRY, "{entry}");
            }
            assert!(!open["spec"].to_string().contains("Deny"));
            assert_eq!(of(&open).as_ref(), Some(&note));
            // Twice is once, and with another end.
            let again = suspended_again(&open, "jane: y; until=2026-01-01T01:00:00Z");
            let mut closed = merged(&again, &resume::resume(&again).unwrap());
            if closed["metadata"]["annotations"] == json!({}) {
                closed["metadata"]
                    .as_object_mut()
                    .unwrap()
                    .remove("annotations");
            }
            assert_eq!(closed, object);
            assert_eq!(resume::resume(&closed), None);
        }
    }
}

fn suspended_again(open: &Value, text: &str) -> Value {
    let again = suspended(open, &note(text));
    let patch = again.patch.unwrap();
    assert!(
        patch.get("webhooks").is_none() && patch.get("spec").is_none(),
        "{patch}"
    );
    merged(open, &patch)
}

#[test]
fn what_others_share_with_an_injector_stays() {
    let note = note(&format!("jane: x; until={UNTIL}; injector=linkerd"));
    let objects = rendered(Enforcement::Webhook);
    let gate = objects
        .iter()
        .find(|one| one["metadata"]["name"] == SEEN_ON)
        .unwrap();
    let found = suspend::configuration(gate, &note);
    assert_eq!(
        found.off, [""; 0],
        "vault can be asked for wherever linkerd can"
    );
    assert_eq!((found.others.len(), found.shared.len()), (2, 0));
    let open = merged(gate, &found.patch.unwrap());
    let asked_for = gate["metadata"]["annotations"][ASKED_FOR].as_str().unwrap();
    let mut asked_for: BTreeMap<String, Vec<Value>> = serde_json::from_str(asked_for).unwrap();
    asked_for.insert(REACH_ENTRY.to_owned(), Vec::new());
    for entry in open["webhooks"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        let added = entry["matchConditions"].as_array().into_iter().flatten();
        let added: Vec<&Value> = added.filter(|one| is_added(one)).collect();
        if !asked_for[name].contains(&json!("linkerd")) {
            assert_eq!(added, [&json!(null); 0], "{name}");
            continue;
        }
        let text = added[0]["expression"].as_str().unwrap();
        assert!(
            text.contains("vault.hashicorp.com") && !text.contains("linkerd"),
            "{text}"
        );
    }
    assert_eq!(
        merged(&open, &resume::resume(&open).unwrap())["webhooks"],
        gate["webhooks"]
    );
    // Of another version, whose conditions meshgate cannot take apart.
    let mut older = gate.clone();
    for entry in older["webhooks"].as_array_mut().unwrap() {
        entry["matchConditions"] = json!([{"name": "required", "expression": "true"}]);
    }
    assert_eq!(suspend::configuration(&older, &note).shared.len(), 2);
    let both = Note {
        injectors: vec!["linkerd".to_owned(), "vault".to_owned()],
        ..note.clone()
    };
    let wider = suspend::configuration(&open, &both);
    assert_eq!((wider.off.len(), wider.others.len()), (3, 0));
    assert_eq!(suspend::injectors(gate), ["istio", "linkerd", "vault"]);
    let policies = rendered(Enforcement::Policy);
    let bindings: Vec<&Value> = policies
        .iter()
        .filter(|one| one["kind"] == "ValidatingAdmissionPolicyBinding")
        .collect();
    let off: Vec<String> = bindings
        .iter()
        .flat_map(|one| suspend::binding(one, &note).off)
        .collect();
    assert_eq!(off, ["linkerd.check.meshgate.io"]);
}

#[test]
fn an_entry_without_conditions_is_restored_without_them() {
    let object =
        json!({"metadata": {"name": SEEN_ON}, "webhooks": [{"name": "a.gate.meshgate.io"}]});
    let open = merged(
        &object,
        &suspend::configuration(&object, &note("jane: x"))
            .patch
            .unwrap(),
    );
    assert!(is_off(&open["webhooks"][0]));
    let closed = merged(&open, &resume::resume(&open).unwrap());
    assert_eq!(closed["webhooks"], object["webhooks"]);
}

#[test]
fn a_binding_that_was_changed_by_hand_is_left_as_it_is() {
    for before in [json!(null), json!("x"), json!("[]"), json!("[1]")] {
        let annotations = json!({ANNOTATION: "jane: x", BEFORE: before});
        let binding = json!({"metadata": {"annotations": annotations}, "spec": {"validationActions": ["Warn"]}});
        let patch = resume::resume(&binding).unwrap();
        assert_eq!(patch.get("spec"), None, "{before}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_as_it_is_written(who in "[ -~]{0,20}", why in "[ -~]{1,20}", minutes in 0_i64..100_000) {
        let text = format!("{who} {why}");
        prop_assume!(Note::parse(&text).is_some_and(|note| note.until.is_none() && note.injectors.is_empty()));
        let until = jiff::Timestamp::from_second(minutes * 60).unwrap();
        let note = Note { text: text.trim().to_owned(), until: Some(until), injectors: vec!["linkerd".to_owned()] };
        prop_assume!(!note.text.is_empty());
        prop_assert_eq!(Note::parse(&note.to_string()), Some(note));
    }
}

/// The same texts are put to the guard of an API server (`registration::keeping`).
#[test]
fn a_note_needs_who_and_why_and_an_end_within_a_day() {
    let now = at("2026-01-01T00:00:00Z");
    for (text, expected) in [
        ("", false),
        (" ", false),
        ("x", false),
        (" x ", false),
        ("x y", false),
        ("x; until=TIME", false),
        ("x ; until=TIME", false),
        ("x; injector=a; until=TIME", false),
        ("x\u{a0}y; until=TIME", false),
        ("x y; until=tomorrow", false),
        ("x y; until=9999-01-01T00:00:00Z", false),
        ("x y; until=TIME; b", false),
        ("x y; until=TIME", true),
        ("x\ty;until=TIME", true),
        ("x\ny; until=TIME", true),
        ("x y; until=9999-01-01T00:00:00Z; until=TIME", true),
        (
            "jane: the mesh is being replaced; until=TIME; injector=a,b ",
            true,
        ),
    ] {
        let text = text.replace("TIME", "2026-01-02T00:00:00Z");
        let note = Note::parse(&text);
        assert_eq!(
            note.is_some_and(|note| note.is_open(now)),
            expected,
            "{text:?}"
        );
    }
    let late = note("x y; until=2026-01-02T00:05:01Z");
    assert!(!late.is_open(now) && late.is_open(at("2026-01-01T00:00:01Z")));
}

fn is_added(condition: &Value) -> bool {
    condition["name"] == "break-glass"
}
