use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{injectors, parsed};
use crate::controllers::registration::entries;
use crate::controllers::registration::observed::{Fleet, Observed};
use crate::controllers::registration::plan::{Hold, Plan};
use crate::controllers::registration::proof::{Proofs, Subject, is_check, policies};
use crate::controllers::registration::status::*;
use crate::kube_api::kind::{Id, Kind};
use meshgate_core::break_glass::{self, Note};
use meshgate_core::render::{self, CONFIGURATION, Client, Enforcement, FailurePolicy, Settings};
use meshgate_core::render::{CHECK_PROOF, proof};

/// What a status is computed from, all of it as it should be.
struct Scene {
    look: Look,
    proofs: Proofs,
    is_to_enforce: bool,
    labelled: bool,
    unlabelled: usize,
    refused: BTreeMap<Id, String>,
}

impl Scene {
    fn armed(enforcement: Enforcement) -> Self {
        let url = Client::Url("https://a:1".to_owned());
        let settings = Settings {
            failure_policy: FailurePolicy::Fail,
            enforcement,
            ..Settings::new(url, "meshgate-system")
        };
        let rendered = render::registration(&injectors("[{preset: linkerd}]"), &settings);
        let wanted = entries::wanted(rendered.objects);
        let objects = wanted.iter().map(|one| (one.id.clone(), one.clone()));
        let observed = Observed {
            objects: objects.collect(),
            ..Observed::default()
        };
        let mut proofs = Proofs::default();
        proofs.turn_to(&observed, &wanted, &settings);
        Self {
            look: Look {
                observed,
                settings,
                wanted,
                plan: Plan::default(),
            },
            proofs,
            is_to_enforce: true,
            labelled: true,
            unlabelled: 0,
            refused: BTreeMap::new(),
        }
    }

    fn is_reached(&mut self) {
        let reached = proof::of_reach(&self.look.settings);
        let answer = BTreeMap::from([(proof::REACHED.to_owned(), reached)]);
        self.answer(Subject::Reach, Ok(answer));
    }

    fn is_in_force(&mut self) {
        let proof = policies(&self.look.observed, &self.look.wanted).unwrap();
        let refusal = format!("{CHECK_PROOF}: {}", proof::refusal(&proof));
        self.answer(Subject::Check, Err(refusal));
    }

    fn is_mirrored(&mut self) {
        let mut all = self.look.wanted.iter();
        let proof = all.find_map(|one| one.annotation(proof::PROOF)).unwrap();
        let answer = BTreeMap::from([(proof::PROOF.to_owned(), proof.to_owned())]);
        self.answer(Subject::Mirror, Ok(answer));
    }

    fn answer(&mut self, subject: Subject, answer: Result<BTreeMap<String, String>, String>) {
        self.proofs
            .of_mut(subject)
            .answered(subject, answer, Instant::now());
    }

    fn edit(&mut self, kind: Kind, edit: impl Fn(&mut Value)) {
        for live in self.look.observed.objects.values_mut() {
            if live.id.kind == kind && live.id.name == CONFIGURATION {
                let mut value = live.to_value();
                edit(&mut value);
                *live = parsed(&value);
            }
        }
    }

    fn status(&self) -> Status {
        let facts = Facts {
            look: &self.look,
            proofs: &self.proofs,
            is_to_enforce: self.is_to_enforce,
            labelled: self.labelled,
            unlabelled: self.unlabelled,
            refused: &self.refused,
        };
        facts.status()
    }

    fn is(&self, text: &str, grade: Grade, enforces: bool) {
        let status = self.status();
        let line = status.line.clone().unwrap();
        assert_eq!((line.text.as_str(), line.grade), (text, grade));
        assert_eq!(status.enforces, enforces, "{text}");
    }
}

