//! What the state of the serving replicas holds back, and what it does not.

use super::*;

#[test]
fn nothing_is_written_before_a_replica_can_be_called() {
    let alone = Progress {
        replicas: Replicas::NoneReady,
        ..SETTLED
    };
    let mut cluster = Cluster::default();
    for namespace in [InstallNamespace::Active, InstallNamespace::Wanted] {
        cluster.namespace = namespace;
        let nothing = cluster.plan(&wanted_at("u"), alone);
        assert!(
            nothing.hold == Hold::AwaitReplicas && nothing.actions.is_empty(),
            "{nothing:?}"
        );
    }
    // Also where the owner is there, which comes with the installation.
    let owner = object(Kind::ClusterRole, OWNER);
    cluster.objects.insert(id(Kind::ClusterRole, OWNER), owner);
    assert_eq!(cluster.settle(&wanted_at("u"), alone), [""; 0]);
    // What was begun is kept, although replicas are down meanwhile (case 73).
    let mut cluster = armed();
    cluster
        .objects
        .remove(&id(Kind::ValidatingWebhooks, CONFIGURATION));
    assert_eq!(cluster.settle(&wanted_at("u"), alone).len(), 1);
    assert_eq!(cluster.policy(Kind::ValidatingWebhooks, 0), "Fail");
}

const UNEQUAL: Progress = Progress {
    replicas: Replicas::Unequal,
    ..SETTLED
};

#[test]
fn another_configuration_waits_until_all_replicas_have_it() {
    let mut cluster = Cluster::of(InstallNamespace::Active);
    cluster.settle(&selecting("before"), REACHED);
    let before = cluster.objects.clone();
    let after = selecting("after");
    assert_eq!(cluster.settle(&after, UNEQUAL), [""; 0]);
    let waiting = cluster.plan(&after, UNEQUAL);
    assert_eq!(waiting.hold, Hold::AwaitRollout);
    assert_eq!(cluster.objects, before);
    let log = cluster.settle(&after, REACHED);
    assert!(!log.is_empty() && cluster.plan(&after, UNEQUAL).actions.is_empty());
}

#[test]
fn what_is_armed_is_put_back_armed_while_replicas_differ() {
    for object in wanted_at("u") {
        let one = Id::of(&object).unwrap();
        let mut cluster = armed();
        cluster.objects.remove(&one);
        let log = cluster.settle(&wanted_at("u"), UNEQUAL);
        assert_eq!(log.len(), 1, "{log:?}");
        assert!(
            !one.kind.is_webhooks() || log[0].ends_with("Fail"),
            "{log:?}"
        );
    }
    // What an installation of another configuration has left besides is not ours to remove yet.
    let mut cluster = armed();
    let stray = id(Kind::MutatingPolicy, "other.meshgate.io");
    let object = object(Kind::MutatingPolicy, "other.meshgate.io");
    cluster.objects.insert(stray, object);
    assert_eq!(cluster.settle(&wanted_at("u"), UNEQUAL), [""; 0]);
    assert_eq!(cluster.settle(&wanted_at("u"), SETTLED).len(), 1);
}

#[test]
fn a_first_registration_is_written_open_and_armed_once_all_replicas_have_the_configuration() {
    let mut cluster = Cluster::of(InstallNamespace::Active);
    cluster.settle(&wanted_at("u"), UNEQUAL);
    assert_eq!(cluster.policy(Kind::MutatingWebhooks, 0), "Ignore");
    assert_eq!(cluster.policy(Kind::ValidatingWebhooks, 0), "Ignore");
    cluster.settle(&wanted_at("u"), SETTLED);
    assert_eq!(cluster.policy(Kind::MutatingWebhooks, 0), "Fail");
    assert_eq!(cluster.policy(Kind::ValidatingWebhooks, 0), "Fail");
}

/// Both Secrets are lost while another configuration is rolled out: a certificate is issued once all
/// that is armed trusts the new CA, and no replica is ready before.
#[test]
fn a_wider_bundle_waits_for_no_replica() {
    let mut cluster = Cluster::of(InstallNamespace::Active);
    cluster.settle(&verified_by("old", selecting("before")), REACHED);
    cluster.covered = ["old".to_owned()].into();
    let alone = Progress {
        replicas: Replicas::NoneReady,
        ..LABELLED
    };
    let log = cluster.settle(&verified_by("new", selecting("after")), alone);
    assert_eq!(log.len(), 2, "{log:?}");
    for kind in [Kind::MutatingWebhooks, Kind::ValidatingWebhooks] {
        let live = cluster.objects[&id(kind, CONFIGURATION)].to_string();
        assert!(!live.contains("old") && live.contains("before"), "{live}");
        assert_eq!(cluster.policy(kind, 0), "Fail");
    }
}
