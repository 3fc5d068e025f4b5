//! What is armed for another configuration, until this one can take its place.

use super::*;

/// Another address, or another CA: only the entry that proves it has it at first.
/// The names of entries say little about whom they ask: another configuration may give the same
/// name to other namespaces.
#[test]
fn another_configuration_takes_nothing_from_what_is_armed_before_it_is_armed_itself() {
    let selecting = |label: &str, more: Option<&str>| {
        let mut wanted = wanted_at("u");
        for object in &mut wanted {
            let Some(entries) = object["webhooks"].as_array_mut() else {
                continue;
            };
            let terms = json!([{"key": label, "operator": "Exists"}]);
            entries[0]["namespaceSelector"] = json!({"matchExpressions": terms});
            entries.extend(more.map(|name| entry(name, "u")));
        }
        wanted
    };
    let mut cluster = Cluster::of(InstallNamespace::Active);
    let before = selecting("before", None);
    cluster.settle(&before, LABELLED);
    cluster.settle(&before, REACHED);
    // Another client's term stays through all of it.
    let theirs = json!({"key": "theirs", "operator": "DoesNotExist"});
    cluster.edit(Kind::MutatingWebhooks, CONFIGURATION, |live| {
        let terms = &mut live["webhooks"][0]["namespaceSelector"]["matchExpressions"];
        terms.as_array_mut().unwrap().push(theirs.clone());
    });
    let after = selecting("after", Some("new.gate.meshgate.io"));
    let entry_now = |cluster: &Cluster, kind| {
        let live = &cluster.objects[&id(kind, CONFIGURATION)];
        let entry = &live["webhooks"].as_array().unwrap()[..];
        let entry = entry.iter().find(|entry| entry["name"] != REACH_ENTRY);
        entry.unwrap().to_string()
    };
    for kind in [Kind::MutatingWebhooks, Kind::ValidatingWebhooks] {
        cluster.settle(&after, LABELLED);
        let unproved = entry_now(&cluster, kind);
        assert!(
            unproved.contains("before") && unproved.contains("Fail"),
            "{unproved}"
        );
    }
    cluster.settle(&after, REACHED);
    for kind in [Kind::MutatingWebhooks, Kind::ValidatingWebhooks] {
        let proved = entry_now(&cluster, kind);
        assert!(
            proved.contains("after") && !proved.contains("before"),
            "{proved}"
        );
        let live = &cluster.objects[&id(kind, CONFIGURATION)];
        let entries = live["webhooks"].as_array().unwrap();
        assert!(
            entries.iter().all(|entry| entry["failurePolicy"] == "Fail"),
            "{live}"
        );
        assert!(
            entries
                .iter()
                .any(|entry| entry["name"] == "new.gate.meshgate.io")
        );
    }
    assert!(entry_now(&cluster, Kind::MutatingWebhooks).contains("theirs"));
}

/// Held back, it is only reached; but the owner must not be that of a namespace of before.
#[test]
fn the_owner_is_put_right_while_all_else_is_held_back() {
    let mut cluster = armed();
    let mut wanted = wanted_at("u");
    for object in wanted.iter_mut().skip(5) {
        for entry in entries_of(object) {
            entry["rules"] = json!(["other"]);
        }
    }
    wanted[0]["metadata"]["ownerReferences"] = json!([{"uid": "2"}]);
    let plan = cluster.plan(&wanted, LABELLED);
    assert_eq!(plan.hold, Hold::AwaitRollout);
    assert_eq!(
        plan.actions.iter().map(told).next().unwrap(),
        "ClusterRole meshgate"
    );
    cluster.act(&plan.actions);
    let live = cluster.observed();
    let owner = &live.objects[&id(Kind::ClusterRole, OWNER)];
    assert!(contains(owner, &parsed(&wanted)[0]));
}

/// The same order holds for a configuration that takes the place of an armed one: entries that
/// select by a label are worth nothing where the label is still missing.
#[test]
fn another_configuration_waits_for_the_labels_that_it_selects_by() {
    let selecting = |label: &str| {
        let mut wanted = wanted_at("u");
        for object in &mut wanted {
            let Some(entries) = object["webhooks"].as_array_mut() else {
                continue;
            };
            let terms = json!([{"key": label, "operator": "Exists"}]);
            entries[0]["namespaceSelector"] = json!({"matchExpressions": terms});
        }
        wanted
    };
    let mut cluster = Cluster::of(InstallNamespace::Active);
    cluster.settle(&selecting("before"), REACHED);
    let unlabelled = Progress {
        labelled: false,
        ..REACHED
    };
    cluster.settle(&selecting("after"), unlabelled);
    for kind in [Kind::MutatingWebhooks, Kind::ValidatingWebhooks] {
        let live = cluster.objects[&id(kind, CONFIGURATION)].to_string();
        assert!(live.contains("before"), "{live}");
    }
    cluster.settle(&selecting("after"), REACHED);
    for kind in [Kind::MutatingWebhooks, Kind::ValidatingWebhooks] {
        let live = cluster.objects[&id(kind, CONFIGURATION)].to_string();
        assert!(!live.contains("before"), "{live}");
    }
}

