use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::injectors;
use crate::controllers::registration::entries;
use crate::controllers::registration::observed::{Object, Observed};
use crate::controllers::registration::proof::*;
use crate::kube_api::kind::Id;
use meshgate_core::render::{
    self, BREAK_GLASS, CHECK_PROOF, Client, MIRROR_PROOF, MirrorForm, Settings, mirror, proof,
};

fn annotated(key: &str, value: &str) -> Answer {
    Ok([(key.to_owned(), value.to_owned())].into())
}

fn refused(text: &str) -> Answer {
    Err(text.to_owned())
}

fn wanting(proof: &str) -> Proof {
    let mut one = Proof::default();
    one.turn_to(Some(proof.to_owned()), true);
    one
}

#[test]
fn each_subject_is_proved_by_its_own_answer_alone() {
    let by_policy = refused(&format!("{} says {}", CHECK_PROOF, proof::refusal("p")));
    let by_mirror = annotated(proof::PROOF, "p");
    let by_replica = annotated(proof::REACHED, "p");
    let right = [
        (Subject::Check, &by_policy),
        (Subject::Mirror, &by_mirror),
        (Subject::Reach, &by_replica),
    ];
    for (subject, answer) in right {
        let now = Instant::now();
        assert!(
            wanting("p").answered(subject, answer.clone(), now),
            "{subject:?}"
        );
        let mut other = wanting("q");
        assert!(!other.answered(subject, answer.clone(), now), "{subject:?}");
        assert_eq!(
            other.failure(),
            Some(&Unproved::NotYet(words(subject).what))
        );
        for (_, wrong) in right.iter().filter(|(one, _)| *one != subject) {
            let mut one = wanting("p");
            assert!(
                !one.answered(subject, (*wrong).clone(), now),
                "{subject:?} {wrong:?}"
            );
        }
        let mut failed = wanting("p");
        assert!(!failed.answered(subject, refused("theirs"), now));
        assert_eq!(
            failed.failure(),
            Some(&Unproved::Failed("theirs".to_owned()))
        );
    }
}

/// The news of one subject.
fn news(proofs: &mut Proofs) -> Option<Unproved> {
    proofs.take_news().pop().map(|(_, why)| why)
}

#[test]
fn pauses_grow_and_news_is_told_once() {
    let (reach, now) = (Subject::Reach, Instant::now());
    let mut proofs = Proofs::default();
    let failed = |proofs: &mut Proofs, answer: Answer, at: Instant| {
        assert!(!proofs.of_mut(reach).answered(reach, answer, at));
        news(proofs)
    };
    proofs.of_mut(reach).turn_to(Some("a".to_owned()), true);
    assert_eq!(proofs.of(reach).due(now), Some(now));
    assert_eq!(failed(&mut proofs, Ok(BTreeMap::new()), now), None);
    assert_eq!(
        proofs.of(reach).due(now),
        Some(now + Duration::from_millis(100))
    );
    let why = Unproved::Failed("connection refused".to_owned());
    let refusal = refused("connection refused");
    assert_eq!(failed(&mut proofs, refusal.clone(), now), Some(why.clone()));
    assert_eq!(failed(&mut proofs, refusal.clone(), now), None);
    assert!(proofs.of(reach).due(now) > Some(now + Duration::from_millis(500)));
    for _ in 0..40 {
        failed(&mut proofs, refusal.clone(), now);
    }
    assert_eq!(
        proofs.of(reach).due(now),
        Some(now + Duration::from_secs(5))
    );
    let later = now + Duration::from_secs(60);
    assert_eq!(failed(&mut proofs, refusal, later), Some(why));
    assert!(failed(&mut proofs, refused("EOF"), later).is_some());
    // Another address is tried at once, and what was proved stays so until it is.
    let proof = proofs.of_mut(reach);
    assert!(proof.answered(reach, annotated(proof::REACHED, "a"), now));
    proof.turn_to(Some("b".to_owned()), true);
    assert!(proof.due(now) == Some(now) && !proof.is_proved());
    assert!(!proof.answered(reach, refused("EOF"), now));
    proof.turn_to(Some("a".to_owned()), true);
    assert!(proof.is_proved());
    proof.turn_to(Some("b".to_owned()), true);
    assert!(proof.answered(reach, annotated(proof::REACHED, "b"), now));
    proof.turn_to(Some("a".to_owned()), true);
    assert!(!proof.is_proved());
}

#[test]
fn what_is_proved_holds_for_that_proof_and_settles() {
    let (mirror, now) = (Subject::Mirror, Instant::now());
    let mut proofs = Proofs::default();
    assert_eq!(
        proofs.of(mirror).due(now),
        None,
        "there is nothing to prove"
    );
    proofs.of_mut(mirror).turn_to(Some("a".to_owned()), false);
    assert_eq!(proofs.of(mirror).due(now), None, "it is not written");
    proofs.of_mut(mirror).turn_to(Some("a".to_owned()), true);
    // An API server takes it up within a second or two, so that is told later, and once.
    let told: Vec<bool> = (0..40_u64)
        .map(|step| {
            let at = now + Duration::from_millis(200 * step);
            assert!(
                !proofs
                    .of_mut(mirror)
                    .answered(mirror, Ok(BTreeMap::new()), at)
            );
            news(&mut proofs).is_some()
        })
        .collect();
    assert_eq!(told.iter().position(|told| *told), Some(25));
    assert_eq!(told.iter().filter(|told| **told).count(), 1);
    assert!(proofs.of(mirror).is_late());
    let proof = proofs.of_mut(mirror);
    proof.turn_to(Some("b".to_owned()), true);
    assert!(proof.is_due(now) && !proof.is_late());
    assert!(!proof.answered(mirror, refused("theirs"), now));
    proof.turn_to(Some("b".to_owned()), true);
    assert!(!proof.is_due(now), "it is the same");
    assert!(proof.answered(mirror, annotated(proof::PROOF, "b"), now));
    assert!(proof.is_proved() && !proof.has_settled(now) && !proof.is_due(now));
    assert_eq!(proof.due(now), Some(now + SETTLE));
    assert!(proof.has_settled(now + SETTLE) && proof.due(now + SETTLE).is_none());
    proof.turn_to(Some("c".to_owned()), true);
    assert!(!proof.is_proved() && !proof.has_settled(now + SETTLE) && proof.is_due(now));
}

