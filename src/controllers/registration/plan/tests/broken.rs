//! Glass that somebody broke until a time.

use super::*;

const NOTE: &str = "jane: x; until=2026-01-01T00:15:00Z";

fn opened() -> Cluster {
    let mut cluster = armed();
    for kind in [Kind::MutatingWebhooks, Kind::ValidatingWebhooks] {
        cluster.edit(kind, CONFIGURATION, |live| {
            let note = Note::parse(NOTE).unwrap();
            let opened = glass::open::configuration(live, &note);
            json_patch::merge(live, &opened.patch.unwrap());
        });
    }
    cluster
}

fn at(time: &str) -> Progress {
    Progress {
        now: time.parse().unwrap(),
        ..SETTLED
    }
}

#[test]
fn it_is_left_alone_until_then_and_put_back_as_it_was() {
    let mut cluster = opened();
    let wanted = wanted_at("u");
    let open = plan(&cluster.observed, &wanted, at("2026-01-01T00:14:59Z"));
    assert_eq!((open.actions.len(), open.hands_off.len()), (0, 2));
    let live = &cluster.observed.objects[&id(Kind::ValidatingWebhooks, CONFIGURATION)];
    assert_eq!(entries::armed(&wanted[6], Some(live)), (0, 1));
    assert_eq!(
        cluster.settle(&wanted, at("2026-01-01T00:15:00Z")),
        [
            "mend MutatingWebhookConfiguration admission.meshgate.io",
            "mend ValidatingWebhookConfiguration admission.meshgate.io",
        ]
    );
    let before = armed();
    for (id, object) in &before.observed.objects {
        let mut now = cluster.observed.objects[id].clone();
        let mut object = object.clone();
        for one in [&mut now, &mut object] {
            one["metadata"]["resourceVersion"] = json!("");
        }
        assert_eq!(now, object);
    }
}

#[test]
fn what_a_person_wrote_without_an_end_stays() {
    let mut cluster = armed();
    cluster.edit(Kind::MutatingWebhooks, CONFIGURATION, |live| {
        live["metadata"]["annotations"][BREAK_GLASS] = json!("jane: until=never");
    });
    let plan = plan(
        &cluster.observed,
        &wanted_at("u"),
        at("2036-01-01T00:00:00Z"),
    );
    assert_eq!((plan.actions.len(), plan.hands_off.len()), (0, 1));
}
