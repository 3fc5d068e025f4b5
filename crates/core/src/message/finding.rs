//! The sentences of an audit: about a pod that exists, with what to do.

use std::fmt;

use crate::audit::cause::Cause;
use crate::audit::version::Version;
use crate::decision::injected::Flaw;
use crate::decision::requirement::RuleMatch;
use crate::injector::rule::Outcome;
use crate::text::{one_line, shown};
use crate::view::pod::PodView;

use super::{MAX_REASON, bounded, push, reason, refusal, requires, subject};

/// What to do about a pod; empty if nothing is to be done. `again` says how the pod is made anew.
pub fn advice(cause: Cause, again: &str) -> String {
    match cause {
        Cause::SidecarNotRestartable => {
            format!("find the webhook that removes restartPolicy, then {again}")
        }
        Cause::SidecarImage => format!("correct the image or the profile, then {again}"),
        Cause::EnforcementSuspended => format!("once enforcement is resumed, {again}"),
        Cause::InvalidValue => format!("correct the value, then {again}"),
        Cause::OptOutForbidden => format!("remove the opt-out, then {again}"),
        Cause::PlaceholderImage
        | Cause::InitMissing
        | Cause::MarkedButBare
        | Cause::OlderThanRequirement
        | Cause::NotArmed
        | Cause::ModeWarn
        | Cause::Unexplained
        | Cause::OtherRevision
        | Cause::OlderProxy => again.to_owned(),
        Cause::NamespaceUnknown => {
            "give the Namespace among the files, or grant the right to read it".to_owned()
        }
        Cause::UnreadableObject => "read it with kubectl get pod -o yaml".to_owned(),
        Cause::SidecarPresent
        | Cause::PodOptOut
        | Cause::ExcludedNamespace
        | Cause::MirrorPod
        | Cause::HostNetwork
        | Cause::OsWindows => String::new(),
    }
}

/// A fact, with what to do about it.
fn with_advice(fact: &str, cause: Cause, pod: &PodView<'_>, before: &str) -> String {
    let again = match pod.owner() {
        Some(_) => "restart its owner",
        None => "create the pod again",
    };
    let advice = advice(cause, &format!("{before}{again}"));
    bounded(format!("{fact}; {advice}"))
}

/// The pod requires the injector and lacks its sidecar.
pub(crate) fn bare(
    pod: &PodView<'_>,
    namespace: &str,
    matched: &RuleMatch<'_>,
    (flaw, cause): (&Flaw<'_>, Cause),
    is_installed: bool,
) -> String {
    let name = matched.name();
    let mut fact = if matched.is_invalid() {
        refusal::invalid(pod, namespace, matched)
    } else if matched.is_forbidden() {
        refusal::opts_out(pod, namespace, matched)
    } else {
        refusal::not_injected(pod, namespace, matched, flaw)
    };
    if let Some(why) = why(cause) {
        push(&mut fact, format_args!("; {why}"));
    }
    let before = if is_installed {
        String::new()
    } else {
        push(&mut fact, format_args!("; {name} is not installed"));
        format!("install {name}, then ")
    };
    with_advice(&fact, cause, pod, &before)
}

/// What else is known of a cause.
const WHY: [(Cause, &str); 10] = [
    (
        Cause::MarkedButBare,
        "meshgate admitted the pod for it, and the sidecar is gone",
    ),
    (Cause::EnforcementSuspended, "enforcement is suspended"),
    (
        Cause::OlderThanRequirement,
        "the pod is older than this requirement",
    ),
    (
        Cause::NotArmed,
        "meshgate was not armed when the pod was created",
    ),
    (Cause::ModeWarn, "mode warn admits such pods"),
    (Cause::Unexplained, "meshgate sees no cause"),
    (
        Cause::ExcludedNamespace,
        "meshgate never looks at pods of this namespace",
    ),
    (
        Cause::MirrorPod,
        "a kubelet runs its mirror pods whatever the API server answers",
    ),
    (Cause::OsWindows, "injectors pass by Windows pods"),
    (
        Cause::HostNetwork,
        "injectors pass by pods on the host network",
    ),
];

fn why(cause: Cause) -> Option<&'static str> {
    let mut all = WHY.into_iter();
    all.find(|(own, _)| *own == cause).map(|(_, why)| why)
}

/// Another copy of the injector injected the pod than injects now.
pub(crate) fn other_revision(
    pod: &PodView<'_>,
    namespace: &str,
    matched: &RuleMatch<'_>,
    (own, wanted): (&str, &str),
) -> String {
    let requires = requires(pod, namespace, matched);
    let (own, wanted) = (shown(own), shown(wanted));
    let fact = format!("{requires} of revision {wanted}, but revision {own} has injected the pod");
    with_advice(&fact, Cause::OtherRevision, pod, "")
}

/// The sidecar is too old.
pub(crate) fn older_proxy(
    pod: &PodView<'_>,
    matched: &RuleMatch<'_>,
    (own, newer): (Version, Version),
) -> String {
    let name = matched.name();
    let fact = format!("the sidecar of {name} has version {own}, but {name} has version {newer}");
    with_advice(&fact, Cause::OlderProxy, pod, "")
}

pub(crate) fn injected(matched: &RuleMatch<'_>) -> String {
    format!("the pod has the sidecar of {}", matched.name())
}

/// The pod opts out of what its namespace requires.
pub(crate) fn opted_out(pod: &PodView<'_>, namespace: &str, matched: &RuleMatch<'_>) -> String {
    let (who, why) = (subject(pod, namespace), reason(matched, false));
    bounded(format!("{who} opts out of {} ({why})", matched.name()))
}

/// An exemption spares the pod.
pub(crate) fn exempt(
    pod: &PodView<'_>,
    namespace: &str,
    matched: &RuleMatch<'_>,
    cause: Cause,
) -> String {
    let why = why(cause).unwrap_or_default();
    let who = match matched.rule.then {
        Outcome::Required => requires(pod, namespace, matched),
        Outcome::Invalid | Outcome::OptOut | Outcome::NotRequired => subject(pod, namespace),
    };
    bounded(format!("{who}, but {why}"))
}

pub(crate) fn namespace_unknown(namespace: &str) -> String {
    let namespace = shown(namespace);
    let advice = advice(Cause::NamespaceUnknown, "");
    format!(
        "Namespace {namespace} was not read, and it says which sidecars the pod requires; {advice}"
    )
}

pub(crate) fn unreadable(why: &dyn fmt::Display) -> String {
    let why = one_line(&why.to_string(), MAX_REASON);
    let advice = advice(Cause::UnreadableObject, "");
    format!("the object cannot be read as a pod: {why}; {advice}")
}
