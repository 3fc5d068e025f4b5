//! From webhooks to policies and back: at no time does nothing refuse.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use meshgate_core::render::CHECK_PROOF;

/// What is rendered where policies enforce, for injectors of these names.
fn policies_for(injectors: &[&str]) -> Vec<Value> {
    let mut wanted = wanted_at("u");
    wanted.retain(|object| object["kind"] != Kind::ValidatingWebhooks.as_str());
    let gate = wanted.last_mut().unwrap();
    gate["webhooks"][0]["failurePolicy"] = json!("Ignore");
    let mut checks = Vec::new();
    for name in injectors
        .iter()
        .map(|name| format!("{name}.check.meshgate.io"))
    {
        let mut policy = object(Kind::ValidatingPolicy, &name);
        policy["spec"] = json!({"validations": [{"expression": name}]});
        let mut binding = object(Kind::ValidatingPolicyBinding, &name);
        binding["spec"] = json!({"validationActions": ["Deny"]});
        checks.extend([policy, binding]);
    }
    checks.push(object(Kind::ValidatingPolicy, CHECK_PROOF));
    checks.push(object(Kind::ValidatingPolicyBinding, CHECK_PROOF));
    wanted.splice(5..5, checks);
    wanted
}

fn by_policy() -> Cluster {
    let mut cluster = Cluster::of(InstallNamespace::Active);
    let progress = Progress {
        in_force: true,
        ..SETTLED
    };
    cluster.settle(&policies_for(&["a"]), progress);
    assert_eq!(cluster.policy(Kind::MutatingWebhooks, 0), "Ignore");
    cluster
}

#[test]
fn policies_are_written_first_of_all_and_wait_for_no_replica() {
    let mut cluster = Cluster::of(InstallNamespace::Active);
    let log = cluster.settle(&policies_for(&["a"]), START);
    assert_eq!(
        log,
        [
            "ClusterRole meshgate",
            "MutatingAdmissionPolicy namespaces.meshgate.io",
            "MutatingAdmissionPolicyBinding namespaces.meshgate.io",
            "MutatingAdmissionPolicy in-force.namespaces.meshgate.io",
            "MutatingAdmissionPolicyBinding in-force.namespaces.meshgate.io",
            "ValidatingAdmissionPolicy a.check.meshgate.io",
            "ValidatingAdmissionPolicyBinding a.check.meshgate.io",
            "ValidatingAdmissionPolicyBinding in-force.meshgate.io",
            "ValidatingAdmissionPolicy in-force.meshgate.io",
        ]
    );
}

#[test]
fn webhooks_refuse_until_policies_do() {
    let mut cluster = armed();
    let wanted = policies_for(&["a"]);
    let before = cluster.objects.clone();
    assert_eq!(
        cluster.settle(&wanted, SETTLED),
        [
            "ValidatingAdmissionPolicy a.check.meshgate.io",
            "ValidatingAdmissionPolicyBinding a.check.meshgate.io",
            "ValidatingAdmissionPolicyBinding in-force.meshgate.io",
            "ValidatingAdmissionPolicy in-force.meshgate.io",
        ]
    );
    for (id, object) in before {
        assert_eq!(cluster.objects[&id], object, "nothing else is touched");
    }
    assert_eq!(
        cluster.settle(&wanted, IN_FORCE),
        ["MutatingWebhookConfiguration admission.meshgate.io Ignore"]
    );
    assert_eq!(cluster.policy(Kind::ValidatingWebhooks, 0), "Fail");
    let settled = Progress {
        in_force: true,
        ..SETTLED
    };
    assert_eq!(
        cluster.settle(&wanted, settled),
        ["delete ValidatingWebhookConfiguration admission.meshgate.io"]
    );
}

/// Who changes to policies since no replica lives must get rid of the webhooks by it.
#[test]
fn a_check_that_no_replica_answers_goes_once_policies_refuse() {
    let mut cluster = armed();
    let wanted = policies_for(&["a"]);
    let alone = |in_force| Progress {
        in_force,
        replicas: Replicas::NoneReady,
        ..LABELLED
    };
    cluster.settle(&wanted, alone(false));
    assert_eq!(cluster.policy(Kind::ValidatingWebhooks, 0), "Fail");
    assert_eq!(
        cluster.settle(&wanted, alone(true)),
        [
            "MutatingWebhookConfiguration admission.meshgate.io Ignore",
            "delete ValidatingWebhookConfiguration admission.meshgate.io",
        ]
    );
}

#[test]
fn policies_refuse_until_webhooks_do() {
    let mut cluster = by_policy();
    let wanted = wanted_at("u");
    let log = cluster.settle(&wanted, LABELLED);
    assert_eq!(
        log,
        [
            "MutatingWebhookConfiguration admission.meshgate.io Ignore",
            "ValidatingWebhookConfiguration admission.meshgate.io Ignore",
        ]
    );
    let log = cluster.settle(&wanted, REACHED);
    assert_eq!(
        log,
        [
            "MutatingWebhookConfiguration admission.meshgate.io Fail",
            "ValidatingWebhookConfiguration admission.meshgate.io Fail",
        ]
    );
    let log = cluster.settle(&wanted, SETTLED);
    assert_eq!(
        log,
        [
            "delete ValidatingAdmissionPolicyBinding a.check.meshgate.io",
            "delete ValidatingAdmissionPolicyBinding in-force.meshgate.io",
            "delete ValidatingAdmissionPolicy a.check.meshgate.io",
            "delete ValidatingAdmissionPolicy in-force.meshgate.io",
        ]
    );
}