#[test]
fn webhooks_from_the_start_to_armed() {
    let mut scene = Scene::armed(Enforcement::Webhook);
    assert_eq!(scene.status().line, None, "it is not tried yet");
    scene.labelled = false;
    scene.is(
        "waiting for the labels of existing namespaces",
        Grade::Fine,
        true,
    );
    scene.labelled = true;
    scene.answer(Subject::Reach, Err("EOF".to_owned()));
    scene.is("not reached at https://a:1: EOF", Grade::Unreached, true);
    scene.is_reached();
    let late = "the API server does not use the mirror namespaces.meshgate.io as it is now (yet), so labels \
                of new namespaces come late; 4 of 4 entries are armed";
    scene.is(late, Grade::Fine, true);
    scene.is_mirrored();
    scene.is("armed: 4 of 4 entries", Grade::Fine, true);
    assert!(scene.status().is_complete);
    scene.edit(Kind::ValidatingWebhooks, |live| {
        live["webhooks"][0]["failurePolicy"] = json!("Ignore");
    });
    scene.is("armed: 3 of 4 entries", Grade::Wrong, false);
    scene.is_to_enforce = false;
    let nothing = "nothing enforces: no injector is in mode enforce (armed: 3 of 4 entries)";
    scene.is(nothing, Grade::Fine, false);
}

#[test]
fn policies_enforce_once_they_are_proved() {
    let mut scene = Scene::armed(Enforcement::Policy);
    scene.is("the policy is not in force (yet)", Grade::Wrong, false);
    scene.is_in_force();
    scene.is(
        "the policy enforces (armed: 0 of 0 entries)",
        Grade::Fine,
        true,
    );
    // Webhooks that are still armed enforce until then.
    let armed = Scene::armed(Enforcement::Webhook).look.observed.objects;
    let mut scene = Scene::armed(Enforcement::Policy);
    scene.look.observed.objects.extend(armed);
    scene.is("the policy is not in force (yet)", Grade::Wrong, true);
}

#[test]
fn policies_that_are_suspended_do_not_enforce() {
    let mut scene = Scene::armed(Enforcement::Policy);
    let note = Note::parse("jane: x; until=2026-01-01T00:15:00Z").unwrap();
    for live in scene.look.observed.objects.values_mut() {
        if live.id.kind == Kind::ValidatingPolicyBinding && is_check(&live.id) {
            let mut value = live.to_value();
            let suspended = break_glass::suspend::binding(&value, &note);
            json_patch::merge(&mut value, &suspended.patch.unwrap());
            *live = parsed(&value);
            scene.look.plan.hands_off.push(live.id.clone());
        }
    }
    // They are in force as they are.
    let look = &scene.look;
    scene
        .proofs
        .turn_to(&look.observed, &look.wanted, &look.settings);
    scene.is_in_force();
    let suspended = "break-glass suspends enforcement, at least in part (armed: 0 of 0 entries); left \
                     alone by a break-glass annotation: ValidatingAdmissionPolicyBinding \
                     linkerd.check.meshgate.io";
    scene.is(suspended, Grade::Wrong, false);
    // The rest of the registration is kept meanwhile.
    assert!(scene.status().is_complete);
}

