//! The check: after every mutating webhook, a required sidecar must really be in the pod.
//!
//! This is the guarantee; readiness plays no part (case 2).

use crate::message::refusal;
use crate::readiness::Readiness;
use crate::view::pod::PodView;

use super::Decision;
use super::findings::Findings;
use super::injected::{self, Flaw};
use super::mark::Edit;
use super::reason::Reason;
use super::requirement::{Requirement, RuleMatch};
use super::verdict::Verdict;

/// Decides on the final pod, that no exemption covers. Of `readiness` only "not installed"
/// counts: waiting helps there, and fixing the pod does not.
pub fn decide<'a>(
    pod: &PodView<'_>,
    requirement: &Requirement<'a>,
    readiness: impl Fn(&RuleMatch<'a>) -> Readiness<'a>,
) -> Decision<'a> {
    let mut found = Findings::new(pod, requirement);
    for matched in requirement.valid() {
        let profile = &matched.injector.profile;
        let Some(flaw) = injected::flaw(profile, pod, &matched.values) else {
            continue;
        };
        // A missing injector is no fault of the pod, and a firm refusal would send its author to look for one.
        let readiness = readiness(matched);
        if found.not_installed(matched, &readiness) {
            continue;
        }
        let mut message = refusal::not_injected(pod, requirement.namespace, matched, &flaw);
        message.push_str(&refusal::see_logs(pod, matched, &readiness));
        found.add(matched, Verdict::Deny, reason(&flaw), message);
    }
    found.decision(Verdict::Admit, Reason::SidecarPresent, Edit::Keep)
}

/// One word for each flaw, so that a metric tells a broken injector from another webhook that interferes.
fn reason(flaw: &Flaw<'_>) -> Reason {
    match flaw {
        Flaw::InitMissing(_) => Reason::InitMissing,
        Flaw::Image(..) => Reason::SidecarImage,
        Flaw::Placeholder(..) => Reason::SidecarPlaceholder,
        Flaw::NotRestartable(_) => Reason::SidecarNotRestartable,
        Flaw::Missing(_) => Reason::SidecarMissing,
    }
}
