//! Clauses that a refusal of the check (`refusal`) and its twin in a policy (`policy`) have in common: one
//! change here meets both.
//!
//! Where a clause holds a value of the pod, it is the text before and behind that value.

use crate::injector::profile::{InjectedSet, Profile};
use crate::injector::rule::{Key, Outcome, Rule, Term};

/// No set of the profile counts for the pod.
pub(super) const NO_SET: &str = "its configuration names no container for such a pod";
/// Around the names of init containers.
pub(super) const INIT_MISSING: [&str; 2] = ["init container ", " is missing from the pod"];
/// Behind the name of a container.
pub(super) const NOT_RESTARTABLE: &str = " is an init container without restartPolicy Always, which ends before the pod starts: another \
     webhook may have removed that field";

/// The terms that a refusal gives as its reason, one for each key; and whether it says where each key is,
/// since both the pod and its namespace have a say. A key that must be absent is no reason that a person
/// could look up.
pub(super) fn reasons(rule: &Rule) -> (Vec<&Term>, bool) {
    let mut terms: Vec<&Term> = Vec::new();
    // Of an opt-out the pod's own: what the namespace says is no reason for it.
    let counts = |term: &Term| rule.then != Outcome::OptOut || term.key.place.is_on_pod();
    let there = rule.when.iter().filter(|term| term.test.is_positive());
    for term in there.filter(|term| counts(term)) {
        if !terms.iter().any(|other| other.key == term.key) {
            terms.push(term);
        }
    }
    let mut on_pod = terms.iter().map(|term| term.key.place.is_on_pod());
    let first = on_pod.next();
    let is_mixed = on_pod.any(|one| Some(one) != first);
    (terms, is_mixed)
}

/// Before the value of a key.
pub(super) fn key(key: &Key) -> String {
    format!("{} {}=", key.place.noun(), key.name)
}

/// Behind the value of a key, where both the pod and its namespace have a say.
pub(super) fn whose(key: &Key) -> &'static str {
    if key.place.is_on_pod() {
        " on the pod"
    } else {
        " on the namespace"
    }
}

/// In place of terms, for a rule without any.
pub(super) fn by_default(rule: &Rule) -> String {
    match &rule.option {
        Some(option) => format!("by default: option {option}"),
        None => format!("by default: rule {}", rule.number),
    }
}

/// Of a value that the injector does not know: behind that value.
pub(super) fn unknown(profile: &Profile, key: &Key) -> String {
    let accepted = profile.accepted_values(key).join(", ");
    format!(
        ", which {} does not know, so that it would never inject this pod; accepted values are {accepted}",
        profile.name
    )
}

/// The same, where no term names the value.
pub(super) fn unknown_value(name: &str) -> String {
    format!(" has a value that {name} does not know")
}

/// Around the reason why a rule spares the pod, where the profile lets no pod spare itself.
pub(super) fn opts_out(name: &str) -> [String; 2] {
    let behind = "), and opting out is not allowed here: create it without that";
    [format!(" opts out of {name} ("), behind.to_owned()]
}

/// Around the name of a container and its image, where the image is not one of the injector's.
pub(super) const IMAGE: [&str; 2] = ["the image of container ", " is "];
/// The same of an update.
pub(super) const IMAGE_REPLACED: [&str; 2] = [" changes the image of container ", " to "];

/// Behind the image: how it has to begin.
pub(super) fn images<T: AsRef<str>>(name: &str, images: &[T]) -> String {
    let images: Vec<&str> = images.iter().map(AsRef::as_ref).collect();
    let images = images.join(" or ");
    format!(", and the sidecar of {name} may only run images that begin with {images}")
}

/// The pod holds nothing of the set.
pub(super) fn missing(name: &str, set: &InjectedSet) -> String {
    let wanted = match &set.sidecar {
        Some(sidecar) => format!(
            "container {sidecar} (looked for in containers, and in initContainers with restartPolicy Always)"
        ),
        None => super::wanted(set),
    };
    format!("the pod has no {wanted}: {name}'s webhook did not add it")
}

/// Around the name of a container and its image.
pub(super) fn placeholder(name: &str) -> [String; 3] {
    [
        "the image of container ".to_owned(),
        " is still the placeholder ".to_owned(),
        format!(": {name}'s webhook did not fill it in"),
    ]
}

/// The pod holds a container that makes the injector pass it by.
pub(super) fn passed_by(name: &str, skip: &str) -> String {
    format!("; {name} passes by pods with container {skip}, so that one pod cannot have both")
}

/// What an administrator may look at.
pub(super) fn hint(hint: &str) -> String {
    format!("; {hint}")
}

/// Where the injector tells what it did.
pub(super) fn see_logs(namespace: &str) -> String {
    format!("; see kubectl -n {namespace} get pods and the logs there")
}
