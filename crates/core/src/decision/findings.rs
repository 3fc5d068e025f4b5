//! What gate and check have in common: what blocks, in the order of the configuration, and what
//! only warns.

use crate::injector::spec::Mode;
use crate::message;
use crate::message::refusal;

use super::mark::Edit;
use super::pod::PodView;
use super::reason::Reason;
use super::requirement::{Claim, Requirement};
use super::{Decision, Readiness, Verdict};

/// The same from gate and check, so that nobody is told for ever to fix a pod for an injector
/// that is not there.
pub(super) fn not_installed(
    pod: &PodView<'_>,
    claim: &Claim<'_>,
    readiness: &Readiness<'_>,
    requirement: &Requirement<'_>,
) -> Option<(Reason, String)> {
    let namespace = requirement.namespace;
    match readiness {
        Readiness::Usable(_) | Readiness::NotUsable(_) => None,
        Readiness::NotInstalled => Some((
            Reason::InjectorNotInstalled,
            refusal::not_installed(pod, namespace, claim),
        )),
        Readiness::NoInstance => {
            let reason = Reason::NoInjectorForRevision;
            Some((reason, refusal::no_instance(pod, namespace, claim)))
        }
    }
}

/// Collects what blocks a pod.
pub(super) struct Findings<'r, 'a> {
    pod: &'r PodView<'r>,
    requirement: &'r Requirement<'a>,
    blocking: Option<(Verdict, Reason, &'a str, String)>,
    also_blocking: Vec<&'a str>,
    warned: Option<(Reason, &'a str)>,
    warnings: Vec<String>,
}

impl<'r, 'a> Findings<'r, 'a> {
    pub(super) fn new(pod: &'r PodView<'r>, requirement: &'r Requirement<'a>) -> Self {
        let warnings = requirement
            .warnings
            .iter()
            .filter_map(message::warning)
            .collect();
        Self {
            pod,
            requirement,
            blocking: None,
            also_blocking: Vec::new(),
            warned: None,
            warnings,
        }
    }

    /// A value that an injector does not know is a firm refusal, whatever the pod holds: the
    /// injector would pass it by, so that it could never be admitted (case 25).
    pub(super) fn invalid_values(&mut self) {
        for claim in self
            .requirement
            .claims
            .iter()
            .filter(|claim| claim.is_invalid())
        {
            let message = refusal::invalid(self.pod, self.requirement.namespace, claim);
            self.add(claim, Verdict::Deny, Reason::InvalidValue, message);
        }
    }

    pub(super) fn add(
        &mut self,
        claim: &Claim<'a>,
        verdict: Verdict,
        reason: Reason,
        message: String,
    ) {
        if claim.mode() == Mode::Warn {
            let warning = message::would_refuse(claim.name(), &message);
            self.warnings.push(message::bounded(warning));
            self.warned = self.warned.or_else(|| Some((reason, claim.name())));
            return;
        }
        match &self.blocking {
            None => self.blocking = Some((verdict, reason, claim.name(), message)),
            // A temporary obstacle says nothing to somebody who must correct the pod.
            Some((first, ..)) if *first == verdict => self.also_blocking.push(claim.name()),
            Some(_) => {}
        }
    }

    /// The decision; the arguments are for a pod that nothing blocks.
    pub(super) fn decision(self, verdict: Verdict, reason: Reason, mark: Edit) -> Decision<'a> {
        let claims = &self.requirement.claims;
        let required: Vec<&str> = claims.iter().map(Claim::name).collect();
        let first = required.first().copied();
        let base = Decision {
            warnings: self.warnings,
            required,
            mark,
            ..Decision::admit(reason)
        };
        if let Some((verdict, reason, injector, mut message)) = self.blocking {
            if !self.also_blocking.is_empty() {
                let names = self.also_blocking.join(", ");
                message.push_str(&message::also(verdict, &names));
            }
            return Decision {
                verdict,
                reason,
                injector: Some(injector),
                message: message::bounded(message),
                mark: Edit::Keep,
                ..base
            };
        }
        if let Some((reason, injector)) = self.warned {
            return Decision {
                verdict: Verdict::Warn,
                reason,
                injector: Some(injector),
                ..base
            };
        }
        if claims.is_empty() {
            let opted_out = self.requirement.opted_out;
            let reason = if opted_out {
                Reason::PodOptOut
            } else {
                Reason::NotRequired
            };
            return Decision {
                reason,
                verdict: Verdict::Admit,
                ..base
            };
        }
        Decision {
            verdict,
            injector: first,
            ..base
        }
    }
}
