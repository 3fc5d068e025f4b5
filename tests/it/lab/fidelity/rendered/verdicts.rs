//! Rendered policies in the API server, and what the check says of the same pods.

use std::collections::BTreeSet;

use meshgate_core::decision::verdict::Verdict;
use meshgate_core::decision::{check, requirement};
use meshgate_core::injector::Injectors;
use meshgate_core::readiness::{Looked, Readiness};
use meshgate_core::render::{POLICIES, Settings, policy};
use meshgate_core::view::pod::PodView;
use serde_json::{Value, json};

use crate::lab::fidelity::injectors;
use crate::lab::fidelity::pairs::{Namespace, Pod};
use crate::lab::fidelity::pool::{Answer, delete, settled};
use crate::lab::harness::{Lab, PATIENCE, within};

/// One injector as the whole of a configuration, and the name of its policy.
pub(super) struct Alone {
    policy: String,
    pub(super) injectors: Injectors,
}

impl Alone {
    /// `entry` is one of `injectors:`.
    pub(super) fn new(entry: &str) -> Self {
        let injectors = injectors(entry);
        let name = &injectors.get(0).unwrap().profile.name;
        Self {
            policy: format!("{name}{POLICIES}"),
            injectors,
        }
    }

    /// What the check says; nothing if the injector is not required.
    fn verdict(&self, namespace: &Namespace, pod: &Pod, json: &str) -> Option<Verdict> {
        let view = PodView::read(json, self.injectors.keys()).ok()?;
        if pod.is_exempt(&view, namespace, &self.injectors) {
            return None;
        }
        let place = namespace.view(&self.injectors);
        let requirement = requirement::of(&view, &place, &self.injectors);
        let ready = |_: &_| Readiness::Usable(Looked::Assumed);
        let verdict = check::decide(&view, &requirement, ready).verdict;
        (!requirement.matches.is_empty()).then_some(verdict)
    }
}

/// Policies whose check passes the pod that is to hold their sidecar, and those whose check
/// refuses it.
pub(super) fn passing_and_refusing<'a>(
    all: &'a [Alone],
    (namespace, pod, json): (&Namespace, &Pod, &str),
) -> [BTreeSet<&'a str>; 2] {
    [true, false].map(|allows| {
        let is_so = |one: &&Alone| {
            let verdict = one.verdict(namespace, pod, json);
            verdict.is_some_and(|verdict| verdict.allows() == allows)
        };
        all.iter()
            .filter(is_so)
            .map(|one| one.policy.as_str())
            .collect()
    })
}

/// Policies whose bindings warned.
pub(super) fn warning(answer: &Answer) -> BTreeSet<&str> {
    let named = answer.warnings.iter().filter_map(|text| policy_in(text));
    named.collect()
}

/// The policy that refused, and its sentence.
pub(super) fn denying(answer: &Answer) -> Option<(&str, &str)> {
    let (_, sentence) = answer.message().split_once(" denied request: ")?;
    Some((policy_in(answer.message())?, sentence))
}

fn policy_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("ValidatingAdmissionPolicy '")?;
    rest.split_once('\'').map(|(name, _)| name)
}

fn plural(object: &Value) -> &'static str {
    match object["kind"].as_str().unwrap() {
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding" => "validatingadmissionpolicybindings",
        "MutatingAdmissionPolicy" => "mutatingadmissionpolicies",
        "MutatingAdmissionPolicyBinding" => "mutatingadmissionpolicybindings",
        other => panic!("{other}"),
    }
}

fn path(object: &Value) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{}", plural(object))
}

/// Writes rendered objects as they are.
pub(super) async fn write(lab: &Lab, objects: &[Value]) {
    for object in objects {
        lab.create(&path(object), object).await.unwrap();
    }
}

/// Puts the policies of these injectors into force; returns what was written.
pub(super) async fn enforce(lab: &Lab, injectors: &Injectors, settings: &Settings) -> Vec<Value> {
    let objects = policy::objects(injectors, settings);
    write(lab, &objects).await;
    settled(lab).await;
    objects
}

/// Takes them away again.
pub(super) async fn lift(lab: &Lab, objects: &[Value]) {
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        delete(lab, &format!("{}/{name}", path(object))).await;
    }
}

/// Waits until the expressions of these policies were looked at, and nothing is wrong with their
/// types.
pub(super) async fn are_well_typed(lab: &Lab, objects: &[Value]) {
    let policies = objects
        .iter()
        .filter(|object| object["kind"] == "ValidatingAdmissionPolicy");
    for policy in policies {
        let name = policy["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}", path(policy));
        let looked_at = async || {
            let policy = lab.get(&path).await?;
            let status = &policy["status"];
            let is_current = status["observedGeneration"] == policy["metadata"]["generation"];
            is_current.then(|| status["typeChecking"].clone())
        };
        let found = within(PATIENCE, &format!("{name} is type-checked"), looked_at).await;
        assert_eq!(found, json!({}), "{name}");
    }
}

/// What a person would stumble over in a refusal.
pub(super) fn illegible(sentence: &str, (injector, namespace): (&str, &str)) -> Option<String> {
    let is_one_line = !sentence.contains(char::is_control);
    let checks = [
        (is_one_line, "more than one line"),
        (sentence.len() < 1_000, "too long"),
        (
            !sentence.contains("  ") && sentence.trim() == sentence,
            "spaces",
        ),
        (
            !sentence.contains(". ") && !sentence.ends_with('.'),
            "more than one sentence",
        ),
        (
            sentence.matches('(').count() == sentence.matches(')').count(),
            "brackets",
        ),
        (
            sentence.starts_with("Pod ") || sentence.starts_with("Namespace "),
            "its beginning",
        ),
        (sentence.contains(injector), "no injector"),
        (sentence.contains(&format!(" {namespace} ")), "no namespace"),
    ];
    let wrong = checks.iter().find(|(is_fine, _)| !is_fine);
    wrong.map(|(_, what)| format!("{what}: {sentence}"))
}
