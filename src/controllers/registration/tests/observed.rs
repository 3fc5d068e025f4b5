use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::injectors;
use crate::controllers::registration::observed::{Fleet, Object, Replicas};
use meshgate_core::render::{self, Client, Enforcement, MirrorForm, Settings};

/// Nothing that is rendered is lost on the way to the API server.
#[test]
fn what_is_rendered_is_parsed_and_written_as_it_was() {
    let injectors = injectors("[{preset: linkerd}, {preset: istio}, {preset: vault, mode: warn}]");
    let mut settings = Settings::new(Client::Url("https://a".to_owned()), "meshgate-system");
    settings.owner_uid = Some("1".to_owned());
    settings.namespace_uid = Some("2".to_owned());
    settings.ca_bundle = Some("PEM".to_owned());
    for (enforcement, mirror) in [
        (Enforcement::Webhook, MirrorForm::Policy),
        (Enforcement::Policy, MirrorForm::Webhook),
    ] {
        settings.enforcement = enforcement;
        settings.mirror = mirror;
        for object in render::registration(&injectors, &settings).objects {
            assert_eq!(Object::parse(object.clone()).unwrap().to_value(), object);
        }
    }
}

#[test]
fn what_is_no_object_of_the_registration_is_not_parsed() {
    let named = json!({"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "a"}});
    assert!(Object::parse(named.clone()).is_ok());
    for (pointer, value) in [
        ("/kind", json!("Pod")),
        ("/metadata/name", Value::Null),
        ("/metadata", json!([])),
    ] {
        let mut wrong = named.clone();
        *wrong.pointer_mut(pointer).unwrap() = value;
        assert!(Object::parse(wrong).is_err(), "{pointer}");
    }
}

/// A pod that serves, and is ready.
fn serving(name: &str, configuration: Option<&str>) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"meshgate.io/configuration": configuration}},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn fleet(pods: &[&Value], now: Timestamp) -> Fleet {
    let pod = |pod: &&Value| -> Pod { serde_json::from_value((*pod).clone()).unwrap() };
    Fleet::of(pods.iter().map(pod), "new", now)
}

#[test]
fn all_that_may_be_called_must_have_it() {
    let mut gone = serving("gone", Some("old"));
    gone["status"]["phase"] = json!("Failed");
    let mut starting = serving("starting", Some("new"));
    starting["status"]["conditions"][0]["status"] = json!("False");
    let (new, old) = (serving("new", Some("new")), serving("old", Some("old")));
    let mut bare = serving("bare", None);
    bare["metadata"]["labels"] = json!({});
    let (none, unequal, equal) = (Replicas::NoneReady, Replicas::Unequal, Replicas::Equal);
    // (replicas, who can be called, what is said)
    let table: [(&[&Value], Replicas, &str); 7] = [
        (&[], none, "no serving replica"),
        (&[&gone], none, "no serving replica"),
        (&[&starting], none, "0 of 1 serving replicas are ready"),
        (&[&starting, &new], equal, ""),
        (&[&new, &gone], equal, ""),
        (
            &[&old, &new, &bare],
            unequal,
            "2 of 3 serving replicas have another configuration: bare, old",
        ),
        (&[&old], unequal, "1 of 1"),
    ];
    for (pods, expected, said) in table {
        let fleet = fleet(pods, Timestamp::UNIX_EPOCH);
        assert_eq!(fleet.replicas(), expected, "{pods:?}");
        let remark = fleet.remark();
        assert!(
            remark.as_deref().unwrap_or_default().starts_with(said),
            "{remark:?}"
        );
        assert_eq!(remark.is_none(), said.is_empty());
    }
}

#[test]
fn a_replica_that_is_being_deleted_counts_within_its_grace_period() {
    let end: Timestamp = "2026-03-01T12:00:30Z".parse().unwrap();
    let mut pod = serving("a", Some("new"));
    pod["metadata"]["deletionTimestamp"] = json!(end.to_string());
    let second = jiff::SignedDuration::from_secs(1);
    // It still answers, by the configuration that it has.
    assert_eq!(fleet(&[&pod], end - second).replicas(), Replicas::Equal);
    // One on a node that is lost stays like this for ever.
    assert_eq!(fleet(&[&pod], end), Fleet::default());
}