#[test]
fn before_it_is_reached_another_configuration_writes_nothing_but_what_that_takes() {
    let mut cluster = Cluster::of(InstallNamespace::Active);
    cluster.settle(&selecting("before"), REACHED);
    let after = selecting("after");
    assert_eq!(cluster.settle(&after, LABELLED), [""; 0]);
    let waiting = cluster.plan(&after, LABELLED);
    assert!(waiting.hold == Hold::AwaitRollout && !waiting.mirrored);
    let gate = id(Kind::MutatingWebhooks, CONFIGURATION);
    for object in &after {
        let live = Id::of(object).and_then(|id| cluster.objects.get(&id));
        let (armed, all) = armed_of(object, live);
        assert_eq!(armed, 0, "{all} ask for another");
    }
    // A client deletes the gate: the entry comes back, without which no replica would ever be reached.
    cluster.objects.remove(&gate);
    assert_eq!(cluster.settle(&after, LABELLED).len(), 1);
    let entries = &cluster.objects[&gate]["webhooks"];
    assert_eq!(entries.as_array().unwrap().len(), 1);
    assert_eq!(entries[0]["name"], REACH_ENTRY);
    // Reached: the mirror, then, with the labels, the rest, armed at once.
    let unlabelled = Progress {
        labelled: false,
        ..REACHED
    };
    let log = cluster.settle(&after, unlabelled);
    assert!(log[0].starts_with("MutatingAdmissionPolicy "), "{log:?}");
    assert!(cluster.plan(&after, unlabelled).mirrored);
    let check = id(Kind::ValidatingWebhooks, CONFIGURATION);
    let live = |cluster: &Cluster| cluster.objects[&check].to_string();
    assert!(live(&cluster).contains("before"));
    let log = cluster.settle(&after, REACHED);
    assert!(log.iter().all(|line| line.ends_with("Fail")), "{log:?}");
    assert!(!live(&cluster).contains("before"));
}

#[test]
fn a_mirror_that_is_a_webhook_takes_the_place_of_another_first_and_closed() {
    let with_webhook = |label: &str| {
        let mut wanted = selecting(label);
        let mut mirror = object(Kind::MutatingWebhooks, MIRROR);
        mirror["webhooks"] = json!([entry(MIRROR, "u")]);
        mirror["webhooks"][0]["rules"] = json!([label]);
        wanted.splice(1..3, [mirror]);
        wanted
    };
    let mut cluster = Cluster::of(InstallNamespace::Active);
    cluster.settle(&with_webhook("before"), LABELLED);
    cluster.settle(&with_webhook("before"), REACHED);
    let after = with_webhook("after");
    assert_eq!(cluster.settle(&after, LABELLED), [""; 0]);
    let check = id(Kind::ValidatingWebhooks, CONFIGURATION);
    cluster.objects.remove(&check);
    let unlabelled = Progress {
        labelled: false,
        ..REACHED
    };
    assert_eq!(
        cluster.settle(&after, unlabelled),
        ["MutatingWebhookConfiguration namespaces.meshgate.io Fail"]
    );
    assert!(cluster.plan(&after, unlabelled).mirrored);
    assert_eq!(cluster.settle(&after, REACHED).len(), 2);
}

/// It has to admit a new address before an entry has it.
#[test]
fn the_guard_is_written_before_the_entry_that_is_to_be_reached() {
    let mut cluster = armed();
    let mut wanted = wanted_at("v");
    for object in &mut wanted {
        if object["metadata"]["name"] == GUARD {
            object["metadata"]["annotations"] = json!({"address": "v"});
        }
        for entry in entries_of(object) {
            entry["rules"] = json!(["other"]);
        }
    }
    let plan = cluster.plan(&wanted, LABELLED);
    assert_eq!(plan.hold, Hold::AwaitRollout);
    let order: Vec<String> = plan.actions.iter().map(told).collect();
    let guard = [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    let guard = guard.map(|kind| format!("{kind} {GUARD}"));
    assert_eq!(order[..2], guard);
    assert!(
        order[2].starts_with("MutatingWebhookConfiguration "),
        "{order:?}"
    );
    cluster.act(&plan.actions);
    let gate = cluster.objects[&id(Kind::MutatingWebhooks, CONFIGURATION)].to_string();
    assert!(gate.contains("\"v\""), "{gate}");
}
