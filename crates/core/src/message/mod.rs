//! What people are told: one sentence each, in `kubectl describe replicaset` or after `kubectl run`.
//!
//! Each names the rule and the injector it requires, what meshgate looked at, how many endpoints
//! are usable, why the others are not, and what to do (design section 5). Values that tenants
//! chose are shortened and kept on one line.
//!
//! `refusal.rs` has the refusals that concern one injector. A policy says the same in CEL, and its
//! twin file stands beside it.

mod clause;
pub mod finding;
pub(crate) mod policy;
pub(crate) mod refusal;

use std::fmt::{self, Write};

use crate::decision::injected;
use crate::decision::requirement::RuleMatch;
use crate::decision::verdict::Verdict;
use crate::injector::Injector;
use crate::injector::profile::{InjectedSet, Mode, Profile};
use crate::readiness::Looked;
use crate::readiness::endpoints::Tally;
use crate::readiness::installation::Client;
use crate::text::{one_line, shown};
use crate::view::pod::PodView;

/// Longest message, in characters. An event holds 1,024 bytes of it, a condition somewhat more.
const MAX_MESSAGE: usize = 1_000;

/// Longest text of an error that a message repeats, in characters.
const MAX_REASON: usize = 200;

/// A message of at most [`MAX_MESSAGE`] characters, on one line. The last one is then `…`.
pub(crate) fn bounded(message: String) -> String {
    let is_long = message.chars().nth(MAX_MESSAGE).is_some();
    if !is_long && !message.contains(char::is_control) {
        return message;
    }
    one_line(&message, MAX_MESSAGE - usize::from(is_long))
}

/// `Pod shop- in namespace orders`.
fn subject(pod: &PodView<'_>, namespace: &str) -> String {
    match pod.display_name() {
        "" => format!("Pod in namespace {namespace}"),
        name => format!("Pod {} in namespace {namespace}", shown(name)),
    }
}

/// The terms that decided, with the values that are there, each with where it is:
/// `annotation linkerd.io/inject=enabled on the namespace`. `has_places` says whether to name places also where
/// only one of pod and namespace has a say.
pub fn reason(matched: &RuleMatch<'_>, has_places: bool) -> String {
    let (terms, is_mixed) = clause::reasons(matched.rule);
    if terms.is_empty() {
        return clause::by_default(matched.rule);
    }
    let words = terms.into_iter().map(|term| {
        let value = shown(term.value(&matched.values).unwrap_or_default());
        let word = clause::key(&term.key) + &value;
        if is_mixed || has_places {
            word + clause::whose(&term.key)
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" and ")
}

/// `Namespace orders requires linkerd (annotation linkerd.io/inject=enabled)`, or the pod does.
fn requires(pod: &PodView<'_>, namespace: &str, matched: &RuleMatch<'_>) -> String {
    let who = if matched.rule.is_asked_by_pod() {
        subject(pod, namespace)
    } else {
        format!("Namespace {namespace}")
    };
    let rule = reason(matched, false);
    format!("{who} requires {} ({rule})", matched.name())
}

/// What becomes of the pod afterwards: a controller tries again, a person must.
fn later(pod: &PodView<'_>, once: &str) -> String {
    match pod.owner() {
        Some(_) => format!("the pod is created {once}"),
        None => format!("try again {once}"),
    }
}

/// `0 of 2 endpoints of Service a/b are usable (1 not ready, 1 on lost node c)`.
pub fn state(profile: &Profile, looked: &Looked<'_>) -> String {
    match looked {
        Looked::Endpoints {
            service,
            tally,
            client,
        } => {
            let (usable, total) = tally.map_or((0, 0), |tally| (tally.usable(), tally.total()));
            let mut text = format!("{usable} of {total} endpoints of Service {service} are usable");
            if profile.minimum > 1 {
                let wanted = profile.minimum;
                push(&mut text, format_args!(" and {wanted} are wanted"));
            }
            let why = why_not_usable(*tally, *client);
            if !why.is_empty() {
                push(&mut text, format_args!(" ({why})"));
            }
            text
        }
        Looked::Unread { service } => {
            format!("the admission server has not read the endpoints of Service {service} yet")
        }
        Looked::Probe { target, problem } => match problem {
            Some(problem) => format!("{target} does not answer ({problem})"),
            None => format!("{target} answers"),
        },
        Looked::Assumed => "it is assumed to be usable".to_owned(),
    }
}

/// Why not all endpoints are usable, or why there is none. Empty if all are.
fn why_not_usable<'t>(tally: Option<&'t Tally>, client: Option<&Client>) -> &'t str {
    let Some(tally) = tally else {
        return match client {
            Some(Client::Url(_)) => {
                "its webhook calls a URL, which has no endpoints: the configuration can say readiness: \
                 probe"
            }
            Some(Client::Service { .. }) | None => "the Service has no EndpointSlice",
        };
    };
    // An injector scaled to zero has an empty slice, whatever its webhook calls.
    if tally.total() == 0 && tally.ignored_slices > 0 {
        return "endpoints by domain name do not count";
    }
    tally.others()
}

