use jiff::SignedDuration;
use serde_json::{Value, json};

use meshgate_core::names::WOKEN;

use super::*;

const UID: &str = "0f6b1a52-93a1-4c5d-9b1e-3f0c2a7d8e90";
const OTHER: &str = "1f6b1a52-93a1-4c5d-9b1e-3f0c2a7d8e91";

fn view() -> Workloads {
    Workloads::new(Arc::new(Injectors::all_presets().unwrap()))
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn object(kind: Kind, uid: &str, spec: &Value, status: &Value) -> Value {
    let template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"linkerd.io/inject": "enabled", "note": "x"}},
        "spec": {"containers": [{"name": "web", "image": "a/web", "env": [{"name": "A", "value": "1"}]}]},
    });
    let mut object = json!({
        "apiVersion": kind.api_version(), "kind": kind.as_str(),
        "metadata": {"uid": uid, "name": "web", "namespace": "orders", "resourceVersion": "7",
            "creationTimestamp": "1970-01-01T00:01:40Z", "managedFields": [{"manager": "x"}]},
        "spec": spec.clone(), "status": status,
    });
    if kind == Kind::Pod {
        object["metadata"]["annotations"] = template["metadata"]["annotations"].clone();
        object["spec"] = template["spec"].clone();
    } else {
        object["spec"]["template"] = template;
    }
    object
}

fn put(view: &mut Workloads, kind: Kind, object: &Value, now: i64) -> Option<Uid> {
    view.put(kind, &object.to_string(), at(now)).unwrap()
}

/// Kind, spec, status; pods wanted and there.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_an_owner_wants_and_has() {
    let cases = [
        (Kind::ReplicaSet, json!({}), json!({}), (1, 0)),
        (
            Kind::ReplicaSet,
            json!({"replicas": 3}),
            json!({"replicas": 2}),
            (3, 2),
        ),
        (
            Kind::ReplicaSet,
            json!({"replicas": 0}),
            json!({"replicas": 0}),
            (0, 0),
        ),
        (
            Kind::ReplicationController,
            json!({"replicas": 3}),
            json!({"replicas": 2}),
            (3, 2),
        ),
        (
            Kind::DaemonSet,
            json!({}),
            json!({"desiredNumberScheduled": 5, "currentNumberScheduled": 4}),
            (5, 4),
        ),
        // In order: the second pod is not wanted before the first is available.
        (
            Kind::StatefulSet,
            json!({"replicas": 3}),
            json!({"replicas": 1}),
            (1, 1),
        ),
        (
            Kind::StatefulSet,
            json!({"replicas": 3}),
            json!({"replicas": 1, "availableReplicas": 1}),
            (2, 1),
        ),
        (
            Kind::StatefulSet,
            json!({"replicas": 3}),
            json!({"replicas": 3, "availableReplicas": 3}),
            (3, 3),
        ),
        (
            Kind::StatefulSet,
            json!({"replicas": 3, "podManagementPolicy": "Parallel"}),
            json!({"replicas": 1}),
            (3, 1),
        ),
        (
            Kind::Job,
            json!({"parallelism": 3, "completions": 5}),
            json!({"active": 1}),
            (3, 1),
        ),
        (
            Kind::Job,
            json!({"parallelism": 3, "completions": 5}),
            json!({"active": 1, "succeeded": 4}),
            (1, 1),
        ),
        (
            Kind::Job,
            json!({"parallelism": 3, "completions": 9}),
            json!({"terminating": 1, "succeeded": 1, "failedIndexes": "1,3-5,7"}),
            (3, 1),
        ),
        (
            Kind::Job,
            json!({"parallelism": 5, "completions": 9}),
            json!({"succeeded": 1, "failedIndexes": "1,3-5,7"}),
            (3, 0),
        ),
        (
            Kind::Job,
            json!({"parallelism": 3}),
            json!({"active": 1, "succeeded": 1}),
            (1, 1),
        ),
        (Kind::Job, json!({"suspend": true}), json!({}), (0, 0)),
        (
            Kind::Job,
            json!({"managedBy": "example.com/queue"}),
            json!({}),
            (0, 0),
        ),
        (
            Kind::Job,
            json!({}),
            json!({"conditions": [{"type": "Complete", "status": "True"}]}),
            (0, 0),
        ),
        (
            Kind::Job,
            json!({}),
            json!({"conditions": [{"type": "Failed", "status": "True"}]}),
            (0, 0),
        ),
        (
            Kind::Job,
            json!({}),
            json!({"conditions": [{"type": "Failed", "status": "False"}]}),
            (1, 0),
        ),
    ];
    for (kind, spec, status, (wanted, present)) in cases {
        let mut view = view();
        let mut object = object(kind, UID, &spec, &status);
        put(&mut view, kind, &object, 0);
        let (uid, owner) = view.owners().next().unwrap();
        let own = owner.progress;
        assert_eq!((own.wanted, own.present), (wanted, present), "{object}");
        assert_eq!(view.short().count() == 1, present < wanted, "{object}");
        assert_eq!(uid.to_string(), UID);
        object["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:01:40Z");
        put(&mut view, kind, &object, 0);
        assert_eq!(view.short().count(), 0, "{object}");
    }
}

#[test]
fn a_job_whose_pods_fail_is_quiet_for_as_long_as_its_controller_waits() {
    for (failed, seconds) in [(0, 2), (1, 12), (2, 22), (3, 42), (7, 602), (40, 602)] {
        let mut view = view();
        let job = object(Kind::Job, UID, &json!({}), &json!({"failed": failed}));
        put(&mut view, Kind::Job, &job, 0);
        let (_, owner) = view.short().next().unwrap();
        assert_eq!(owner.progress.quiet().as_secs(), seconds, "{failed}");
    }
}

