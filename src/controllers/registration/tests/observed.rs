use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::injectors;
use crate::controllers::registration::calls::replica;
use crate::controllers::registration::observed::{Fleet, Object, Replica, Replicas};
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

fn serving(name: &str, configuration: Option<&str>) -> Replica {
    Replica {
        name: name.to_owned(),
        configuration: configuration.map(str::to_owned),
        is_ready: true,
        is_gone: false,
    }
}

#[test]
fn all_that_may_be_called_must_have_it() {
    let gone = Replica {
        is_gone: true,
        ..serving("gone", Some("old"))
    };
    let starting = Replica {
        is_ready: false,
        ..serving("starting", Some("new"))
    };
    let (new, old) = (serving("new", Some("new")), serving("old", Some("old")));
    let bare = serving("bare", None);
    let (none, unequal, equal) = (Replicas::NoneReady, Replicas::Unequal, Replicas::Equal);
    // (replicas, who can be called, what is said)
    let table: [(&[&Replica], Replicas, &str); 7] = [
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
    for (replicas, expected, said) in table {
        let replicas: Vec<Replica> = replicas.iter().copied().cloned().collect();
        let fleet = Fleet::of(replicas.clone(), "new");
        assert_eq!(fleet.replicas(), expected, "{replicas:?}");
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
    let pod = json!({
        "metadata": {"name": "a", "deletionTimestamp": end.to_string()},
        "status": {"phase": "Running"},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let second = jiff::SignedDuration::from_secs(1);
    // It still answers, by the configuration that it has.
    assert!(!replica(pod.clone(), end - second).is_gone);
    // One on a node that is lost stays like this for ever.
    assert!(replica(pod.clone(), end).is_gone);
    let mut ended = pod;
    ended.metadata.deletion_timestamp = None;
    assert!(!replica(ended.clone(), end).is_gone);
    ended.status.as_mut().unwrap().phase = Some("Failed".to_owned());
    assert!(replica(ended, end).is_gone);
}
