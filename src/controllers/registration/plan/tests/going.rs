//! What goes: what is stale once all is in force, and all of it with meshgate's namespace.

use super::*;

#[test]
fn the_other_mirror_and_what_else_is_stale_goes_once_all_is_in_force() {
    let mut cluster = armed();
    let mut wanted = wanted_at("u");
    wanted.splice(1..5, [object(Kind::MutatingWebhooks, MIRROR)]);
    let stranger = object(Kind::ClusterRole, "meshgate-chart");
    cluster
        .objects
        .insert(id(Kind::ClusterRole, "meshgate-chart"), stranger);
    assert_eq!(
        cluster.settle(&wanted, REACHED),
        ["MutatingWebhookConfiguration namespaces.meshgate.io"]
    );
    assert_eq!(
        cluster.settle(&wanted, SETTLED),
        [
            "delete MutatingAdmissionPolicyBinding in-force.namespaces.meshgate.io",
            "delete MutatingAdmissionPolicyBinding namespaces.meshgate.io",
            "delete MutatingAdmissionPolicy in-force.namespaces.meshgate.io",
            "delete MutatingAdmissionPolicy namespaces.meshgate.io",
        ]
    );
    // Back again: the webhook labels namespaces until the policy is known to.
    let unproved = Progress {
        mirror_in_force: false,
        ..SETTLED
    };
    assert_eq!(cluster.settle(&wanted_at("u"), unproved).len(), 4);
    assert_eq!(
        cluster.settle(&wanted_at("u"), SETTLED),
        ["delete MutatingWebhookConfiguration namespaces.meshgate.io"]
    );
}

#[test]
fn our_namespace_owns_the_owner_but_not_what_argo_cd_has_brought() {
    let mut cluster = armed();
    assert_eq!(cluster.observed().owning_uid(), None);
    cluster.namespace_uid = Some("1".to_owned());
    assert_eq!(cluster.observed().owning_uid(), Some("1"));
    cluster.edit(Kind::ClusterRole, OWNER, |owner| {
        owner["metadata"]["annotations"] =
            json!({ "argocd.argoproj.io/tracking-id": "meshgate:rbac/ClusterRole:/meshgate" });
    });
    assert_eq!(cluster.observed().owning_uid(), None);
}

#[test]
fn when_our_namespace_goes_everything_goes_and_webhooks_first() {
    let mut cluster = armed();
    cluster.namespace = InstallNamespace::Terminating;
    let log = cluster.settle(&wanted_at("u"), SETTLED);
    assert_eq!(log.len(), 9);
    assert!(
        log[0].starts_with("delete MutatingWebhookConfiguration"),
        "{log:?}"
    );
    assert!(
        log[1].starts_with("delete ValidatingWebhookConfiguration"),
        "{log:?}"
    );
    assert_eq!(log[8], "delete ClusterRole meshgate");
    // And it does not come back by itself.
    cluster.namespace = InstallNamespace::Withdrawn;
    assert_eq!(cluster.settle(&wanted_at("u"), SETTLED), [""; 0]);
}
