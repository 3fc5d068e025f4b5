use serde_json::json;

use std::net::Ipv4Addr;

use super::*;
use meshgate_core::decision::verdict::Verdict;
use meshgate_core::injector::keys::Keys;

#[test]
fn an_owner_is_logged_once_a_minute_with_the_count_in_between() {
    let log = RefusalLog::default();
    let start = Instant::now();
    let turn = |who: &str, seconds| {
        let now = start + Duration::from_secs(seconds);
        log.turn("shop".to_owned(), who.to_owned(), now)
    };
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
        let refusal = Refusal::of(&labels, CLIENT, &request, Some(pod), &decision).unwrap();
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

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Whether each of so many owners in a namespace is logged.
fn floods(log: &RefusalLog, namespace: &str, owners: usize, now: Instant) -> usize {
    let turn = |number| log.turn(namespace.to_owned(), format!("Job/{number}"), now);
    (0..owners).filter(|number| turn(*number).is_some()).count()
}

#[test]
fn memory_of_owners_is_bounded_and_comes_back() {
    let log = RefusalLog::default();
    let start = Instant::now();
    for number in 0..MOST_OWNERS / MOST_OF_GROUP {
        let logged = floods(&log, &format!("team-{number}"), MOST_OF_GROUP, start);
        assert_eq!(logged, MOST_OF_GROUP);
    }
    assert_eq!(log.memory.lock().beyond(start), None);
    // Every other namespace has one line all the same.
    assert_eq!(floods(&log, "shop", 2, start), 1);
    // What is not logged one by one is logged as a number, once a minute.
    assert_eq!(log.memory.lock().beyond(start), Some(1));
    assert_eq!(floods(&log, "shop", 3, start), 0);
    assert_eq!(log.memory.lock().beyond(start), None);
    assert_eq!(log.memory.lock().beyond(start + QUIET), Some(2));
    assert_eq!(log.memory.lock().owners, MOST_OWNERS + 1);
    let later = start + QUIET;
    assert_eq!(floods(&log, "shop", 2, later), 2);
    assert_eq!(log.memory.lock().owners, 2);
}

#[test]
fn a_flood_in_one_namespace_hides_no_refusal_in_another() {
    let log = RefusalLog::default();
    let start = Instant::now();
    assert_eq!(floods(&log, "hostile", 20_000, start), MOST_OF_GROUP);
    assert_eq!(floods(&log, "shop", 400, start), 400);
}

/// A client that names namespaces as it likes has no more lines than one namespace has.
#[test]
fn namespaces_that_may_be_invented_count_as_the_clients() {
    let review = |namespace: &str| {
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "u", "namespace": namespace},
        })
        .to_string()
    };
    let group = |namespace: &str, decision: &Decision<'_>| {
        let review = review(namespace);
        let keys = Keys::default();
        let request = Request::read(review.as_bytes(), &keys).unwrap();
        let labels = labels(Hook::Gate, decision, false);
        Refusal::of(&labels, CLIENT, &request, None, decision)
            .unwrap()
            .group()
    };
    let before_rules = [
        Decision::namespace_unknown("x", "it does not exist"),
        Decision::not_synced("x"),
        Decision::deadline_exceeded("x"),
        Decision::unreadable(&"there is none"),
    ];
    for decision in before_rules {
        assert_eq!(group("x-1", &decision), "client 192.0.2.1");
    }
    let by_rules = Decision::refuse(Verdict::Deny, Reason::SidecarMissing, String::new());
    assert_eq!(group("shop", &by_rules), "shop");
}
