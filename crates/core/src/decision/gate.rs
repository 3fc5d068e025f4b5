//! The gate: a pod is refused while a required injector is not usable, else marked.
//!
//! It spares the check work and tells why a pod waits. It cannot give the guarantee: an injector
//! can go away between the gate's answer and its own (case 2).

use crate::injector::profile::Mode;
use crate::message::refusal;
use crate::readiness::Readiness;
use crate::view::pod::PodView;

use super::Decision;
use super::findings::Findings;
use super::injected;
use super::mark::Edit;
use super::reason::Reason;
use super::requirement::{Requirement, RuleMatch};
use super::verdict::Verdict;

/// Decides on a pod that no exemption covers. `readiness` says of a required injector whether it
/// can be tried now; it is not asked about injectors whose sidecar is there already.
pub fn decide<'a>(
    pod: &PodView<'_>,
    requirement: &Requirement<'a>,
    readiness: impl Fn(&RuleMatch<'a>) -> Readiness<'a>,
) -> Decision<'a> {
    let mut found = Findings::new(pod, requirement);
    let mut admitted = Vec::new();
    let mut all_injected = true;
    for matched in requirement.valid() {
        let flaw = injected::flaw(&matched.injector.profile, pod, &matched.values);
        // Where nothing is missing, the injector's state does not matter: a pod that was copied with its
        // sidecar would wait for nothing (case 23).
        let is_injected = flaw.is_none();
        all_injected &= is_injected;
        let blocks = !is_injected && blocks(&mut found, matched, &readiness(matched));
        // The mark names what is guaranteed, so that injectors in mode `warn` are not in it.
        if !blocks && matched.mode() == Mode::Enforce {
            admitted.push(matched.name());
        }
    }
    let reason = if all_injected {
        Reason::AlreadyInjected
    } else {
        Reason::InjectorReady
    };
    let verdict = if admitted.is_empty() {
        Verdict::Admit
    } else {
        Verdict::Mark
    };
    found.decision(verdict, reason, Edit::admitted_for(admitted))
}

/// The injectors whose readiness the gate asks for before it lets such a pod pass: those in mode `enforce` that are
/// required, and whose sidecar is not in it yet.
pub fn awaited<'r, 'a>(
    pod: &'r PodView<'_>,
    requirement: &'r Requirement<'a>,
) -> impl Iterator<Item = &'r RuleMatch<'a>> {
    requirement.valid().filter(move |matched| {
        let lacks = || injected::flaw(&matched.injector.profile, pod, &matched.values).is_some();
        matched.mode() == Mode::Enforce && lacks()
    })
}

/// Notes why the injector cannot be tried now, if it cannot.
fn blocks<'a>(
    found: &mut Findings<'_, 'a>,
    matched: &RuleMatch<'a>,
    readiness: &Readiness<'a>,
) -> bool {
    if let Readiness::NotUsable(looked) = readiness {
        let message = refusal::not_usable(found.pod, found.requirement.namespace, matched, looked);
        found.add(matched, Verdict::Defer, Reason::InjectorNotReady, message);
        return true;
    }
    found.not_installed(matched, readiness)
}
