//! The refusals that concern one injector: what is wrong and what to do.
//!
//! The wording is a promise: people search for it, and tests hold it. A policy says the same in CEL.

use crate::decision::injected::Flaw;
use crate::decision::requirement::RuleMatch;
use crate::injector::profile::Profile;
use crate::injector::rule::Term;
use crate::readiness::{Looked, Readiness};
use crate::text::shown;
use crate::view::pod::{Container, PodView};

use super::{clause, later, push, reason, requires, state, subject};

/// Said of pods that look like Windows pods and are not exempt for it (case 34).
fn windows_note(pod: &PodView<'_>) -> &'static str {
    if pod.hints_at_windows() {
        "; node affinity or a runtime class does not exempt a Windows pod, spec.os.name or \
         nodeSelector kubernetes.io/os does"
    } else {
        ""
    }
}

/// A required injector has too few usable endpoints, or does not answer (case 1).
pub(crate) fn not_usable(
    pod: &PodView<'_>,
    namespace: &str,
    matched: &RuleMatch<'_>,
    looked: &Looked<'_>,
) -> String {
    let profile = &matched.injector.profile;
    let mut text = requires(pod, namespace, matched);
    let (once, place) = match looked {
        Looked::Endpoints { service, .. } => {
            let once = if profile.minimum > 1 {
                "once they are"
            } else {
                "once one is"
            };
            (once, service.namespace.as_str())
        }
        Looked::Unread { service } => ("once it has", service.namespace.as_str()),
        Looked::Probe { .. } | Looked::Assumed => {
            ("once it answers", profile.service.namespace.as_str())
        }
    };
    let advice = format!("{}, see kubectl -n {place} get pods", later(pod, once));
    let (state, note) = (state(profile, looked), windows_note(pod));
    push(&mut text, format_args!(" but {state}; {advice}{note}"));
    text
}

/// No webhook entry of the injector in the cluster.
pub(crate) fn not_installed(pod: &PodView<'_>, namespace: &str, matched: &RuleMatch<'_>) -> String {
    let profile = &matched.injector.profile;
    let mut entry = match &profile.webhook {
        Some(name) => format!("an entry {}", name.as_str()),
        None => "an entry of it".to_owned(),
    };
    // Others use the same name: it may well be there, with another path.
    if let Some(path) = &profile.path {
        push(&mut entry, format_args!(" with path {path}"));
    }
    let requires = requires(pod, namespace, matched);
    let later = later(pod, "once it is installed, or once nothing requires it");
    format!(
        "{requires} but {} is not installed: no MutatingWebhookConfiguration has {entry}; {later}",
        matched.name()
    )
}

/// No webhook configuration carries the instance (case 31): a revision that was removed, or a typing
/// error in a label.
pub(crate) fn no_instance(pod: &PodView<'_>, namespace: &str, matched: &RuleMatch<'_>) -> String {
    let instance = shown(matched.instance().unwrap_or_default());
    let labels = matched.injector.profile.instances.iter();
    let labels = labels.flat_map(|copies| &copies.webhook_labels);
    let labels: Vec<String> = labels.map(|label| format!("{label}={instance}")).collect();
    let requires = requires(pod, namespace, matched);
    let later = later(pod, "once one does");
    format!(
        "{requires} but no MutatingWebhookConfiguration carries the label {}; {later}, kubectl \
         get mutatingwebhookconfigurations --show-labels lists those that are installed",
        labels.join(" or ")
    )
}

/// A value that the injector does not know (case 25).
pub(crate) fn invalid(pod: &PodView<'_>, namespace: &str, matched: &RuleMatch<'_>) -> String {
    let name = matched.name();
    let Some(term) = culprit(matched) else {
        return subject(pod, namespace) + &clause::unknown_value(name);
    };
    let who = if term.key.place.is_on_pod() {
        subject(pod, namespace)
    } else {
        format!("Namespace {namespace}")
    };
    let value = shown(term.value(&matched.values).unwrap_or_default());
    let unknown = clause::unknown(&matched.injector.profile, &term.key);
    format!("{who} has {}{value}{unknown}", clause::key(&term.key))
}

/// A pod that spares itself, where the profile forbids that.
pub(crate) fn opts_out(pod: &PodView<'_>, namespace: &str, matched: &RuleMatch<'_>) -> String {
    let [before, behind] = clause::opts_out(matched.name());
    let (who, why) = (subject(pod, namespace), reason(matched, false));
    format!("{who}{before}{why}{behind}")
}

/// An update gives a sidecar an image that it may not have; with how that has to begin.
pub(crate) fn image_replaced(
    pod: &PodView<'_>,
    namespace: &str,
    profile: &Profile,
    (container, images): (&Container<'_>, &[&str]),
) -> String {
    let [before, between] = clause::IMAGE_REPLACED;
    let (name, image) = (shown(&container.name), shown(&container.image));
    let who = subject(pod, namespace);
    let images = clause::images(&profile.name, images);
    format!("{who}{before}{name}{between}{image}{images}")
}

/// The term whose value is the unknown one: what is there and in none of the known values, else
/// the last whose key is there.
fn culprit<'a>(matched: &RuleMatch<'a>) -> Option<&'a Term> {
    let there = |term: &&Term| term.value(&matched.values).is_some();
    let unknown = |term: &&Term| there(term) && term.test.excludes();
    let terms = &matched.rule.when;
    let last = || terms.iter().rev().find(there);
    terms.iter().find(unknown).or_else(last)
}