#[test]
fn an_owner_moves_when_its_numbers_do() {
    let mut view = view();
    let mut set = object(
        Kind::ReplicaSet,
        UID,
        &json!({"replicas": 3}),
        &json!({"replicas": 1}),
    );
    let moved = |view: &Workloads| view.owners().next().unwrap().1.moved;
    put(&mut view, Kind::ReplicaSet, &set, 10);
    set["metadata"]["annotations"] = json!({WOKEN: "1970-01-01T00:00:09.5Z"});
    put(&mut view, Kind::ReplicaSet, &set, 20);
    let (_, owner) = view.owners().next().unwrap();
    assert_eq!(owner.woken, Some(at(9) + SignedDuration::from_millis(500)));
    assert_eq!(moved(&view), at(10));
    set["status"]["replicas"] = json!(2);
    put(&mut view, Kind::ReplicaSet, &set, 30);
    assert_eq!(moved(&view), at(30));
}

#[test]
fn a_controller_that_says_that_it_fails_is_heard() {
    let mut view = view();
    let condition = json!({"type": "ReplicaFailure", "status": "True", "message": "denied",
        "lastTransitionTime": "1970-01-01T00:00:05Z"});
    let status = json!({"conditions": [condition]});
    let set = object(Kind::ReplicaSet, UID, &json!({}), &status);
    put(&mut view, Kind::ReplicaSet, &set, 10);
    let (_, owner) = view.owners().next().unwrap();
    assert_eq!(owner.failing_since, Some(at(5)));
    assert_eq!(owner.failure.as_deref(), Some("denied"));
}

#[test]
fn only_pods_that_live_are_kept_and_each_is_new_once() {
    let mut view = view();
    let mut pod = object(Kind::Pod, UID, &json!({}), &json!({"phase": "Pending"}));
    pod["metadata"]["ownerReferences"] = json!([
        {"uid": UID, "controller": false}, {"uid": OTHER, "controller": true}]);
    let uid = put(&mut view, Kind::Pod, &pod, 0).unwrap();
    assert_eq!(put(&mut view, Kind::Pod, &pod, 0), None);
    let own = view.pod(uid).unwrap();
    assert_eq!(own.owner.unwrap().to_string(), OTHER);
    assert_eq!(own.created, at(100));
    pod["status"]["phase"] = json!("Succeeded");
    put(&mut view, Kind::Pod, &pod, 0);
    assert!(view.pod(uid).is_none());
}

#[test]
fn a_list_is_the_whole_truth_about_its_kind() {
    let mut view = view();
    let set = |uid: &str| object(Kind::ReplicaSet, uid, &json!({}), &json!({}));
    let pod = object(Kind::Pod, UID, &json!({}), &json!({}));
    put(&mut view, Kind::ReplicaSet, &set(UID), 0);
    put(&mut view, Kind::Pod, &pod, 0);
    view.begin(Kind::ReplicaSet);
    put(&mut view, Kind::ReplicaSet, &set(OTHER), 0);
    assert_eq!(view.owners().count(), 2);
    view.complete(Kind::ReplicaSet);
    let all: Vec<_> = view.owners().map(|(uid, _)| uid.to_string()).collect();
    assert_eq!(all, [OTHER]);
    assert_eq!((view.short().count(), view.pods().count()), (1, 1));
    assert!(!view.is_listed());
    for kind in Kind::ALL {
        view.begin(kind);
        view.complete(kind);
    }
    assert!(view.is_listed());
    assert_eq!((view.owners().count(), view.pods().count()), (0, 0));
    view.remove(Kind::Pod, &pod.to_string()).unwrap();
}

/// What a list holds of an object says the same as the object, and says no more when it is trimmed again.
#[test]
fn a_trimmed_object_is_read_as_the_whole_one() {
    let injectors = Injectors::all_presets().unwrap();
    for kind in Kind::ALL {
        let whole = object(
            kind,
            UID,
            &json!({"replicas": 2}),
            &json!({"replicas": 1, "phase": "Running"}),
        );
        let whole = whole.to_string();
        let trimmed = shrunk(kind, &whole, &injectors).unwrap();
        assert!(
            !trimmed.contains("managedFields") && !trimmed.contains("\"env\""),
            "{trimmed}"
        );
        assert_eq!(shrunk(kind, &trimmed, &injectors).unwrap(), trimmed);
        let seen = |json: &str| {
            let mut view = view();
            view.put(kind, json, at(5)).unwrap();
            format!("{:?} {:?}", view.owners, view.pods)
        };
        assert_eq!(seen(&whole), seen(&trimmed));
    }
}

#[test]
fn owners_without_pods_to_make_keep_no_template_and_pods_share_one() {
    let mut view = view();
    let old = object(Kind::ReplicaSet, UID, &json!({"replicas": 0}), &json!({}));
    put(&mut view, Kind::ReplicaSet, &old, 0);
    assert!(view.owners().next().unwrap().1.template.is_empty());
    let pods = [UID, OTHER].map(|uid| object(Kind::Pod, uid, &json!({}), &json!({})));
    for pod in &pods {
        put(&mut view, Kind::Pod, pod, 0);
    }
    let facts: Vec<_> = view.pods().map(|pod| Arc::clone(&pod.facts)).collect();
    assert!(Arc::ptr_eq(&facts[0], &facts[1]));
}