#[test]
fn the_policy_of_an_injector_that_is_gone_stays_until_the_others_are_in_force() {
    let mut cluster = by_policy();
    let wanted = policies_for(&["b"]);
    let proof = |cluster: &Cluster| {
        let id = id(Kind::ValidatingPolicy, CHECK_PROOF);
        cluster.objects[&id]["spec"].to_string()
    };
    let before = proof(&cluster);
    let log = cluster.settle(&wanted, SETTLED);
    assert!(
        log.iter().all(|line| !line.starts_with("delete")),
        "{log:?}"
    );
    assert_ne!(proof(&cluster), before);
    let settled = Progress {
        in_force: true,
        ..SETTLED
    };
    let log = cluster.settle(&wanted, settled);
    assert_eq!(
        log,
        [
            "delete ValidatingAdmissionPolicyBinding a.check.meshgate.io",
            "delete ValidatingAdmissionPolicy a.check.meshgate.io",
        ]
    );
}

#[test]
fn a_policy_that_was_changed_is_proved_anew() {
    let mut cluster = by_policy();
    let wanted = policies_for(&["a"]);
    let proof = cluster.proof(&wanted).unwrap();
    assert!(cluster.is_provable(&wanted));
    cluster.edit(Kind::ValidatingPolicy, "a.check.meshgate.io", |live| {
        live["spec"] = json!({});
    });
    assert_eq!(cluster.proof(&wanted), None);
    let log = cluster.settle(&wanted, LABELLED);
    assert_eq!(
        log,
        [
            "ValidatingAdmissionPolicy a.check.meshgate.io",
            "ValidatingAdmissionPolicy in-force.meshgate.io",
        ]
    );
    let again = cluster.proof(&wanted).unwrap();
    assert_ne!(again, proof);
    assert!(cluster.is_provable(&wanted));
}

/// A switch can be turned back at any time, with or without being reached.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "drawn one by one")]
struct Step {
    by_policy: bool,
    other: bool,
    labelled: bool,
    reached: bool,
    waits: bool,
}

fn step() -> impl Strategy<Value = Step> {
    any::<(bool, bool, bool, bool, bool)>().prop_map(
        |(by_policy, other, labelled, reached, waits)| Step {
            by_policy,
            other,
            labelled,
            reached,
            waits,
        },
    )
}

/// What an API server has taken up: it follows only when a test waits.
#[derive(Debug, Default)]
struct Cache {
    proof: Option<String>,
    policies: Vec<&'static str>,
}

/// By the policy of one injector, of another, and by webhooks.
static WANTED: LazyLock<[Vec<Object>; 3]> = LazyLock::new(|| {
    let [a, b] = ["a", "b"].map(|name| parsed(&policies_for(&[name])));
    [a, b, parsed(&wanted_at("u"))]
});

const CHECKS: [&str; 2] = ["a.check.meshgate.io", "b.check.meshgate.io"];

impl Cache {
    fn follow(&mut self, cluster: &Cluster, proof: Option<String>) {
        self.proof = proof;
        self.policies = policies_of(cluster);
    }
}

/// The policies that are there with their bindings.
fn policies_of(cluster: &Cluster) -> Vec<&'static str> {
    let has = |name: &&str| {
        let both = [Kind::ValidatingPolicy, Kind::ValidatingPolicyBinding];
        let objects = &cluster.objects;
        both.into_iter()
            .all(|kind| objects.contains_key(&id(kind, name)))
    };
    CHECKS.into_iter().filter(has).collect()
}

fn is_check_armed(cluster: &Cluster) -> bool {
    let id = id(Kind::ValidatingWebhooks, CONFIGURATION);
    let check = cluster.objects.get(&id);
    check.is_some_and(|check| check["webhooks"][0]["failurePolicy"] == "Fail")
}

proptest! {
    #[test]
    fn whatever_is_wanted_in_between_something_refuses(steps in prop::collection::vec(step(), 1..12)) {
        let mut cluster = by_policy();
        let mut cache = Cache::default();
        let [a, b, webhooks] = WANTED.each_ref();
        // Parsed once, and then what was written.
        let mut observed = cluster.observed();
        cache.follow(&cluster, proof::policies(&observed, a));
        for step in steps {
            let wanted = match (step.by_policy, step.other) {
                (true, false) => a,
                (true, true) => b,
                (false, _) => webhooks,
            };
            for _ in 0..6 {
                let proof = proof::policies(&observed, wanted);
                if step.waits {
                    cache.follow(&cluster, proof.clone());
                }
                let in_force = proof.is_some() && proof == cache.proof;
                let armed = is_check_armed(&cluster);
                let progress = Progress {
                    labelled: step.labelled,
                    reached: step.reached,
                    settled: step.waits && (step.by_policy || armed),
                    in_force,
                    mirror_in_force: step.waits,
                    replicas: Replicas::Equal,
                    now: Timestamp::UNIX_EPOCH,
                };
                for action in plan(&observed, wanted, progress).actions {
                    let actions = [action];
                    cluster.act(&actions);
                    cluster.note(&mut observed, &actions[0]);
                    let there = policies_of(&cluster);
                    let by_policy = cache.policies.iter().any(|own| there.contains(own));
                    prop_assert!(is_check_armed(&cluster) || by_policy, "{step:?}");
                }
            }
        }
    }
}
