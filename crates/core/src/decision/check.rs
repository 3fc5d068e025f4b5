//! The check: after every mutating webhook, a required sidecar must really be in the pod.
//!
//! This is the guarantee; readiness plays no part (case 2).

use crate::message::refusal;

use super::findings::{Findings, not_installed};
use super::mark::Edit;
use super::meshed::{self, Flaw, Meshed};
use super::pod::PodView;
use super::reason::Reason;
use super::requirement::{Claim, Requirement};
use super::{Decision, Readiness, Verdict};

/// Decides on the final pod, that no exemption covers. Of `readiness` only "not installed"
/// counts: waiting helps there, and fixing the pod does not.
pub fn decide<'a>(
    pod: &PodView<'_>,
    requirement: &Requirement<'a>,
    readiness: impl Fn(&Claim<'a>) -> Readiness<'a>,
) -> Decision<'a> {
    let mut found = Findings::new(pod, requirement);
    found.invalid_values();
    for claim in requirement
        .claims
        .iter()
        .filter(|claim| !claim.is_invalid())
    {
        let Meshed::No(flaw) = meshed::of(&claim.injector.profile, pod, &claim.marks) else {
            continue;
        };
        let readiness = readiness(claim);
        if let Some((reason, message)) = not_installed(pod, claim, &readiness, requirement) {
            found.add(claim, Verdict::Defer, reason, message);
            continue;
        }
        let mut message = refusal::not_meshed(pod, requirement.namespace, claim, &flaw);
        message.push_str(&refusal::see_logs(pod, claim, &readiness));
        found.add(claim, Verdict::Deny, reason(&flaw), message);
    }
    found.decision(Verdict::Admit, Reason::SidecarPresent, Edit::Keep)
}

fn reason(flaw: &Flaw<'_>) -> Reason {
    match flaw {
        Flaw::InitMissing(_) => Reason::InitMissing,
        Flaw::Placeholder(..) => Reason::SidecarPlaceholder,
        Flaw::NotRestartable(_) => Reason::SidecarNotRestartable,
        Flaw::Missing(_) => Reason::SidecarMissing,
    }
}
