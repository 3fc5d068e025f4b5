//! The gate: a pod is refused while a required injector is not usable, else marked.

use crate::injector::spec::Mode;
use crate::message::refusal;

use super::findings::{Findings, not_installed};
use super::mark::Edit;
use super::meshed::{self, Meshed};
use super::pod::PodView;
use super::reason::Reason;
use super::requirement::{Claim, Requirement};
use super::{Decision, Readiness, Verdict};

/// Decides on a pod that no exemption covers. `readiness` says of a required injector whether it
/// can be tried now; it is not asked about injectors whose sidecar is there already.
pub fn decide<'a>(
    pod: &PodView<'_>,
    requirement: &Requirement<'a>,
    readiness: impl Fn(&Claim<'a>) -> Readiness<'a>,
) -> Decision<'a> {
    let mut found = Findings::new(pod, requirement);
    found.invalid_values();
    let mut admitted = Vec::new();
    let mut all_meshed = true;
    for claim in requirement
        .claims
        .iter()
        .filter(|claim| !claim.is_invalid())
    {
        let profile = &claim.injector.profile;
        // Nothing is missing, so that the injector's state is nobody's business (case 23).
        let is_meshed = meshed::of(profile, pod, &claim.marks) == Meshed::Yes;
        let problem = if is_meshed {
            None
        } else {
            problem(pod, claim, &readiness(claim), requirement)
        };
        all_meshed &= is_meshed;
        match problem {
            Some((reason, message)) => found.add(claim, Verdict::Defer, reason, message),
            None if claim.mode() == Mode::Enforce => admitted.push(claim.name()),
            None => {}
        }
    }
    let reason = if all_meshed {
        Reason::AlreadyMeshed
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

/// Why the injector cannot be tried now.
fn problem(
    pod: &PodView<'_>,
    claim: &Claim<'_>,
    readiness: &Readiness<'_>,
    requirement: &Requirement<'_>,
) -> Option<(Reason, String)> {
    let namespace = requirement.namespace;
    match readiness {
        Readiness::Usable(_) => None,
        Readiness::NotUsable(looked) => {
            let message = refusal::not_usable(pod, namespace, claim, looked);
            Some((Reason::InjectorNotReady, message))
        }
        Readiness::NotInstalled | Readiness::NoInstance => {
            not_installed(pod, claim, readiness, requirement)
        }
    }
}
