mod another;
mod fleet;
mod going;
mod suspended;
mod switching;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::{Value, json};

use super::*;
use crate::controllers::registration::proof::{Proofs, Subject};
use meshgate_core::render::{BREAK_GLASS, Client, GUARD, MIRROR_PROOF, REACH_ENTRY, Settings};

/// An object as it is wanted, with what identifies it.
fn object(kind: Kind, name: &str) -> Value {
    json!({"apiVersion": "x/v1", "kind": kind.as_str(), "metadata": {"name": name}})
}

fn entry(name: &str, url: &str) -> Value {
    json!({"name": name, "clientConfig": {"url": url}, "failurePolicy": "Fail"})
}

fn id(kind: Kind, name: &str) -> Id {
    Id::new(kind, name)
}

/// What is rendered for one injector, to be called at `url`.
fn wanted_at(url: &str) -> Vec<Value> {
    let mut gate = object(Kind::MutatingWebhooks, CONFIGURATION);
    gate["webhooks"] = json!([entry("a.gate.meshgate.io", url), entry(REACH_ENTRY, url)]);
    let mut check = object(Kind::ValidatingWebhooks, CONFIGURATION);
    check["webhooks"] = json!([entry("a.check.meshgate.io", url)]);
    vec![
        object(Kind::ClusterRole, OWNER),
        object(Kind::MutatingPolicy, MIRROR),
        object(Kind::MutatingPolicyBinding, MIRROR),
        object(Kind::MutatingPolicy, MIRROR_PROOF),
        object(Kind::MutatingPolicyBinding, MIRROR_PROOF),
        object(Kind::ValidatingPolicy, GUARD),
        object(Kind::ValidatingPolicyBinding, GUARD),
        gate,
        check,
    ]
}

/// What was rendered, as plans see it.
fn parsed(rendered: &[Value]) -> Vec<Object> {
    entries::wanted(rendered.to_vec())
}

/// How many entries of this object are armed in `live`, of how many.
fn armed_of(wanted: &Value, live: Option<&Value>) -> (usize, usize) {
    let live = live.map(|live| Object::parse(live.clone()).unwrap());
    entries::armed(&parsed(std::slice::from_ref(wanted))[0], live.as_ref())
}

fn entries_of(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    let entries = object.get_mut("webhooks").and_then(Value::as_array_mut);
    entries.into_iter().flatten()
}

/// A cluster that does what it is told.
#[derive(Default)]
struct Cluster {
    objects: BTreeMap<Id, Value>,
    namespace: InstallNamespace,
    namespace_uid: Option<String>,
    covered: BTreeSet<String>,
    refused: BTreeSet<Id>,
    version: u64,
}

impl Cluster {
    fn of(namespace: InstallNamespace) -> Self {
        Self {
            namespace,
            ..Self::default()
        }
    }

    fn observed(&self) -> Observed {
        let objects = self.objects.iter();
        let objects = objects.map(|(id, live)| (id.clone(), Object::parse(live.clone()).unwrap()));
        Observed {
            objects: objects.collect(),
            namespace: self.namespace,
            namespace_uid: self.namespace_uid.clone(),
            covered: self.covered.clone(),
            refused: self.refused.clone(),
            fleet: None,
        }
    }

    fn plan(&self, wanted: &[Value], progress: Progress) -> Plan {
        plan(&self.observed(), &parsed(wanted), progress)
    }

    /// What proves the policies as they are now.
    fn proof(&self, wanted: &[Value]) -> Option<String> {
        proof::policies(&self.observed(), &parsed(wanted))
    }

    /// Whether a dry run may prove them.
    fn is_provable(&self, wanted: &[Value]) -> bool {
        let settings = Settings::new(Client::Url("https://a".to_owned()), "meshgate-system");
        let mut proofs = Proofs::default();
        proofs.turn_to(&self.observed(), &parsed(wanted), &settings);
        proofs.of(Subject::Check).is_due(Instant::now())
    }

    fn act(&mut self, actions: &[Action]) {
        for action in actions {
            self.version += 1;
            match action {
                Action::CreateNamespace => self.namespace = InstallNamespace::Active,
                Action::Apply(object) => {
                    let id = &object.id;
                    let mut object = object.to_value();
                    object["metadata"]["uid"] = json!(format!("uid of {id}"));
                    object["metadata"]["generation"] = json!(self.generation(id, &object));
                    object["metadata"]["resourceVersion"] = json!(self.version.to_string());
                    self.objects.insert(id.clone(), object);
                }
                Action::Widen { id, patch } | Action::Resume { id, patch } => {
                    self.edit(id.kind, &id.name, |live| {
                        json_patch::merge(live, patch);
                    })
                }
                Action::Delete(id) => drop(self.objects.remove(id)),
            }
        }
    }