/// What a set wants, in words: `container linkerd-proxy and init container linkerd-init`.
pub fn wanted(set: &InjectedSet) -> String {
    let sidecar = set.sidecar.iter().map(|name| format!("container {name}"));
    let init = set.init.iter().map(|name| format!("init container {name}"));
    sidecar.chain(init).collect::<Vec<_>>().join(" and ")
}

/// What the check will look for, in words: any one of the sets that apply.
pub fn wanted_by_check(matched: &RuleMatch<'_>) -> String {
    let sets = injected::applicable(&matched.injector.profile, &matched.values);
    let words: Vec<String> = sets.map(wanted).collect();
    if words.is_empty() {
        "nothing that a pod could hold".to_owned()
    } else {
        words.join(", or ")
    }
}

/// A rule's warning, on one line with the injector's name.
pub(crate) fn warning(matched: &RuleMatch<'_>) -> Option<String> {
    let text = matched.rule.warning(&matched.values)?;
    Some(bounded(format!("{}: {text}", matched.name())))
}

/// What mode `warn` says in place of a refusal. So does break-glass, which waives the injector. Mode
/// `warn` is the reason where both hold: it also admits the pod after the suspension.
pub(crate) fn would_refuse(injector: &Injector, message: &str) -> String {
    let name = &injector.profile.name;
    let why = if injector.profile.mode == Mode::Warn {
        format!("{name} is in mode warn")
    } else {
        format!("break-glass suspends {name}")
    };
    format!("meshgate admits this pod only because {why}: {message}")
}

/// Names that block as well.
pub(crate) fn also(verdict: Verdict, names: &str) -> String {
    match verdict {
        Verdict::Defer => format!("; it waits for {names} too"),
        Verdict::Deny | Verdict::Admit | Verdict::Mark | Verdict::Warn | Verdict::Unreadable => {
            format!("; it is refused because of {names} too")
        }
    }
}

pub(crate) fn namespace_unknown(namespace: &str, why: &str) -> String {
    let namespace = shown(namespace);
    // An error with an address or a path in it is longer than a value.
    let why = one_line(why, MAX_REASON);
    format!(
        "Namespace {namespace} could not be read ({why}), and it says which sidecars the pod \
         requires; try again in a moment, or see kubectl get namespace {namespace}"
    )
}

pub(crate) fn not_synced(namespace: &str) -> String {
    format!(
        "Pod in namespace {} cannot be judged yet: the admission server is starting and has not \
         read the cluster; try again in a few seconds",
        shown(namespace)
    )
}

pub(crate) fn deadline_exceeded(namespace: &str) -> String {
    format!(
        "Namespace {} could not be read in time, and it says which sidecars the pod requires; try \
         again in a moment",
        shown(namespace)
    )
}

pub(crate) fn unreadable(why: &dyn fmt::Display) -> String {
    let why = one_line(&why.to_string(), MAX_REASON);
    format!("The object cannot be read as a pod: {why}")
}

fn push(text: &mut String, what: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(what);
}

#[cfg(test)]
mod tests;