fn mirror_of(form: MirrorForm, list: &str) -> Vec<Value> {
    mirror::objects(&injectors(list), &settings(form))
}

fn settings(form: MirrorForm) -> Settings {
    let mut settings = Settings::new(Client::Url("https://a".to_owned()), "meshgate-system");
    settings.mirror = form;
    settings
}

/// The mirror's proof, for what is there and what is wanted.
fn proof_of(observed: &Observed, wanted: &[Value]) -> Proofs {
    let mut proofs = Proofs::default();
    let wanted = entries::wanted(wanted.to_vec());
    proofs.turn_to(observed, &wanted, &settings(MirrorForm::Policy));
    proofs
}

#[test]
fn only_a_mirror_that_is_a_policy_has_to_be_proved() {
    let is_wanted = |wanted: &[Value]| {
        let proofs = proof_of(&Observed::default(), wanted);
        proofs.of(Subject::Mirror).is_wanted()
    };
    let linkerd = mirror_of(MirrorForm::Policy, "[{preset: linkerd}]");
    let both = mirror_of(MirrorForm::Policy, "[{preset: linkerd}, {preset: dapr}]");
    assert!(is_wanted(&linkerd));
    assert!(!is_wanted(&mirror_of(
        MirrorForm::Webhook,
        "[{preset: linkerd}]"
    )));
    assert!(!is_wanted(&[]));
    // One proof is good for another configuration that mirrors the same.
    let now = Instant::now();
    let mut proofs = proof_of(&Observed::default(), &linkerd);
    let shown = linkerd.iter().find_map(|object| {
        let name = &object["metadata"]["name"];
        (name == MIRROR_PROOF).then(|| &object["metadata"]["annotations"])
    });
    let shown = shown.unwrap()[proof::PROOF].as_str().unwrap();
    let answer = annotated(proof::PROOF, shown);
    assert!(
        proofs
            .of_mut(Subject::Mirror)
            .answered(Subject::Mirror, answer, now)
    );
    let both = entries::wanted(both);
    proofs.turn_to(&Observed::default(), &both, &settings(MirrorForm::Policy));
    assert!(
        proofs.of(Subject::Mirror).is_proved(),
        "it mirrors the same"
    );
}

#[test]
fn the_mirror_is_tried_once_all_of_it_is_there_as_wanted() {
    let wanted = mirror_of(MirrorForm::Policy, "[{preset: linkerd}]");
    let mut observed = Observed::default();
    let is_written = |observed: &Observed| {
        let proofs = proof_of(observed, &wanted);
        proofs.of(Subject::Mirror).is_due(Instant::now())
    };
    let put = |observed: &mut Observed, object: &Value| {
        let object = Object::parse(object.clone()).unwrap();
        observed.objects.insert(object.id.clone(), object);
    };
    for object in &wanted {
        assert!(!is_written(&observed));
        put(&mut observed, object);
    }
    assert!(is_written(&observed));
    for object in &wanted {
        let id = Id::of(object).unwrap();
        let mut changed = object.clone();
        changed["spec"] = json!({});
        put(&mut observed, &changed);
        assert!(!is_written(&observed), "{id}");
        changed["metadata"]["annotations"] = json!({ (BREAK_GLASS): "jane tries something" });
        put(&mut observed, &changed);
        assert!(is_written(&observed), "{id} is left alone");
        put(&mut observed, object);
    }
}

/// The entry proves what it says only as it is wanted: an older one has another proof in its path.
#[test]
fn reaching_is_tried_once_the_entry_is_there_as_wanted() {
    let settings = settings(MirrorForm::Policy);
    let rendered = render::registration(&injectors("[{preset: linkerd}]"), &settings).objects;
    let wanted = entries::wanted(rendered);
    let mut observed = Observed::default();
    let is_due = |observed: &Observed| {
        let mut proofs = Proofs::default();
        proofs.turn_to(observed, &wanted, &settings);
        proofs.of(Subject::Reach).is_due(Instant::now())
    };
    assert!(!is_due(&observed));
    for object in &wanted {
        observed.objects.insert(object.id.clone(), object.clone());
    }
    assert!(is_due(&observed));
    for object in observed.objects.values_mut() {
        for entry in object.entries_mut() {
            entry.client_config.ca_bundle = Some("older".to_owned());
        }
    }
    assert!(is_due(&observed), "a bundle is not wanted here");
    for object in observed.objects.values_mut() {
        for entry in object.entries_mut() {
            entry.failure_policy = Some("Ignore".to_owned());
        }
    }
    assert!(!is_due(&observed));
}
