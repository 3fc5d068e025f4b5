//! The sentences: what a person reads in `kubectl describe replicaset` or after `kubectl run`.
//!
//! One sentence each, none of our jargon: which rule requires which injector, what was looked at,
//! how many are usable and why the others are not, what to do (design section 5). Values that
//! others chose are shortened and kept on one line.

use std::fmt::{self, Write};

use crate::injector::profile::{MeshedSet, Profile};
use crate::injector::rule::{Rule, Term};
use crate::injector::shown;

use super::installation::Client;
use super::meshed::{self, Flaw};
use super::pod::PodView;
use super::requirement::{Claim, Warning};
use super::{Looked, Verdict};

/// `pod shop- in namespace orders`.
fn subject(pod: &PodView<'_>, namespace: &str) -> String {
    match pod.display_name() {
        "" => format!("Pod in namespace {namespace}"),
        name => format!("Pod {} in namespace {namespace}", shown(name)),
    }
}

/// The terms that decided, with the values that are there: `annotation linkerd.io/inject=enabled`.
/// Where both the pod and its namespace have a say, each term tells whose it is.
pub fn rule_in_words(claim: &Claim<'_>) -> String {
    let positive = || {
        claim
            .rule
            .when
            .iter()
            .filter(|term| term.test.is_positive())
    };
    let on_pod = positive().any(|term| term.key.place.is_on_pod());
    let is_mixed = on_pod && !positive().all(|term| term.key.place.is_on_pod());
    let mut words: Vec<String> = Vec::new();
    for term in positive() {
        let value = shown(term.value(&claim.marks).unwrap_or_default());
        let mut word = format!("{} {}={value}", term.key.place.noun(), term.key.name);
        if is_mixed {
            word.push_str(if term.key.place.is_on_pod() {
                " on the pod"
            } else {
                " on the namespace"
            });
        }
        if !words.contains(&word) {
            words.push(word);
        }
    }
    match (words.is_empty(), &claim.rule.option) {
        (false, _) => words.join(" and "),
        (true, Some(option)) => format!("by default: option {option}"),
        (true, None) => format!("by default: rule {}", claim.rule.number),
    }
}

/// `Namespace orders requires linkerd (annotation linkerd.io/inject=enabled)`, or the pod does.
fn requires(pod: &PodView<'_>, namespace: &str, claim: &Claim<'_>) -> String {
    let by_pod = |term: &Term| term.key.place.is_on_pod() && term.test.is_positive();
    let who = if claim.rule.when.iter().any(by_pod) {
        subject(pod, namespace)
    } else {
        format!("Namespace {namespace}")
    };
    format!("{who} requires {} ({})", claim.name(), rule_in_words(claim))
}

/// What becomes of the pod afterwards: a controller tries again, a person must.
fn later(pod: &PodView<'_>, once: &str) -> String {
    match pod.owner() {
        Some(_) => format!("the pod is created {once}"),
        None => format!("try again {once}"),
    }
}

