use std::collections::BTreeMap;

use anyhow::anyhow;
use serde_json::Value;

use super::super::observed::{Leader, Owners, Pod, Refusal, Registration, Said, Stuck};
use super::*;
use crate::cli::states::InjectorState;
use crate::controllers::registration::observed::Object;
use crate::kube_api::kind::{Id, Kind};
use meshgate_core::injector::Injectors;
use meshgate_core::render::{self, Client, Enforcement, FailurePolicy, MirrorForm, Settings};

fn at(time: &str) -> Timestamp {
    format!("2026-01-01T{time}Z").parse().unwrap()
}

/// What is rendered for one injector, armed.
fn rendered(enforcement: Enforcement) -> Vec<Value> {
    rendered_with(enforcement, MirrorForm::Policy, "enforce")
}

fn rendered_with(enforcement: Enforcement, mirror: MirrorForm, mode: &str) -> Vec<Value> {
    let text = format!(
        "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors: [{{preset: linkerd, mode: {mode}}}]\n"
    );
    let injectors = Injectors::from_yaml("test", text.as_bytes()).unwrap();
    let settings = Settings {
        failure_policy: FailurePolicy::Fail,
        enforcement,
        mirror,
        ..Settings::new(
            Client::Url("https://127.0.0.1:8443".to_owned()),
            "meshgate-system",
        )
    };
    render::registration(&injectors, &settings).objects
}

fn parsed(objects: Vec<Value>) -> Registration {
    let parsed = objects
        .into_iter()
        .map(|object| Object::parse(object).unwrap());
    parsed.map(|object| (object.id.clone(), object)).collect()
}

fn registered(enforcement: Enforcement) -> Registration {
    parsed(rendered(enforcement))
}

fn pod(name: &str, component: &str, node: &str) -> Pod {
    Pod {
        name: name.to_owned(),
        component: component.to_owned(),
        ready: true,
        ending: false,
        node: node.to_owned(),
        configuration: "1f2e".to_owned(),
        image: "meshgate:0.1.0".to_owned(),
    }
}

/// An installation that is well.
fn fine() -> Observed {
    let ca = || Ok(vec![("CN=ca".to_owned(), at("20:00:00"))]);
    Observed {
        now: at("12:00:00"),
        registration: Ok(registered(Enforcement::Webhook)),
        breakable: Registration::new(),
        pods: Ok(vec![
            pod("a", "serve", "one"),
            pod("b", "serve", "two"),
            pod("c", "control", "one"),
        ]),
        wanted: BTreeMap::from([("serve".to_owned(), 2), ("control".to_owned(), 1)]),
        leader: Ok(Some(Leader {
            holder: "c".to_owned(),
            renewed: Some(at("11:59:55")),
            holds: 15,
        })),
        serving: ca(),
        trusted: ca(),
        injectors: Ok(vec![InjectorState {
            name: "linkerd".to_owned(),
            state: "usable",
            why: "1 of 1 endpoints".to_owned(),
        }]),
        refusals: Ok(Vec::new()),
        owners: Ok(Owners::default()),
        said: None,
    }
}

/// The texts of the rows of a grade.
fn rows(seen: &Observed, grade: Grade) -> Vec<String> {
    let rows = report(seen).into_iter();
    let rows = rows.filter(|row| row.grade == grade);
    rows.map(|row| format!("{}: {}", row.part, row.text))
        .collect()
}

#[test]
fn an_installation_that_is_well_has_no_findings_in_either_mode() {
    let seen = fine();
    assert_eq!(rows(&seen, Grade::Finding), [""; 0]);
    assert_eq!(rows(&seen, Grade::Unknown), [""; 0]);
    assert!(rows(&seen, Grade::Good).contains(&"armed: 4 of 4 entries armed".to_owned()));
    let policy = Observed {
        registration: Ok(registered(Enforcement::Policy)),
        ..fine()
    };
    assert_eq!(rows(&policy, Grade::Finding), [""; 0]);
    assert!(rows(&policy, Grade::Good).contains(&"armed: 1 of 1 policies refuse".to_owned()));
    assert!(rows(&policy, Grade::Fact)[0].contains("policies; the gate never blocks"));
}