    /// Takes up in `observed` what an action has changed.
    fn note(&self, observed: &mut Observed, action: &Action) {
        let (Action::Apply(Object { id, .. })
        | Action::Widen { id, .. }
        | Action::Resume { id, .. }
        | Action::Delete(id)) = action
        else {
            observed.namespace = self.namespace;
            return;
        };
        observed.objects.remove(id);
        let live = self.objects.get(id);
        let live = live.map(|live| (id.clone(), Object::parse(live.clone()).unwrap()));
        observed.objects.extend(live);
    }

    /// That of a changed spec is another one.
    fn generation(&self, id: &Id, object: &Value) -> u64 {
        let live = self.objects.get(id);
        let before = live.map_or(0, |live| live["metadata"]["generation"].as_u64().unwrap());
        let is_same = live.is_some_and(|live| live["spec"] == object["spec"]);
        before + u64::from(!is_same)
    }

    /// Plans and acts until nothing is left to do; says what was written, in order.
    fn settle(&mut self, wanted: &[Value], progress: Progress) -> Vec<String> {
        let mut log = Vec::new();
        for _ in 0..10 {
            let plan = self.plan(wanted, progress);
            if plan.actions.is_empty() {
                return log;
            }
            log.extend(plan.actions.iter().map(told));
            self.act(&plan.actions);
        }
        panic!("never settles: {log:?}");
    }

    fn policy(&self, kind: Kind, number: usize) -> &Value {
        &self.objects[&id(kind, CONFIGURATION)]["webhooks"][number]["failurePolicy"]
    }

    fn edit(&mut self, kind: Kind, name: &str, edit: impl FnOnce(&mut Value)) {
        edit(self.objects.get_mut(&id(kind, name)).unwrap());
    }
}

fn told(action: &Action) -> String {
    match action {
        Action::CreateNamespace => "namespace".to_owned(),
        Action::Apply(object) => {
            let entry = object.entries().first();
            let policy = entry.and_then(|entry| entry.failure_policy.clone());
            let text = format!("{} {}", object.id, policy.unwrap_or_default());
            text.trim().to_owned()
        }
        Action::Widen { id, .. } => format!("widen {id}"),
        Action::Resume { id, .. } => format!("resume {id}"),
        Action::Delete(id) => format!("delete {id}"),
    }
}

/// The same, with this `caBundle`.
fn verified_by(bundle: &str, mut wanted: Vec<Value>) -> Vec<Value> {
    for entry in wanted.iter_mut().flat_map(entries_of) {
        entry["clientConfig"]["caBundle"] = json!(bundle);
    }
    wanted
}

/// As wanted, but that entries and mirror select by a label.
fn selecting(label: &str) -> Vec<Value> {
    let mut wanted = wanted_at("u");
    for object in &mut wanted {
        let terms = json!([{"key": label, "operator": "Exists"}]);
        if object["metadata"]["name"] == MIRROR {
            object["spec"] = json!({"label": label});
        }
        if let Some(entries) = object["webhooks"].as_array_mut() {
            entries[0]["namespaceSelector"] = json!({"matchExpressions": terms});
        }
    }
    wanted
}

const START: Progress = Progress {
    labelled: false,
    reached: false,
    settled: false,
    replicas: Replicas::Equal,
    in_force: false,
    mirror_in_force: true,
    now: Timestamp::UNIX_EPOCH,
};
const LABELLED: Progress = Progress {
    labelled: true,
    ..START
};
const REACHED: Progress = Progress {
    reached: true,
    ..LABELLED
};
const SETTLED: Progress = Progress {
    settled: true,
    ..REACHED
};
const IN_FORCE: Progress = Progress {
    in_force: true,
    ..LABELLED
};

fn armed() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.settle(&wanted_at("u"), REACHED);
    assert_eq!(cluster.policy(Kind::MutatingWebhooks, 0), "Fail");
    cluster
}