/// Said of pods that look like Windows pods and are not exempt for it (case 34).
fn windows_note(pod: &PodView<'_>) -> &'static str {
    if pod.hints_at_windows() {
        "; node affinity or a runtime class does not exempt a Windows pod, spec.os.name or \
         nodeSelector kubernetes.io/os does"
    } else {
        ""
    }
}

/// A required injector has too few usable endpoints, or cannot be connected to.
pub(super) fn not_usable(
    pod: &PodView<'_>,
    namespace: &str,
    claim: &Claim<'_>,
    looked: &Looked<'_>,
) -> String {
    let profile = &claim.injector.profile;
    let mut text = requires(pod, namespace, claim);
    let (once, place) = match looked {
        Looked::Endpoints { service, .. } => {
            let once = if profile.minimum > 1 {
                "once they are"
            } else {
                "once one is"
            };
            (once, service.namespace.as_str())
        }
        Looked::Probe { .. } | Looked::Assumed => {
            ("once it answers", profile.service.namespace.as_str())
        }
    };
    let advice = format!("{}, see kubectl -n {place} get pods", later(pod, once));
    push(
        &mut text,
        format_args!(
            " but {}; {advice}{}",
            state(profile, looked),
            windows_note(pod)
        ),
    );
    text
}

/// `0 of 2 endpoints of Service a/b are usable (1 not ready, 1 on lost node c)`.
pub fn state(profile: &Profile, looked: &Looked<'_>) -> String {
    match looked {
        Looked::Endpoints {
            service,
            tally,
            client,
        } => {
            let usable = tally.map_or(0, super::readiness::Tally::usable);
            let total = tally.map_or(0, super::readiness::Tally::total);
            let mut text = format!("{usable} of {total} endpoints of Service {service} are usable");
            if profile.minimum > 1 {
                push(
                    &mut text,
                    format_args!(" and {} are wanted", profile.minimum),
                );
            }
            let others = tally
                .map(super::readiness::Tally::others)
                .unwrap_or_default();
            let fqdn = tally.is_some_and(|tally| tally.ignored_slices > 0);
            let why = match (total, client) {
                (0, Some(Client::Url(_))) => {
                    "its webhook calls a URL: the profile can say readiness: probe or assumed"
                }
                (0, _) if fqdn => "endpoints by domain name do not count",
                (0, _) if tally.is_none() => "the Service has no EndpointSlice",
                _ => &others,
            };
            if !why.is_empty() {
                push(&mut text, format_args!(" ({why})"));
            }
            text
        }
        Looked::Probe {
            target,
            problem: Some(problem),
        } => {
            format!("{target} does not answer ({problem})")
        }
        Looked::Probe {
            target,
            problem: None,
        } => format!("{target} answers"),
        Looked::Assumed => "it is assumed to be usable".to_owned(),
    }
}

/// No webhook entry of the injector in the cluster.
pub(super) fn not_installed(pod: &PodView<'_>, namespace: &str, claim: &Claim<'_>) -> String {
    let profile = &claim.injector.profile;
    let entry = match &profile.webhook {
        Some(name) => format!("an entry {}", name.as_str()),
        None => "an entry of it".to_owned(),
    };
    let requires = requires(pod, namespace, claim);
    let later = later(pod, "once it is");
    format!(
        "{requires} but {} is not installed: no MutatingWebhookConfiguration has {entry}; {later}, \
         or without that requirement",
        claim.name()
    )
}

/// No webhook configuration carries the instance.
pub(super) fn no_instance(pod: &PodView<'_>, namespace: &str, claim: &Claim<'_>) -> String {
    let instance = shown(claim.instance().unwrap_or_default());
    let labels = claim
        .injector
        .profile
        .instances
        .iter()
        .flat_map(|i| &i.webhook_labels);
    let labels: Vec<String> = labels.map(|label| format!("{label}={instance}")).collect();
    let requires = requires(pod, namespace, claim);
    let later = later(pod, "once one does");
    format!(
        "{requires} but no MutatingWebhookConfiguration carries {}; {later}, or with the name of \
         a revision that is installed, see kubectl get mutatingwebhookconfigurations --show-labels",
        labels.join(" or ")
    )
}

/// A value that the injector does not know.
pub(super) fn invalid(pod: &PodView<'_>, namespace: &str, claim: &Claim<'_>) -> String {
    let name = claim.name();
    let Some(term) = culprit(claim.rule) else {
        return format!(
            "{} has a value that {name} does not know",
            subject(pod, namespace)
        );
    };
    let who = if term.key.place.is_on_pod() {
        subject(pod, namespace)
    } else {
        format!("Namespace {namespace}")
    };
    let value = shown(term.value(&claim.marks).unwrap_or_default());
    format!(
        "{who} has {} {}={value}, which {name} does not know, so that it would never inject this \
         pod; accepted values are {}",
        term.key.place.noun(),
        term.key.name,
        accepted(&claim.injector.profile, term).join(", ")
    )
}

/// The term whose value is the unknown one: what is in none of the known values, else the last.
fn culprit(rule: &Rule) -> Option<&Term> {
    let unknown = |term: &&Term| matches!(term.test, crate::injector::rule::Test::NotIn(_));
    rule.when.iter().find(unknown).or_else(|| rule.when.last())
}

/// All values of a key that the profile names, less the empty one.
fn accepted<'p>(profile: &'p Profile, of: &Term) -> Vec<&'p str> {
    let terms = profile.rules.iter().flat_map(|rule| &rule.when);
    let values = terms
        .filter(|term| term.key == of.key)
        .filter_map(|term| term.test.values());
    let mut accepted: Vec<&str> = Vec::new();
    for value in values.flat_map(|values| &values.list) {
        if !value.is_empty() && !accepted.contains(&value.as_str()) {
            accepted.push(value);
        }
    }
    accepted
}