/// An entry for pods selects by labels, so that one that keeps no labels is as bad as one that is open.
#[test]
fn a_webhook_that_labels_namespaces_is_an_entry_to_arm() {
    let with = |mode: &str, change: fn(&mut Object)| {
        let objects = rendered_with(Enforcement::Webhook, MirrorForm::Webhook, mode);
        let mut registration = parsed(objects);
        let mirror = Id::new(Kind::MutatingWebhooks, render::MIRROR);
        change(registration.get_mut(&mirror).unwrap());
        Observed {
            registration: Ok(registration),
            ..fine()
        }
    };
    let armed = rows(&with("enforce", |_| ()), Grade::Good);
    assert!(
        armed.contains(&"armed: 5 of 5 entries armed".to_owned()),
        "{armed:?}"
    );
    let open: fn(&mut Object) = |mirror| {
        mirror.webhooks.as_mut().unwrap()[0].failure_policy = Some("Ignore".to_owned());
    };
    let found = rows(&with("enforce", open), Grade::Finding);
    assert!(
        found.len() == 1 && found[0].contains("NOT ARMED: 4 of 5"),
        "{found:?}"
    );
    let found = rows(&with("warn", |_| ()), Grade::Finding);
    assert!(
        found.len() == 1 && found[0].contains("all injectors are in mode warn"),
        "{found:?}"
    );
}

#[test]
fn another_configuration_that_is_not_in_force_yet_is_a_finding() {
    let mut seen = fine();
    seen.pods.as_mut().unwrap().push(Pod {
        ending: true,
        configuration: "3a4b".to_owned(),
        ..pod("old", "serve", "one")
    });
    let injectors = seen.injectors.as_mut().unwrap();
    injectors.push(InjectorState {
        name: "vault".to_owned(),
        ..injectors[0].clone()
    });
    let found = rows(&seen, Grade::Finding);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].ends_with("no entry asks about vault yet"),
        "{found:?}"
    );
    let way = "1 more are terminating, of different configurations: 1f2e, 3a4b";
    assert!(found[1].contains(way), "{found:?}");
}

fn remove(seen: &mut Observed, is_it: fn(&Id) -> bool) {
    let objects = seen.registration.as_mut().unwrap();
    objects.retain(|id, _| !is_it(id));
}

#[test]
fn each_thing_that_is_wrong_is_one_finding() {
    type Change = fn(&mut Observed);
    let with = |change: Change| {
        let mut seen = fine();
        change(&mut seen);
        rows(&seen, Grade::Finding)
    };
    let table: [(&str, Change); 12] = [
        ("registration: there is none", |seen| {
            seen.registration = Ok(Registration::new())
        }),
        ("NOT ARMED: 3 of 4 entries", |seen| {
            let objects = seen.registration.as_mut().unwrap();
            let check = Id::new(Kind::ValidatingWebhooks, render::CONFIGURATION);
            let check = objects.get_mut(&check).unwrap();
            check.webhooks.as_mut().unwrap()[0].failure_policy = Some("Ignore".to_owned());
        }),
        ("nothing guards it", |seen| {
            remove(seen, |id| id.name == render::GUARD)
        }),
        ("its owner", |seen| {
            remove(seen, |id| id.kind == Kind::ClusterRole)
        }),
        ("replicas: 1 of 2 ready", |seen| {
            seen.pods.as_mut().unwrap()[0].ready = false
        }),
        ("replicas: 2 of 2 ready, on 1 node", |seen| {
            seen.pods.as_mut().unwrap()[0].node = "two".to_owned();
        }),
        ("different configurations: 1f2e, 3a4b", |seen| {
            seen.pods.as_mut().unwrap()[0].configuration = "3a4b".to_owned();
        }),
        ("control: no pod", |seen| {
            drop(seen.pods.as_mut().unwrap().pop())
        }),
        ("leader: none: c last renewed the Lease 1m 5s ago", |seen| {
            seen.leader.as_mut().unwrap().as_mut().unwrap().renewed = Some(at("11:58:55"));
        }),
        ("served with: EXPIRED at 2026-01-01T11:00:00Z", |seen| {
            seen.serving = Ok(vec![("CN=x".to_owned(), at("11:00:00"))]);
        }),
        ("linkerd not usable: 0 of 1", |seen| {
            let one = &mut seen.injectors.as_mut().unwrap()[0];
            (one.state, one.why) = ("not usable", "0 of 1".to_owned());
        }),
        ("said: meshgate said 2m ago: not reached", |seen| {
            seen.said = Some(Said {
                at: at("11:58:00"),
                text: "not reached".to_owned(),
                is_wrong: true,
            });
        }),
    ];
    for (expected, change) in table {
        let found = with(change);
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{expected}: {found:?}"
        );
    }
}

