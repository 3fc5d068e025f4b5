use serde_json::json;

use super::*;
use meshgate_core::injector::keys::Keys;

#[test]
fn an_owner_is_logged_once_a_minute_with_the_count_in_between() {
    let log = RefusalLog::default();
    let start = Instant::now();
    let turn = |who: &str, seconds| log.turn(who.to_owned(), start + Duration::from_secs(seconds));
    assert_eq!(turn("shop/ReplicaSet/a", 0), Some(0));
    assert_eq!(turn("shop/ReplicaSet/a", 1), None);
    assert_eq!(
        turn("shop/ReplicaSet/b", 1),
        Some(0),
        "another owner has its own line"
    );
    assert_eq!(turn("shop/ReplicaSet/a", 59), None);
    assert_eq!(turn("shop/ReplicaSet/a", 60), Some(2));
    assert_eq!(turn("shop/ReplicaSet/a", 130), Some(0));
}

/// A user who may create pods may write names of megabytes: ten thousand of them are remembered.
#[test]
fn names_are_shortened_before_they_are_logged_and_remembered() {
    let long = "x\n".repeat(1_000_000);
    let owned = json!({
        "generateName": long,
        "ownerReferences": [{"kind": long, "name": long, "controller": true}],
    });
    for metadata in [owned, json!({"name": long})] {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "x\n".repeat(100), "namespace": long, "operation": "CREATE",
                "resource": {"group": "", "resource": "pods"}, "object": {"metadata": metadata}},
        });
        let review = review.to_string();
        let keys = Keys::default();
        let request = Request::read(review.as_bytes(), &keys).unwrap();
        let pod = request.pod().unwrap();
        let decision = Decision::not_synced("shop");
        let labels = labels(Hook::Gate, &decision, false);
        let refusal = Refusal::of(&labels, &request, Some(pod), &decision).unwrap();
        let texts = [
            &refusal.uid,
            &refusal.namespace,
            &refusal.pod,
            &refusal.owner_kind,
            &refusal.owner,
        ];
        for text in texts {
            assert!(text.chars().count() <= MAX_NAME + 1, "{}", text.len());
            assert!(!text.contains(char::is_control));
        }
        assert!(refusal.pod.starts_with('x') && refusal.who().len() < 4_000);
    }
}

#[test]
fn memory_of_owners_is_bounded_and_comes_back() {
    let log = RefusalLog::default();
    let start = Instant::now();
    for number in 0..MOST_OWNERS {
        assert_eq!(log.turn(format!("shop/Job/{number}"), start), Some(0));
    }
    assert_eq!(log.memory.lock().beyond(start), None);
    assert_eq!(log.turn("shop/Job/one-more".to_owned(), start), None);
    // What is not logged one by one is logged as a number, once a minute.
    assert_eq!(log.memory.lock().beyond(start), Some(1));
    assert_eq!(log.turn("shop/Job/two-more".to_owned(), start), None);
    assert_eq!(log.memory.lock().beyond(start), None);
    assert_eq!(log.memory.lock().beyond(start + QUIET), Some(1));
    assert_eq!(log.memory.lock().owners.len(), MOST_OWNERS);
    let later = start + QUIET;
    assert_eq!(log.turn("shop/Job/one-more".to_owned(), later), Some(0));
    assert_eq!(log.memory.lock().owners.len(), 1);
}