#[test]
fn the_order_at_the_start() {
    let mut cluster = Cluster::of(InstallNamespace::Wanted);
    let wanted = wanted_at("u");
    assert_eq!(
        cluster.settle(&wanted, START),
        [
            "namespace",
            "ClusterRole meshgate",
            "MutatingAdmissionPolicy namespaces.meshgate.io",
            "MutatingAdmissionPolicyBinding namespaces.meshgate.io",
            "MutatingAdmissionPolicy in-force.namespaces.meshgate.io",
            "MutatingAdmissionPolicyBinding in-force.namespaces.meshgate.io",
        ]
    );
    assert_eq!(
        cluster.settle(&wanted, LABELLED),
        [
            "MutatingWebhookConfiguration admission.meshgate.io Ignore",
            "ValidatingWebhookConfiguration admission.meshgate.io Ignore",
            "ValidatingAdmissionPolicy guard.meshgate.io",
            "ValidatingAdmissionPolicyBinding guard.meshgate.io",
        ]
    );
    assert_eq!(
        cluster.policy(Kind::MutatingWebhooks, 1),
        "Fail",
        "the reach entry"
    );
    assert_eq!(
        cluster.settle(&wanted, REACHED),
        [
            "MutatingWebhookConfiguration admission.meshgate.io Fail",
            "ValidatingWebhookConfiguration admission.meshgate.io Fail",
        ]
    );
    assert_eq!(cluster.settle(&wanted, SETTLED), [""; 0]);
}

#[test]
fn nothing_but_the_owner_is_written_before_its_uid_is_known() {
    let mut cluster = Cluster {
        namespace: InstallNamespace::Active,
        ..Cluster::default()
    };
    let mut owner = object(Kind::ClusterRole, OWNER);
    owner["metadata"]["uid"] = json!("1");
    owner["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.objects.insert(id(Kind::ClusterRole, OWNER), owner);
    assert_eq!(cluster.observed().owner_uid(), None);
    assert_eq!(cluster.plan(&wanted_at("u"), SETTLED).actions, []);
}

#[test]
fn a_restart_keeps_what_is_armed() {
    let mut cluster = armed();
    assert_eq!(cluster.settle(&wanted_at("u"), LABELLED), [""; 0]);
}

#[test]
fn a_new_client_configuration_is_proved_before_the_armed_entries_have_it() {
    let mut cluster = armed();
    let url = |cluster: &Cluster, number: usize| {
        let object = &cluster.objects[&id(Kind::MutatingWebhooks, CONFIGURATION)];
        let entry = &object["webhooks"][number];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (
            text(&entry["clientConfig"]["url"]),
            text(&entry["failurePolicy"]),
        )
    };
    let is = |url: &str| (url.to_owned(), "Fail".to_owned());
    cluster.settle(&wanted_at("v"), LABELLED);
    assert_eq!(url(&cluster, 0), is("u"));
    assert_eq!(url(&cluster, 1), is("v"));
    cluster.settle(&wanted_at("v"), REACHED);
    assert_eq!(url(&cluster, 0), is("v"));
    assert_eq!(url(&cluster, 1), is("v"));
}

#[test]
fn what_is_changed_or_deleted_is_put_back_armed() {
    for object in wanted_at("u") {
        let one = Id::of(&object).unwrap();
        let mut cluster = armed();
        cluster.objects.remove(&one);
        let log = cluster.settle(&wanted_at("u"), REACHED);
        assert_eq!(log.len(), 1, "{log:?}");
        if one.kind.is_webhooks() {
            assert!(log[0].ends_with("Fail"), "{log:?}");
        }
    }
    let mut cluster = armed();
    cluster.edit(Kind::MutatingWebhooks, CONFIGURATION, |live| {
        live["webhooks"][0]["failurePolicy"] = json!("Ignore");
        live["webhooks"]
            .as_array_mut()
            .unwrap()
            .push(entry("other.example.test", "o"));
    });
    let plan = cluster.plan(&wanted_at("u"), REACHED);
    let [Action::Apply(object)] = plan.actions.as_slice() else {
        panic!("{plan:?}");
    };
    let object = &object.to_value();
    assert_eq!(object["webhooks"][0]["failurePolicy"], "Fail");
    assert_eq!(
        object["webhooks"].as_array().unwrap().len(),
        2,
        "not what is others'"
    );
    let seen = &cluster.objects[&id(Kind::MutatingWebhooks, CONFIGURATION)];
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(version(object), version(seen), "only as it was seen");
}