/// A quota refuses it, say.
#[test]
fn a_replica_that_could_not_even_be_made_is_a_finding() {
    let mut seen = fine();
    seen.wanted.insert("serve".to_owned(), 3);
    let found = rows(&seen, Grade::Finding);
    assert!(
        found.len() == 1 && found[0].contains("replicas: 2 of 3 ready"),
        "{found:?}"
    );
}

#[test]
fn suspended_enforcement_is_reported_first() {
    let mut seen = fine();
    let note =
        meshgate_core::break_glass::Note::parse("jane: x; until=2026-01-01T12:10:00Z").unwrap();
    let mut objects = rendered(Enforcement::Webhook);
    for object in objects
        .iter_mut()
        .filter(|object| object["webhooks"].is_array())
    {
        let suspended = meshgate_core::break_glass::suspend::configuration(object, &note);
        json_patch::merge(object, &suspended.patch.unwrap());
    }
    seen.registration = Ok(parsed(objects));
    let found = report(&seen);
    assert_eq!(
        (found[0].part, found[0].grade),
        ("break-glass", Grade::Finding)
    );
    let expected = "ENFORCEMENT IS SUSPENDED for everything until 2026-01-01T12:10:00Z, for 10m more: jane: x (Mutating";
    assert!(found[0].text.starts_with(expected), "{:?}", found[0]);
    assert!(rows(&seen, Grade::Finding)[1].contains("NOT ARMED: 0 of 4"));
    seen.now = at("12:11:00");
    assert!(report(&seen)[0].text.contains("OVERDUE since"));
    // A user with the rights of break-glass alone sees it.
    seen.breakable = std::mem::replace(&mut seen.registration, Err(anyhow!("no"))).unwrap();
    assert!(report(&seen)[0].text.contains("OVERDUE since"));
}

#[test]
fn what_may_not_be_seen_is_said_and_the_rest_too() {
    let no = || anyhow!("alice may not");
    let seen = Observed {
        registration: Err(no()),
        pods: Err(no()),
        leader: Err(no()),
        serving: Err(no()),
        trusted: Err(no()),
        injectors: Err(no()),
        refusals: Err(no()),
        owners: Err(no()),
        ..fine()
    };
    assert_eq!(rows(&seen, Grade::Finding), [""; 0]);
    assert_eq!(rows(&seen, Grade::Unknown).len(), 8);
}

#[test]
fn the_newest_refusals_are_shown() {
    let refusal = |minute: u8| Refusal {
        owner: format!("ReplicaSet orders/{minute}"),
        count: 3,
        last: at(&format!("11:{minute}:00")),
        message: "é".repeat(500),
    };
    let seen = Observed {
        refusals: Ok((50..58).map(refusal).collect()),
        ..fine()
    };
    let facts = rows(&seen, Grade::Fact);
    assert!(
        facts[1].starts_with("refusals: ReplicaSet orders/57 (3x, 3m ago): é"),
        "{facts:?}"
    );
    assert_eq!(facts.last().unwrap(), "refusals: and 3 more");
    assert!(facts.iter().all(|fact| fact.chars().count() < 220));
}

#[test]
fn distances_are_short() {
    for (seconds, text) in [
        (-5, "0s"),
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3_661, "1h 1m"),
        (90_000, "1d 1h"),
    ] {
        let from = at("00:00:00");
        let to = Timestamp::from_second(from.as_second() + seconds).unwrap();
        assert_eq!(span(from, to), text);
    }
}

#[test]
fn owners_that_lack_pods_are_counted_and_the_oldest_is_shown() {
    let stuck = |number: i64, injector: &str| Stuck {
        owner: format!("ReplicaSet orders/{number}"),
        injector: injector.to_owned(),
        since: at(&format!("11:{number}:00")),
        why: "é".repeat(200),
    };
    let seen = Observed {
        owners: Ok(Owners {
            blocked: vec![
                stuck(58, "linkerd"),
                stuck(56, "linkerd"),
                stuck(57, "vault"),
            ],
            woken: vec![at("11:00:00"), at("11:59:57")],
        }),
        ..fine()
    };
    let findings = rows(&seen, Grade::Finding);
    assert_eq!(findings.len(), 2);
    let first = "owners: 2 owners blocked by linkerd, ReplicaSet orders/56 for 4m: é";
    assert!(
        findings[0].starts_with(first) && findings[0].ends_with("é…"),
        "{findings:?}"
    );
    assert!(
        findings[1].starts_with("owners: 1 owner blocked by vault"),
        "{findings:?}"
    );
    let facts = rows(&seen, Grade::Fact);
    assert!(
        facts.contains(&"owners: 2 owners woken within the last hour, the last 3s ago".to_owned())
    );
}