#[test]
fn what_is_on_hold_is_no_reason_to_warn() {
    let mut scene = Scene::armed(Enforcement::Webhook);
    let old = json!({
        "metadata": {"name": "old"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let old: Pod = serde_json::from_value(old).unwrap();
    let now = Timestamp::UNIX_EPOCH;
    scene.look.observed.fleet = Some(Fleet::of([old], "new", now));
    scene.is_reached();
    scene.look.plan.hold = Hold::AwaitRollout;
    let rollout = "armed for another configuration, until all serving replicas have this one; 1 of 1 \
                   serving replicas have another configuration: old";
    scene.is(rollout, Grade::Fine, true);
    let mut scene = Scene::armed(Enforcement::Webhook);
    scene.look.observed = Observed {
        fleet: Some(Fleet::of([], "new", now)),
        ..Observed::default()
    };
    scene.look.plan.hold = Hold::AwaitReplicas;
    let first = "nothing is written before a serving replica is ready; no serving replica (no pod with \
                 app.kubernetes.io/name=meshgate,app.kubernetes.io/component=serve)";
    scene.is(first, Grade::Fine, false);
}

#[test]
fn what_others_keep_from_being_as_wanted_is_named() {
    let mut scene = Scene::armed(Enforcement::Webhook);
    scene.is_reached();
    scene.is_mirrored();
    scene.edit(Kind::ValidatingWebhooks, |live| {
        let condition = json!({"name": "theirs", "expression": "false"});
        let conditions = live["webhooks"][0]["matchConditions"].as_array_mut();
        conditions.unwrap().push(condition);
    });
    scene.unlabelled = 2;
    scene.look.plan.hands_off = scene.look.wanted[..1]
        .iter()
        .map(|one| one.id.clone())
        .collect();
    let name = scene.look.wanted.last().unwrap().entries()[0].name.clone();
    let text = format!(
        "armed: 3 of 4 entries; left alone by a break-glass annotation: ClusterRole meshgate; asked about \
         fewer pods than wanted: {name} (another client added the matchCondition theirs); 2 namespaces \
         without their label"
    );
    scene.is(&text, Grade::Wrong, false);
    assert_eq!(scene.status().narrowed.len(), 1);
    // What is armed for another configuration is not compared with this one.
    scene.look.plan.hold = Hold::AwaitRollout;
    assert_eq!(scene.status().narrowed.len(), 0);
}

/// A policy that others narrow enforces nothing where they say so, the mirror included.
#[test]
fn a_narrowed_policy_does_not_enforce() {
    let mut scene = Scene::armed(Enforcement::Policy);
    scene.is_in_force();
    let condition = json!({"name": "theirs", "expression": "false"});
    for live in scene.look.observed.objects.values_mut() {
        if live.id.kind == Kind::ValidatingPolicy && is_check(&live.id) {
            let mut value = live.to_value();
            value["spec"]["matchConditions"] = json!([condition]);
            *live = parsed(&value);
        }
    }
    assert!(!scene.status().enforces);
    assert_eq!(scene.status().narrowed.len(), 1);
}

fn line(text: &str, grade: Grade) -> Line {
    Line {
        text: text.to_owned(),
        grade,
    }
}

/// Whether the Event that is due is a warning.
fn news(throttle: &mut EventThrottle, line: &Line, now: Instant) -> Option<bool> {
    throttle.news(line, now).map(|event| event.is_warning)
}

#[test]
fn what_stays_wrong_is_told_and_told_again_and_the_end_of_it() {
    let mut throttle = EventThrottle::default();
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let fine = line("fine", Grade::Fine);
    let [a, b, c] = ["a", "b", "c"].map(|text| line(text, Grade::Wrong));
    assert_eq!(news(&mut throttle, &fine, at(0)), None);
    assert_eq!(news(&mut throttle, &a, at(1)), None);
    assert_eq!(news(&mut throttle, &fine, at(9)), None, "it was short");
    assert_eq!(throttle.due(at(9)), None);
    assert_eq!(
        news(&mut throttle, &line("a", Grade::Unreached), at(10)),
        None
    );
    assert_eq!(throttle.due(at(10)), Some(at(20)));
    assert_eq!(news(&mut throttle, &a, at(20)), Some(true));
    assert_eq!(news(&mut throttle, &a, at(60)), None);
    assert_eq!(news(&mut throttle, &b, at(61)), Some(true));
    assert_eq!(news(&mut throttle, &c, at(62)), None, "not too often");
    assert_eq!(news(&mut throttle, &b, at(61 + 900)), Some(true));
    assert_eq!(news(&mut throttle, &fine, at(1000)), Some(false));
    assert_eq!(news(&mut throttle, &fine, at(1001)), None);
}

#[test]
fn what_the_api_server_refuses_is_told_and_disarms_nothing() {
    let mut scene = Scene::armed(Enforcement::Policy);
    scene.is_in_force();
    let id = Id::new(Kind::ValidatingPolicy, "own.check.meshgate.io");
    scene.refused.insert(id, "cannot delete it: no".to_owned());
    let text = "the policy enforces (armed: 0 of 0 entries); the API server refuses writes: do them, or change the \
                ClusterRole meshgate-control or the policy that refuses them: cannot delete it: no";
    scene.is(text, Grade::Wrong, true);
    assert_eq!(scene.status().refused, 1);
}