/// The final pod lacks what the injector adds (case 2).
pub(crate) fn not_injected(
    pod: &PodView<'_>,
    namespace: &str,
    matched: &RuleMatch<'_>,
    flaw: &Flaw<'_>,
) -> String {
    let profile = &matched.injector.profile;
    let name = matched.name();
    let mut text = requires(pod, namespace, matched);
    let what = match flaw {
        Flaw::InitMissing(names) => {
            let [before, behind] = clause::INIT_MISSING;
            format!("{before}{}{behind}", names.join(" or "))
        }
        Flaw::Image(container, image, set) => {
            let [before, between] = clause::IMAGE;
            let (container, image) = (shown(container), shown(image));
            let images = clause::images(name, &set.images);
            format!("{before}{container}{between}{image}{images}")
        }
        Flaw::Placeholder(container, image) => {
            let [before, between, behind] = clause::placeholder(name);
            format!("{before}{}{between}{image}{behind}", shown(container))
        }
        Flaw::NotRestartable(container) => shown(container) + clause::NOT_RESTARTABLE,
        Flaw::Missing(Some(set)) => clause::missing(name, set),
        Flaw::Missing(None) => clause::NO_SET.to_owned(),
    };
    push(&mut text, format_args!(" but {what}"));
    if let Some(foreign) = skipped_for(profile, pod) {
        text.push_str(&clause::passed_by(name, foreign));
    }
    if let Some(hint) = &profile.hint {
        text.push_str(&clause::hint(hint));
    }
    text
}

/// Where to look for what the injector did: where it is, not where it usually is.
pub(crate) fn see_logs(
    pod: &PodView<'_>,
    matched: &RuleMatch<'_>,
    readiness: &Readiness<'_>,
) -> String {
    let place = match readiness {
        Readiness::Usable(Looked::Endpoints { service, .. })
        | Readiness::NotUsable(Looked::Endpoints { service, .. }) => &service.namespace,
        Readiness::Usable(_)
        | Readiness::NotUsable(_)
        | Readiness::NotInstalled
        | Readiness::NoInstance => &matched.injector.profile.service.namespace,
    };
    clause::see_logs(place) + windows_note(pod)
}

/// A container in the pod that makes the injector pass it by.
fn skipped_for<'p>(profile: &'p Profile, pod: &PodView<'_>) -> Option<&'p str> {
    let all = || pod.containers().iter().chain(pod.init_containers());
    let mut skips = profile.skips.iter().map(String::as_str);
    skips.find(|skip| all().any(|one| &*one.name == *skip))
}
