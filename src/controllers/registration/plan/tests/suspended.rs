//! Enforcement that is suspended until a time.

use super::*;
use meshgate_core::break_glass::Note;

const NOTE: &str = "jane: x; until=2026-01-01T00:15:00Z";

fn opened() -> Cluster {
    let mut cluster = armed();
    for kind in [Kind::MutatingWebhooks, Kind::ValidatingWebhooks] {
        cluster.edit(kind, CONFIGURATION, |live| {
            let note = Note::parse(NOTE).unwrap();
            let opened = break_glass::suspend::configuration(live, &note);
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
    let open = cluster.plan(&wanted, at("2026-01-01T00:14:59Z"));
    assert_eq!((open.actions.len(), open.hands_off.len()), (0, 2));
    let live = &cluster.objects[&id(Kind::ValidatingWebhooks, CONFIGURATION)];
    assert_eq!(armed_of(&wanted[8], Some(live)), (0, 1));
    assert_eq!(
        cluster.settle(&wanted, at("2026-01-01T00:15:00Z")),
        [
            "resume MutatingWebhookConfiguration admission.meshgate.io",
            "resume ValidatingWebhookConfiguration admission.meshgate.io",
        ]
    );
    let before = armed();
    for (id, object) in &before.objects {
        let mut now = cluster.objects[id].clone();
        let mut object = object.clone();
        for one in [&mut now, &mut object] {
            one["metadata"]["resourceVersion"] = json!("");
        }
        assert_eq!(now, object);
    }
}

#[test]
fn what_has_no_end_within_a_day_suspends_nothing() {
    let wanted = wanted_at("u");
    for note in [
        "jane: until=never",
        "jane: x; until=9999-01-01T00:00:00Z",
        "jane: x; until=2026-01-02T00:05:01Z",
    ] {
        let mut cluster = opened();
        cluster.edit(Kind::MutatingWebhooks, CONFIGURATION, |live| {
            live["metadata"]["annotations"][BREAK_GLASS] = json!(note);
        });
        let plan = cluster.plan(&wanted, at("2026-01-01T00:00:00Z"));
        let [Action::Resume { id, patch }] = &plan.actions[..] else {
            panic!("{note}: {plan:?}");
        };
        assert_eq!(id.kind, Kind::MutatingWebhooks);
        assert_eq!(patch["metadata"]["annotations"][BREAK_GLASS], Value::Null);
        let conditions = &patch["webhooks"][0]["matchConditions"];
        assert_eq!(*conditions, Value::Null, "{note}: {patch}");
    }
}

/// A client may take the annotation off and leave the condition that it explains.
#[test]
fn an_entry_that_is_suspended_without_a_note_is_put_back() {
    let mut cluster = opened();
    cluster.edit(Kind::ValidatingWebhooks, CONFIGURATION, |live| {
        live["metadata"]["annotations"] = json!({});
    });
    let plan = cluster.plan(&wanted_at("u"), at("2026-01-01T00:14:00Z"));
    let [Action::Resume { id, .. }] = &plan.actions[..] else {
        panic!("{plan:?}");
    };
    assert_eq!(id.kind, Kind::ValidatingWebhooks);
}

#[test]
fn a_new_ca_is_registered_while_enforcement_is_suspended_and_nothing_else() {
    let mut cluster = Cluster::of(InstallNamespace::Active);
    cluster.settle(&verified_by("old", wanted_at("u")), SETTLED);
    cluster.edit(Kind::MutatingWebhooks, CONFIGURATION, |live| {
        live["metadata"]["annotations"][BREAK_GLASS] =
            json!("jane: it is off; until=1970-01-01T01:00:00Z");
        live["webhooks"][0]["failurePolicy"] = json!("Ignore");
    });
    cluster.covered = ["old".to_owned()].into();
    let wanted = verified_by("new", wanted_at("u"));
    let log = cluster.settle(&wanted, SETTLED);
    assert_eq!(
        log[0],
        "widen MutatingWebhookConfiguration admission.meshgate.io"
    );
    let live = &cluster.objects[&id(Kind::MutatingWebhooks, CONFIGURATION)];
    assert_eq!(live["webhooks"][0]["failurePolicy"], "Ignore");
    assert!(!live.to_string().contains("old"), "{live}");
}

#[test]
fn suspended_enforcement_is_left_alone() {
    let mut cluster = armed();
    cluster.edit(Kind::MutatingWebhooks, CONFIGURATION, |live| {
        live["metadata"]["annotations"][BREAK_GLASS] =
            json!("jane: the mesh is being replaced; until=1970-01-01T01:00:00Z");
        live["webhooks"] = json!([]);
    });
    let broken = cluster.plan(&wanted_at("u"), SETTLED);
    assert_eq!(broken.actions, []);
    assert_eq!(
        broken.hands_off,
        [id(Kind::MutatingWebhooks, CONFIGURATION)]
    );
    cluster.edit(Kind::MutatingWebhooks, CONFIGURATION, |live| {
        live["metadata"]["annotations"][BREAK_GLASS] = json!("jane");
    });
    let mended = cluster.plan(&wanted_at("u"), SETTLED);
    assert_eq!((mended.actions.len(), mended.hands_off.len()), (1, 0));
}

/// Such as that of a binding for which an older chart grants no right.
#[test]
fn a_resumption_that_is_refused_does_not_hold_up_the_rest() {
    let mut cluster = opened();
    let (wanted, over) = (wanted_at("u"), at("2026-01-01T00:15:00Z"));
    cluster
        .objects
        .remove(&id(Kind::ValidatingPolicyBinding, GUARD));
    cluster.refused = [id(Kind::MutatingWebhooks, CONFIGURATION)].into();
    let order = |cluster: &Cluster| -> Vec<String> {
        let plan = cluster.plan(&wanted, over);
        plan.actions.iter().map(told).collect()
    };
    let gate = "resume MutatingWebhookConfiguration admission.meshgate.io";
    let check = "resume ValidatingWebhookConfiguration admission.meshgate.io";
    assert_eq!(order(&cluster), [gate, check]);
    let plan = cluster.plan(&wanted, over);
    cluster.act(&plan.actions[1..]);
    let guard = format!("ValidatingAdmissionPolicyBinding {GUARD}");
    assert_eq!(order(&cluster), [gate, guard.as_str()]);
}