/// The final pod lacks what the injector adds.
pub(super) fn not_meshed(
    pod: &PodView<'_>,
    namespace: &str,
    claim: &Claim<'_>,
    flaw: &Flaw<'_>,
) -> String {
    let profile = &claim.injector.profile;
    let name = claim.name();
    let mut text = requires(pod, namespace, claim);
    let what = match flaw {
        Flaw::InitMissing(names) => {
            format!(
                "init container {} is missing from the pod",
                names.join(" or ")
            )
        }
        Flaw::Placeholder(container, image) => format!(
            "the image of container {} is still the placeholder {image}: its webhook did not fill it in",
            shown(container)
        ),
        Flaw::NotRestartable(container) => format!(
            "{} is an init container without restartPolicy Always, which ends before the pod \
             starts: another webhook may have removed that field",
            shown(container)
        ),
        Flaw::Missing(Some(set)) => format!(
            "the pod has no {}: its webhook did not add it",
            wanted_with_place(set)
        ),
        Flaw::Missing(None) => "nothing that the pod could hold would count".to_owned(),
    };
    push(&mut text, format_args!(" but {what}"));
    if let Some(foreign) = skipped_for(profile, pod) {
        push(
            &mut text,
            format_args!(
                "; {name} passes by pods with container {foreign}, so that one pod cannot have both"
            ),
        );
    }
    if let Some(hint) = &profile.hint {
        push(&mut text, format_args!("; {hint}"));
    }
    let place = &profile.service.namespace;
    push(
        &mut text,
        format_args!("; see kubectl -n {place} get pods and the logs there"),
    );
    text.push_str(windows_note(pod));
    text
}

/// A container in the pod that makes the injector pass it by.
fn skipped_for<'p>(profile: &'p Profile, pod: &PodView<'_>) -> Option<&'p str> {
    let names = || {
        pod.containers()
            .iter()
            .chain(pod.init_containers())
            .map(|c| &*c.name)
    };
    profile
        .skips
        .iter()
        .map(String::as_str)
        .find(|skip| names().any(|name| name == *skip))
}

/// What a set wants, in words: `container linkerd-proxy and init container linkerd-init`.
pub fn wanted(set: &MeshedSet) -> String {
    let sidecar = set.sidecar.iter().map(|name| format!("container {name}"));
    let init = set.init.iter().map(|name| format!("init container {name}"));
    sidecar.chain(init).collect::<Vec<_>>().join(" and ")
}

fn wanted_with_place(set: &MeshedSet) -> String {
    match &set.sidecar {
        Some(name) => format!(
            "container {name} (looked for in containers, and in initContainers with \
             restartPolicy Always)"
        ),
        None => wanted(set),
    }
}

/// What the check will look for, in words: any one of the sets that apply.
pub fn wanted_by_check(claim: &Claim<'_>) -> String {
    let sets = meshed::applicable(&claim.injector.profile, &claim.marks);
    let words: Vec<String> = sets.map(wanted).collect();
    if words.is_empty() {
        "nothing that a pod could hold".to_owned()
    } else {
        words.join(", or ")
    }
}

/// A rule's warning, on one line with the injector's name.
pub(super) fn warning(warning: &Warning<'_>) -> Option<String> {
    let text = warning.rule.warning(&warning.marks)?;
    Some(format!("{}: {text}", warning.injector.profile.name))
}

/// What mode `warn` says in place of a refusal.
pub(super) fn would_refuse(name: &str, message: &str) -> String {
    format!("{name} only warns here, else: {message}")
}

/// Names that block as well.
pub(super) fn also(verdict: Verdict, names: &str) -> String {
    match verdict {
        Verdict::Defer => format!("; {names} is not usable either"),
        Verdict::Deny | Verdict::Admit | Verdict::Mark | Verdict::Warn | Verdict::Unreadable => {
            format!("; the same goes for {names}")
        }
    }
}

pub(super) fn namespace_unknown(namespace: &str, why: &str) -> String {
    let namespace = shown(namespace);
    format!(
        "Namespace {namespace} could not be read ({why}), so that nobody can tell which sidecar \
         the pod requires; try again in a moment, or see kubectl get namespace {namespace}"
    )
}

pub(super) fn not_synced(namespace: &str) -> String {
    format!(
        "Pod in namespace {} cannot be judged yet: the admission server is starting and has not \
         read the cluster; try again in a few seconds",
        shown(namespace)
    )
}

pub(super) fn deadline_exceeded(namespace: &str) -> String {
    format!(
        "Namespace {} could not be read in time, so that nobody can tell which sidecar the pod \
         requires; try again in a moment",
        shown(namespace)
    )
}

pub(super) fn unreadable(why: &dyn fmt::Display) -> String {
    let why = why.to_string();
    let short: String = why.chars().take(200).collect();
    format!("The object of the review cannot be read as a pod: {short}")
}

fn push(text: &mut String, what: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(what);
}
